//! Event streams (`text/event-stream`) after the WHATWG rules.
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream>
//!
//! Knows lines, fields and events. Does not know what data means, reconnects nothing, and remembers
//! no last event id beyond its event: each event says what it carried.
//!
//! A line is read in place:
//!
//! ```text
//!          ┌────────────── end of line: field without value, or dispatch ─────────────┐
//!          │                                                                          ▼
//!   Name ──┴─ ':' ─→ Data    (to the event)    ─┐                                    Name
//!                    Value   (to the token)    ─┼── end of line ──────────────────────▲
//!                    Skip    (comment, unknown) ┘
//! ```

use crate::error::wide;
use crate::frame::{Event, Frame, Frames};
use crate::rope::Gather;
use crate::{BOM, Code, Fault};
use memchr::{memchr, memchr2};

/// The longest line beginning that can still turn out to be a known field: a byte order mark and `event`.
const LONGEST_NAME: usize = 8;

/// Ids and types are kept up to this size. A longer id is ignored (nobody could send it back), a longer
/// type is cut (nobody knows it).
const LONGEST_VALUE: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
    Unknown,
    Comment,
}

impl Field {
    fn of(name: &[u8]) -> Self {
        match name {
            b"data" => Field::Data,
            b"event" => Field::Event,
            b"id" => Field::Id,
            b"retry" => Field::Retry,
            b"" => Field::Comment,
            _ => Field::Unknown,
        }
    }
}

/// Where in a line the decoder is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In the name: what a read left over of it is in the token.
    Name,
    /// In the value of a field; `at_start`: the one optional space may still come.
    Value { field: Field, at_start: bool },
    /// In a line that means nothing.
    Skip,
}

/// Decodes one event stream.
#[derive(Debug)]
pub(crate) struct SseDecoder {
    limit: usize,
    position: u64,
    place: Place,
    /// The beginning of a name, or the value of a small field.
    token: Vec<u8>,
    token_overflows: bool,
    first_line: bool,
    after_cr: bool,
    data: Gather,
    /// Bytes of data so far; `None`: no data line yet.
    data_size: Option<usize>,
    fields: Fields,
}

/// The fields of an event beside its data.
#[derive(Debug, Default)]
struct Fields {
    id: Option<Box<str>>,
    retry: Option<u64>,
    kind: Option<Box<str>>,
}

impl Fields {
    const fn is_empty(&self) -> bool {
        self.id.is_none() && self.retry.is_none() && self.kind.is_none()
    }

    /// Most events have none: then nothing is moved.
    fn take(&mut self) -> Self {
        if self.is_empty() {
            Fields::default()
        } else {
            std::mem::take(self)
        }
    }
}

impl SseDecoder {
    /// A decoder that refuses events whose data is larger than `limit`.
    pub(crate) fn new(limit: usize) -> Self {
        SseDecoder {
            limit,
            position: 0,
            place: Place::Name,
            token: Vec::new(),
            token_overflows: false,
            first_line: true,
            after_cr: false,
            data: Gather::default(),
            data_size: None,
            fields: Fields::default(),
        }
    }

    /// Decodes the bytes of one read.
    ///
    /// # Errors
    ///
    /// An event is larger than the limit. The stream is lost: do not feed it again.
    pub(crate) fn feed<'a>(
        &mut self,
        input: &'a [u8],
        frames: &mut Frames<'a>,
    ) -> Result<(), Fault> {
        let mut held = &[][..];
        let mut rest = input;
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while !rest.is_empty() {
            let size = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
            let (piece, tail) = rest.split_at(size);
            let end = self.position + wide(input.len() - tail.len());
            self.take_piece(piece, end, &mut held, frames)?;
            rest = match tail.split_first() {
                None => tail,
                Some((ending, after)) => {
                    self.end_line(end, &mut held, frames)?;
                    if *ending == b'\r' {
                        self.after_cr = after.is_empty() && !crate::CANARY;
                        after.strip_prefix(b"\n").unwrap_or(after)
                    } else {
                        after
                    }
                }
            };
        }
        self.data.park(&mut held);
        self.position += wide(input.len());
        Ok(())
    }

    /// The stream ended. An unfinished event is dropped; a `retry` in it was a word about the stream, not
    /// about the event, and is handed out.
    pub(crate) fn finish(&mut self, frames: &mut Frames<'_>) {
        if let Some(retry) = self.fields.retry.take() {
            frames.push(Frame::Event(Event {
                data: (&[][..]).into(),
                id: None,
                retry: Some(retry),
                kind: None,
            }));
        }
        self.data.clear();
    }

    /// Takes a part of a line that ends at `end` of the stream.
    #[inline]
    fn take_piece<'a>(
        &mut self,
        piece: &'a [u8],
        end: u64,
        held: &mut &'a [u8],
        frames: &mut Frames<'a>,
    ) -> Result<(), Fault> {
        if piece.is_empty() {
            return Ok(());
        }
        let mut piece = piece;
        if matches!(self.place, Place::Name) {
            let Some(value) = self.take_name(piece) else {
                return Ok(());
            };
            piece = value;
            if let Place::Value { field, .. } = self.place {
                self.begin_value(field, end - wide(piece.len()), held, frames)?;
            }
        }
        let Place::Value { field, at_start } = &mut self.place else {
            return Ok(());
        };
        if piece.is_empty() {
            return Ok(());
        }
        if *at_start {
            *at_start = false;
            piece = piece.strip_prefix(b" ").unwrap_or(piece);
        }
        if *field == Field::Data {
            self.push_data(piece, end, held)
        } else {
            self.push_token(piece);
            Ok(())
        }
    }

    /// Looks for the colon. `None`: it is not there yet; else the rest of the piece behind it.
    #[inline]
    fn take_name<'a>(&mut self, piece: &'a [u8]) -> Option<&'a [u8]> {
        if let (true, Some(value)) = (self.token.is_empty(), piece.strip_prefix(b"data:")) {
            // What most lines are, found without a search.
            self.place = Place::Value {
                field: Field::Data,
                at_start: true,
            };
            return Some(value);
        }
        let room = LONGEST_NAME + 1 - self.token.len().min(LONGEST_NAME);
        let beginning = piece.get(..room).unwrap_or(piece);
        let Some(colon) = memchr(b':', beginning) else {
            if beginning.len() == room {
                self.token.clear();
                self.place = Place::Skip;
            } else {
                self.token.extend_from_slice(piece);
            }
            return None;
        };
        let (name, value) = piece.split_at(colon);
        let field = if self.token.is_empty() {
            self.field(name)
        } else {
            self.token.extend_from_slice(name);
            let token = std::mem::take(&mut self.token);
            self.field(&token)
        };
        self.place = Place::Value {
            field,
            at_start: true,
        };
        value.get(1..)
    }

    fn field(&self, name: &[u8]) -> Field {
        let marked = if self.first_line {
            name.strip_prefix(BOM)
        } else {
            None
        };
        Field::of(marked.unwrap_or(name))
    }

    /// A field is there, whatever its value will be.
    #[inline]
    fn begin_value<'a>(
        &mut self,
        field: Field,
        at: u64,
        held: &mut &'a [u8],
        frames: &mut Frames<'a>,
    ) -> Result<(), Fault> {
        match field {
            Field::Comment => {
                frames.comment();
                self.place = Place::Skip;
            }
            Field::Unknown => self.place = Place::Skip,
            Field::Data if self.data_size.is_some() => self.push_data(b"\n", at + 1, held)?,
            Field::Data => self.data_size = Some(0),
            Field::Event | Field::Id | Field::Retry => {}
        }
        Ok(())
    }

    #[inline]
    fn push_data<'a>(
        &mut self,
        piece: &'a [u8],
        end: u64,
        held: &mut &'a [u8],
    ) -> Result<(), Fault> {
        let size = self.data_size.unwrap_or_default();
        let room = self.limit - size;
        if piece.len() > room {
            let position = end - wide(piece.len() - room);
            let size = wide(self.limit) + 1;
            return Err(Fault::new(Code::MessageTooLarge, position, size));
        }
        self.data_size = Some(size + piece.len());
        self.data.push(held, piece);
        Ok(())
    }

    fn push_token(&mut self, piece: &[u8]) {
        let room = LONGEST_VALUE - self.token.len().min(LONGEST_VALUE);
        self.token_overflows |= piece.len() > room;
        self.token
            .extend_from_slice(piece.get(..room).unwrap_or(piece));
    }

    /// A line ended at `end` of the stream.
    #[inline]
    fn end_line<'a>(
        &mut self,
        end: u64,
        held: &mut &'a [u8],
        frames: &mut Frames<'a>,
    ) -> Result<(), Fault> {
        let place = std::mem::replace(&mut self.place, Place::Name);
        match place {
            Place::Skip => {}
            Place::Value { field, .. } => self.end_field(field),
            Place::Name => {
                let name = std::mem::take(&mut self.token);
                match self.field(&name) {
                    Field::Comment => self.dispatch(held, frames), // No colon and no name: a blank line.
                    field => {
                        self.begin_value(field, end, held, frames)?;
                        self.end_field(field);
                        self.place = Place::Name;
                    }
                }
            }
        }
        self.first_line = false;
        Ok(())
    }

    #[inline]
    fn end_field(&mut self, field: Field) {
        let overflows = std::mem::take(&mut self.token_overflows);
        match field {
            Field::Id => {
                let value = std::str::from_utf8(&self.token).ok();
                if let Some(id) = value.filter(|id| !overflows && !id.contains('\0')) {
                    self.fields.id = Some(id.into());
                }
            }
            Field::Retry => {
                self.fields.retry = parse_retry(&self.token, overflows).or(self.fields.retry);
            }
            Field::Event => {
                let value = String::from_utf8_lossy(&self.token);
                self.fields.kind = match value.as_ref() {
                    "" | "message" => None,
                    other => Some(other.into()),
                };
            }
            Field::Data | Field::Unknown | Field::Comment => return,
        }
        self.token.clear();
    }

    #[inline]
    fn dispatch<'a>(&mut self, held: &mut &'a [u8], frames: &mut Frames<'a>) {
        let Fields { id, retry, kind } = self.fields.take();
        let size = self.data_size.take().unwrap_or_default();
        if size > 0 || id.is_some() || retry.is_some() {
            let data = self.data.take(held);
            frames.push(Frame::Event(Event {
                data,
                id,
                retry,
                kind,
            }));
        }
    }
}

/// Digits only; a number beyond 64 bit is the largest there is.
fn parse_retry(value: &[u8], overflows: bool) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) || overflows {
        return None;
    }
    let digit = |byte: &u8| u64::from(byte - b'0');
    Some(value.iter().fold(0, |number: u64, byte| {
        number.saturating_mul(10).saturating_add(digit(byte))
    }))
}
