//! One connection's responses, one after another. Knows states and limits; the parts are read by
//! `head`, `body` and `content`.
//!
//! ```text
//!            begin()          blank line (1xx: again)            body complete: END
//!   Idle ───────────────→ Head ──────────────────────→ Body ───────────────────────→ Idle
//!     │                     │                            │
//!     └── bytes ────────────┴── fault, end of stream ────┴──→ Dead
//! ```

use super::body::{Chunked, Framing, Step};
use super::content::Content;
use super::head::{Declared, EndFinder, Head, Kind};
use crate::error::wide;
use crate::frame::{Frame, Frames};
use crate::{Code, Fault};

/// What every response begins with. A peer that speaks something else is found out at once.
const BEGINNING: &[u8] = b"HTTP/1.";

/// The bounds of a decoder.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// All heads of one response together, interim ones included; also all trailers together.
    pub max_head: usize,
    /// A body, or the data of one event.
    pub max_message: usize,
}

#[derive(Debug)]
enum State {
    Idle,
    Head,
    Body {
        framing: Framing,
        content: Content,
        reusable: bool,
    },
    Dead,
}

/// Decodes the responses of one connection.
#[derive(Debug)]
pub struct ResponseDecoder {
    limits: Limits,
    state: State,
    /// Bytes since `begin()`.
    position: u64,
    connect: bool,
    end_finder: EndFinder,
    /// The part of a head that came with earlier reads.
    head: Vec<u8>,
    head_position: u64,
}

impl ResponseDecoder {
    /// A decoder that expects nothing yet.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        ResponseDecoder {
            limits,
            state: State::Idle,
            position: 0,
            connect: false,
            end_finder: EndFinder::new(),
            head: Vec::new(),
            head_position: 0,
        }
    }

    /// Expects one response; `connect`: it answers a CONNECT request. False when the last one is not
    /// complete or the decoder is dead.
    #[must_use]
    pub fn begin(&mut self, connect: bool) -> bool {
        if !matches!(self.state, State::Idle) {
            return false;
        }
        self.state = State::Head;
        self.position = 0;
        self.head_position = 0;
        self.connect = connect;
        self.end_finder = EndFinder::new();
        true
    }

    /// Decodes the bytes of one read.
    pub fn feed<'a>(&mut self, input: &'a [u8], frames: &mut Frames<'a>) {
        if let Err(fault) = self.decode(input, frames) {
            frames.push(Frame::Fault(fault));
            self.kill();
        }
    }

    /// The stream ended.
    pub fn eof(&mut self, frames: &mut Frames<'_>) {
        match &mut self.state {
            State::Idle | State::Dead => {}
            State::Body {
                framing: Framing::Close,
                content,
                ..
            } => {
                content.finish(&mut &[][..], frames);
                frames.push(Frame::End { reusable: false });
            }
            state => {
                if let State::Body { content, .. } = state {
                    content.abandon(frames);
                }
                let fault = Fault::new(Code::Truncated, self.position, self.position);
                frames.push(Frame::Fault(fault));
            }
        }
        self.kill();
    }

    /// Ends decoding: what comes is ignored.
    pub fn kill(&mut self) {
        self.state = State::Dead;
        self.head = Vec::new();
    }

    fn decode<'a>(&mut self, input: &'a [u8], frames: &mut Frames<'a>) -> Result<(), Fault> {
        let mut rest = input;
        let mut held = &[][..];
        loop {
            let before = rest.len();
            match &mut self.state {
                State::Dead => return Ok(()),
                State::Idle | State::Head if rest.is_empty() => return Ok(()),
                State::Idle => return Err(Fault::new(Code::Unsolicited, self.position, 0)),
                State::Head => rest = self.take_head(rest, frames)?,
                State::Body {
                    framing,
                    content,
                    reusable,
                } => {
                    let step = framing.next(&mut rest);
                    self.position += wide(before - rest.len());
                    match step {
                        Err((code, size)) => return Err(Fault::new(code, self.position, size)),
                        Ok(Step::Piece(piece)) => content.push(piece, &mut held, frames)?,
                        Ok(Step::More) => {
                            content.park(&mut held);
                            return Ok(());
                        }
                        Ok(Step::Done) => {
                            content.finish(&mut held, frames);
                            frames.push(Frame::End {
                                reusable: *reusable,
                            });
                            self.state = State::Idle;
                        }
                    }
                }
            }
        }
    }

    /// Takes what belongs to the head; returns what follows it.
    fn take_head<'a>(
        &mut self,
        rest: &'a [u8],
        frames: &mut Frames<'a>,
    ) -> Result<&'a [u8], Fault> {
        let (size, is_complete) = self.end_finder.find(rest);
        let (part, after) = rest.split_at(size);
        let limit = wide(self.limits.max_head);
        let room = limit - self.position;
        let is_too_large = wide(size) > room;
        let allowed = usize::try_from(room).map_or(part, |room| part.get(..room).unwrap_or(part));
        self.check_beginning(allowed)?;
        if is_too_large {
            return Err(Fault::new(Code::HeadTooLarge, limit, limit + 1));
        }
        self.position += wide(size);
        if !is_complete {
            self.head.extend_from_slice(part);
            return Ok(after);
        }
        let head = if self.head.is_empty() {
            Head::parse(part, self.head_position)?
        } else {
            let mut whole = std::mem::take(&mut self.head);
            whole.extend_from_slice(part);
            Head::parse(&whole, self.head_position)?
        };
        match head.status() {
            101 => {
                let size = self.position - self.head_position;
                return Err(Fault::new(Code::BadStatusLine, self.head_position, size));
            }
            100..=199 => self.head_position = self.position,
            _ => self.begin_body(head, frames)?,
        }
        Ok(after)
    }

    fn check_beginning(&self, part: &[u8]) -> Result<(), Fault> {
        let expected = BEGINNING.get(self.head.len()..).unwrap_or_default();
        let mut pairs = expected.iter().zip(part);
        match pairs.position(|(expected, byte)| expected != byte) {
            None => Ok(()),
            Some(at) => {
                let position = self.position + wide(at);
                Err(Fault::new(Code::BadStatusLine, position, 0))
            }
        }
    }

    fn begin_body(&mut self, head: Head, frames: &mut Frames<'_>) -> Result<(), Fault> {
        let limit = self.limits.max_message;
        let is_tunnel = self.connect && (200..=299).contains(&head.status());
        let has_no_body = is_tunnel || matches!(head.status(), 204 | 304);
        let declared = if has_no_body {
            Declared::Length(0)
        } else {
            head.declared(self.head_position)?
        };
        let framing = match declared {
            Declared::Length(length) => Framing::Length(length),
            Declared::Chunked => Framing::Chunked(Chunked::new(self.limits.max_head)),
            Declared::Nothing => Framing::Close,
        };
        let content = match head.encoding() {
            Some(_) => Content::Raw,
            None => Content::new(head.kind(), limit),
        };
        let is_clean = match framing {
            Framing::Length(_) => true,
            Framing::Chunked(_) => !head.is_http_10(), // No coding of HTTP/1.0's: not to be trusted further.
            Framing::Close => false,
        };
        let is_message = head.encoding().is_none() && head.kind() != Kind::Sse;
        self.state = State::Body {
            framing,
            content,
            reusable: is_tunnel || (is_clean && head.persists()),
        };
        frames.push(Frame::Head(Box::new(head)));
        match declared {
            Declared::Length(length) if is_message && length > wide(limit) => {
                Err(Fault::new(Code::MessageTooLarge, 0, length))
            }
            _ => Ok(()),
        }
    }
}
