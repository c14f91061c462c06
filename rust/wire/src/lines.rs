//! Newline-delimited messages, as on the pipes of a child process. Knows lines; not what they say,
//! except for the id in the beginning of one that is too long to be read.

use crate::error::wide;
use crate::frame::{Frame, Frames};
use crate::rope::Gather;
use crate::{Code, Fault, jsonrpc};
use memchr::memchr;

/// How much of an over-long line is searched for its id.
const BEGINNING: usize = 4096;

/// Decodes a stream of lines.
#[derive(Debug)]
pub struct LineDecoder {
    limit: usize,
    position: u64,
    line: Gather,
    line_size: usize,
    first_line: bool,
    skipping: bool,
    dead: bool,
}

impl LineDecoder {
    /// A decoder that skips lines larger than `limit` (everything before the LF counts).
    #[must_use]
    pub fn new(limit: usize) -> Self {
        LineDecoder {
            limit,
            position: 0,
            line: Gather::default(),
            line_size: 0,
            first_line: true,
            skipping: false,
            dead: false,
        }
    }

    /// Decodes the bytes of one read.
    pub fn feed<'a>(&mut self, input: &'a [u8], frames: &mut Frames<'a>) {
        if self.dead {
            return;
        }
        let mut held = &[][..];
        let mut rest = input;
        while !rest.is_empty() {
            let size = memchr(b'\n', rest).unwrap_or(rest.len());
            let (piece, tail) = rest.split_at(size);
            if !self.skipping {
                let start = self.position + wide(input.len() - rest.len());
                self.push(piece, start, &mut held, frames);
            }
            rest = match tail.split_first() {
                None => tail,
                Some((_, after)) => {
                    self.end_line(&mut held, frames);
                    after
                }
            };
        }
        self.line.park(&mut held);
        self.position += wide(input.len());
    }

    /// The stream ended: a line without its LF is a fault.
    pub fn eof(&mut self, frames: &mut Frames<'_>) {
        if !self.dead && !self.skipping && self.line_size > 0 {
            let size = wide(self.line_size);
            let fault = Fault::new(Code::Truncated, self.position, size);
            frames.push(Frame::Fault(fault));
        }
        self.kill();
    }

    /// Ends decoding: what comes is ignored.
    pub fn kill(&mut self) {
        self.dead = true;
        self.line.clear();
    }

    fn push<'a>(
        &mut self,
        piece: &'a [u8],
        start: u64,
        held: &mut &'a [u8],
        frames: &mut Frames<'a>,
    ) {
        let room = self.limit - self.line_size;
        if piece.len() <= room {
            self.line_size += piece.len();
            self.line.push(held, piece);
            return;
        }
        let (fitting, _) = piece.split_at(room);
        let known = BEGINNING.min(self.limit);
        let mut beginning = self.line.beginning(held, known);
        let missing = known - beginning.len();
        beginning.extend_from_slice(fitting.get(..missing).unwrap_or(fitting));
        let size = wide(self.limit) + 1;
        frames.push(Frame::LongLine {
            fault: Fault::new(Code::LineTooLong, start + wide(room), size),
            id: jsonrpc::response_id(&beginning),
        });
        self.skipping = true;
        self.line.clear();
        *held = &[];
    }

    fn end_line<'a>(&mut self, held: &mut &'a [u8], frames: &mut Frames<'a>) {
        if std::mem::take(&mut self.skipping) {
            self.line.clear();
        } else {
            let mut line = self.line.take(held);
            if self.first_line {
                line.strip_bom();
            }
            if !crate::CANARY || line.as_slice().is_some() {
                line.strip_cr();
            }
            if !line.is_empty() {
                frames.push(Frame::Line(line));
            }
        }
        self.first_line = false;
        self.line_size = 0;
    }
}
