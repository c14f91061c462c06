//! Where the body of a response ends: by length, by chunks, or with the connection. Knows framing only;
//! what the bytes are is `content`'s.
//!
//! ```text
//! chunked:  Size ─→ Extension ─→ SizeLf ─┬─→ Data ─→ DataCr ─→ DataLf ─→ Size (without a digit yet)
//!                                        └─ size 0 ─→ Trailer ─→ … ─→ done at the blank line
//! ```

use crate::Code;
use crate::error::wide;

/// The longest chunk line: size, extensions.
const LONGEST_CHUNK_LINE: usize = 4096;

/// The most digits of a chunk size, leading zeros included.
const MOST_DIGITS: u8 = 16;

/// How the body is framed, and how far it was read.
#[derive(Debug)]
pub(super) enum Framing {
    /// This many bytes are to come.
    Length(u64),
    /// Chunks.
    Chunked(Chunked),
    /// Until the connection ends.
    Close,
}

/// What the next bytes are.
#[derive(Debug)]
pub(super) enum Step<'a> {
    /// A piece of the body.
    Piece(&'a [u8]),
    /// Nothing: another read is needed.
    More,
    /// The body is complete.
    Done,
}

impl Framing {
    /// Takes what it can from `rest`. On a fault `rest` begins with the offending byte; its size comes
    /// with the code.
    pub(super) fn next<'a>(&mut self, rest: &mut &'a [u8]) -> Result<Step<'a>, (Code, u64)> {
        match self {
            Framing::Length(0) => Ok(Step::Done),
            Framing::Length(left) => Ok(take_up_to(left, rest)),
            Framing::Chunked(chunked) => chunked.next(rest),
            Framing::Close if rest.is_empty() => Ok(Step::More),
            Framing::Close => Ok(Step::Piece(std::mem::take(rest))),
        }
    }
}

fn take_up_to<'a>(left: &mut u64, rest: &mut &'a [u8]) -> Step<'a> {
    if rest.is_empty() {
        return Step::More;
    }
    let size = usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
    let (piece, after) = rest.split_at(size);
    *left -= wide(size);
    *rest = after;
    Step::Piece(piece)
}

#[derive(Clone, Copy, Debug)]
enum State {
    Size {
        digits: u8,
    },
    /// Between the size and the end of its line; `named`: a semicolon was seen.
    Extension {
        named: bool,
    },
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// In a trailer line; `empty`: nothing of it was seen.
    Trailer {
        empty: bool,
    },
    TrailerLf {
        empty: bool,
    },
    Done,
}

/// The chunked coding.
#[derive(Debug)]
pub(super) struct Chunked {
    state: State,
    left: u64,
    line_size: usize,
    trailers_left: usize,
}

impl Chunked {
    /// `max_trailers`: how large all trailers together may be.
    pub(super) const fn new(max_trailers: usize) -> Self {
        Chunked {
            state: State::Size { digits: 0 },
            left: 0,
            line_size: 0,
            trailers_left: max_trailers,
        }
    }

    fn next<'a>(&mut self, rest: &mut &'a [u8]) -> Result<Step<'a>, (Code, u64)> {
        loop {
            if let State::Done = self.state {
                return Ok(Step::Done);
            }
            if let State::Data = self.state {
                if self.left > 0 {
                    return Ok(take_up_to(&mut self.left, rest));
                }
                self.state = State::DataCr;
            }
            let Some((byte, after)) = rest.split_first() else {
                return Ok(Step::More);
            };
            self.state = self.take_byte(*byte)?;
            *rest = after;
        }
    }

    /// One byte of what is between the pieces.
    fn take_byte(&mut self, byte: u8) -> Result<State, (Code, u64)> {
        match self.state {
            State::Size { digits } => self.take_size(byte, digits),
            State::Extension { named } => {
                self.line_size += 1;
                match byte {
                    b'\r' => Ok(State::SizeLf),
                    _ if self.line_size > LONGEST_CHUNK_LINE => Err((Code::BadChunk, 0)),
                    b'\n' | b'\0' => Err((Code::BadChunk, 0)),
                    b';' => Ok(State::Extension { named: true }),
                    b' ' | b'\t' => Ok(State::Extension { named }),
                    _ if named => Ok(State::Extension { named }),
                    _ => Err((Code::BadChunk, 0)),
                }
            }
            State::SizeLf if byte == b'\n' && self.left > 0 => Ok(State::Data),
            State::SizeLf if byte == b'\n' => Ok(State::Trailer { empty: true }),
            State::DataCr if byte == b'\r' => Ok(State::DataLf),
            State::DataLf if byte == b'\n' => {
                self.line_size = 0;
                Ok(State::Size { digits: 0 })
            }
            State::Trailer { empty } => self.take_trailer(byte, empty),
            State::TrailerLf { empty: true } if byte == b'\n' => Ok(State::Done),
            State::TrailerLf { empty: false } if byte == b'\n' => {
                Ok(State::Trailer { empty: true })
            }
            State::TrailerLf { .. } => Err((Code::BadTrailer, 0)),
            State::SizeLf | State::Data | State::DataCr | State::DataLf | State::Done => {
                Err((Code::BadChunk, 0))
            }
        }
    }

    fn take_size(&mut self, byte: u8, digits: u8) -> Result<State, (Code, u64)> {
        if let Some(digit) = char::from(byte).to_digit(16) {
            if digits == MOST_DIGITS {
                return Err((Code::BadChunk, 0));
            }
            self.left = self.left << 4 | u64::from(digit);
            return Ok(State::Size { digits: digits + 1 });
        }
        match byte {
            b'\r' if digits > 0 => Ok(State::SizeLf),
            b';' if digits > 0 => Ok(State::Extension { named: true }),
            b' ' | b'\t' if digits > 0 => Ok(State::Extension { named: false }),
            _ => Err((Code::BadChunk, 0)),
        }
    }

    fn take_trailer(&mut self, byte: u8, empty: bool) -> Result<State, (Code, u64)> {
        if byte == b'\r' {
            return Ok(State::TrailerLf { empty });
        }
        if byte == b'\n' || byte == b'\0' {
            return Err((Code::BadTrailer, 0));
        }
        self.trailers_left = self
            .trailers_left
            .checked_sub(1)
            .ok_or((Code::HeadTooLarge, 0))?;
        Ok(State::Trailer { empty: false })
    }
}
