//! Messages in the making. A message that lies wholly within one read stays a slice of it; a larger
//! one accumulates in segments of at most 64 KiB and is put together once, at its end.
//!
//! Knows sizes, not formats. A segment is filled before the next is made and is never moved, so
//! appending costs the bytes appended, and the memory is the message plus at most one segment.

use crate::BOM;

/// The largest piece of memory a message is gathered in.
const SEGMENT: usize = 64 * 1024;

/// The smallest one, so that tiny reads do not make tiny segments.
const SMALLEST: usize = 512;

/// Bytes in segments.
#[derive(Debug, Default)]
struct Rope {
    segments: Vec<Vec<u8>>,
    len: usize,
}

impl Rope {
    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self
                .segments
                .last()
                .map_or(0, |last| last.capacity() - last.len());
            if room == 0 {
                let capacity = bytes.len().max(self.len).clamp(SMALLEST, SEGMENT);
                self.segments.push(Vec::with_capacity(capacity));
                continue;
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            if let Some(last) = self.segments.last_mut() {
                last.extend_from_slice(now);
            }
            self.len += now.len();
            bytes = later;
        }
    }
}

/// Gathers the pieces of one message over any number of reads.
///
/// `held` is the part that still lies in the current read. It lives on the caller's stack, because
/// it borrows from the read, and must be parked before the read ends.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    rope: Rope,
}

impl Gather {
    #[inline]
    pub(crate) fn push<'a>(&mut self, held: &mut &'a [u8], piece: &'a [u8]) {
        if piece.is_empty() {
            return;
        }
        if held.is_empty() && self.rope.len == 0 {
            *held = piece;
        } else {
            self.park(held);
            self.rope.push(piece);
        }
    }

    /// Keeps what is held beyond the end of the read.
    pub(crate) fn park(&mut self, held: &mut &[u8]) {
        self.rope.push(std::mem::take(held));
    }

    /// Takes the message out; the next one starts empty.
    #[inline]
    pub(crate) fn take<'a>(&mut self, held: &mut &'a [u8]) -> Payload<'a> {
        if self.rope.len == 0 {
            Payload::from(std::mem::take(held))
        } else {
            self.take_rope(held)
        }
    }

    #[cold]
    fn take_rope(&mut self, held: &mut &[u8]) -> Payload<'static> {
        self.park(held);
        let mut rope = std::mem::take(&mut self.rope);
        if let Some(last) = rope.segments.last_mut() {
            // What is handed out next to the message itself: not the slack of the last segment.
            last.shrink_to_fit();
        }
        Payload {
            skip: 0,
            len: rope.len,
            bytes: Bytes::Segments(rope.segments),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.rope = Rope::default();
    }

    /// The first bytes of what was gathered, at most `size`.
    pub(crate) fn beginning(&self, held: &[u8], size: usize) -> Vec<u8> {
        let segments = self.rope.segments.iter().map(Vec::as_slice);
        let pieces = segments.chain(std::iter::once(held));
        pieces.flatten().copied().take(size).collect()
    }
}

#[derive(Debug)]
enum Bytes<'a> {
    Slice(&'a [u8]),
    Segments(Vec<Vec<u8>>),
}

/// The bytes of one finished message: a slice of the read, or segments yet to be put together.
#[derive(Debug)]
pub struct Payload<'a> {
    bytes: Bytes<'a>,
    skip: usize,
    len: usize,
}

impl<'a> From<&'a [u8]> for Payload<'a> {
    fn from(slice: &'a [u8]) -> Self {
        Payload {
            bytes: Bytes::Slice(slice),
            skip: 0,
            len: slice.len(),
        }
    }
}

impl<'a> Payload<'a> {
    /// How many bytes the message has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The message, if it lies in one piece.
    #[must_use]
    pub fn as_slice(&self) -> Option<&'a [u8]> {
        match self.bytes {
            Bytes::Slice(slice) => slice.get(self.skip..self.skip + self.len),
            Bytes::Segments(_) => None,
        }
    }

    /// Puts the message together in `out`, which has [`len`](Self::len) bytes. Each segment is given
    /// back as soon as it is copied.
    pub fn copy_into(self, out: &mut [u8]) {
        let mut out = out;
        let mut skip = self.skip;
        let mut append = |piece: &[u8]| {
            let piece = piece.get(skip..).unwrap_or_default();
            skip = 0;
            let size = piece.len().min(out.len());
            let (now, later) = std::mem::take(&mut out).split_at_mut(size);
            now.copy_from_slice(piece.get(..size).unwrap_or_default());
            out = later;
        };
        match self.bytes {
            Bytes::Slice(slice) => append(slice),
            Bytes::Segments(segments) => {
                for segment in segments {
                    append(&segment);
                }
            }
        }
    }

    /// The message as a vector.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        let mut out = vec![0; self.len];
        self.copy_into(&mut out);
        out
    }

    /// Drops a byte order mark at the beginning.
    pub(crate) fn strip_bom(&mut self) {
        let first = match &self.bytes {
            Bytes::Slice(slice) => slice,
            // A segment holds at least 512 bytes and is filled before the next: a mark is never cut.
            Bytes::Segments(segments) => segments.first().map_or(&[][..], Vec::as_slice),
        };
        if first.starts_with(BOM) {
            self.skip = BOM.len();
            self.len = self.len.saturating_sub(BOM.len());
        }
    }

    /// Drops one carriage return at the end.
    pub(crate) fn strip_cr(&mut self) {
        let last = match &self.bytes {
            Bytes::Slice(slice) => slice.last(),
            Bytes::Segments(segments) => segments.last().and_then(|segment| segment.last()),
        };
        if last == Some(&b'\r') {
            self.len = self.len.saturating_sub(1);
        }
    }
}
