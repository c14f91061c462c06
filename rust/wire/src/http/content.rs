//! What the bytes of a body become: one message, events, or raw pieces. Knows neither framing nor
//! content codings: it sees the body alone.

use super::head::Kind;
use crate::error::wide;
use crate::frame::{Frame, Frames};
use crate::rope::Gather;
use crate::{Code, Fault, SseDecoder};

/// The bytes of one body.
#[derive(Debug)]
pub(super) enum Content {
    /// One message.
    Message(Message),
    /// An event stream.
    Events(Box<SseDecoder>),
    /// Raw pieces: the body has a content coding.
    Raw,
}

/// A body that is one message.
#[derive(Debug)]
pub(super) struct Message {
    body: Gather,
    size: usize,
    limit: usize,
}

impl Content {
    pub(super) fn new(kind: Kind, limit: usize) -> Self {
        if kind == Kind::Sse {
            Content::Events(Box::new(SseDecoder::new(limit)))
        } else {
            Content::Message(Message {
                body: Gather::default(),
                size: 0,
                limit,
            })
        }
    }

    /// Takes a piece of the body. `held` is parked when the read ends.
    pub(super) fn push<'a>(
        &mut self,
        piece: &'a [u8],
        held: &mut &'a [u8],
        frames: &mut Frames<'a>,
    ) -> Result<(), Fault> {
        match self {
            Content::Message(message) => message.push(piece, held),
            Content::Events(events) => events.feed(piece, frames),
            Content::Raw => {
                frames.push(Frame::Data(piece));
                Ok(())
            }
        }
    }

    pub(super) fn park(&mut self, held: &mut &[u8]) {
        if let Content::Message(message) = self {
            message.body.park(held);
        }
    }

    /// The body is complete.
    pub(super) fn finish<'a>(&mut self, held: &mut &'a [u8], frames: &mut Frames<'a>) {
        match self {
            Content::Message(message) => {
                let mut body = message.body.take(held);
                if !crate::CANARY || body.as_slice().is_some() {
                    body.strip_bom();
                }
                if !body.is_empty() {
                    frames.push(Frame::Body(body));
                }
            }
            Content::Events(events) => events.finish(frames),
            Content::Raw => {}
        }
    }

    /// The body will not be completed.
    pub(super) fn abandon(&mut self, frames: &mut Frames<'_>) {
        if let Content::Events(events) = self {
            events.finish(frames);
        }
    }
}

impl Message {
    fn push<'a>(&mut self, piece: &'a [u8], held: &mut &'a [u8]) -> Result<(), Fault> {
        let room = self.limit - self.size;
        if piece.len() > room {
            let position = wide(self.limit);
            return Err(Fault::new(Code::MessageTooLarge, position, position + 1));
        }
        self.size += piece.len();
        self.body.push(held, piece);
        Ok(())
    }
}

/// Decodes a body alone: bytes that had a content coding on the wire.
#[derive(Debug)]
pub struct BodyDecoder {
    content: Content,
    dead: bool,
}

impl BodyDecoder {
    /// A decoder for a body of this kind.
    #[must_use]
    pub fn new(kind: Kind, max_message: usize) -> Self {
        BodyDecoder {
            content: Content::new(kind, max_message),
            dead: false,
        }
    }

    /// Decodes the next bytes of the body.
    pub fn feed<'a>(&mut self, input: &'a [u8], frames: &mut Frames<'a>) {
        if self.dead {
            return;
        }
        let mut held = &[][..];
        match self.content.push(input, &mut held, frames) {
            Ok(()) => self.content.park(&mut held),
            Err(fault) => {
                frames.push(Frame::Fault(fault));
                self.kill();
            }
        }
    }

    /// The body ended.
    pub fn eof(&mut self, frames: &mut Frames<'_>) {
        if !self.dead {
            self.content.finish(&mut &[][..], frames);
            self.kill();
        }
    }

    fn kill(&mut self) {
        self.dead = true;
        self.content = Content::Raw;
    }
}
