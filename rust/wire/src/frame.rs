//! What decoders hand out. Knows the frames of all decoders, so that one list carries them.

use crate::http::Head;
use crate::{Fault, Payload, scan};

/// One event of an event stream.
#[derive(Debug)]
pub struct Event<'a> {
    /// The data lines, joined with LF. Empty when only `id` or `retry` were there.
    pub data: Payload<'a>,
    /// The `id` field of this event. Empty text resets the cursor.
    pub id: Option<Box<str>>,
    /// The `retry` field, in milliseconds.
    pub retry: Option<u64>,
    /// The type, when it is not `message`.
    pub kind: Option<Box<str>>,
}

/// What a decoder found.
#[derive(Debug)]
pub enum Frame<'a> {
    /// The head of a response.
    Head(Box<Head>),
    /// The whole body of a response that is no event stream.
    Body(Payload<'a>),
    /// One event.
    Event(Event<'a>),
    /// A comment line was seen (once a read).
    Comment,
    /// A piece of a body that has a content coding.
    Data(&'a [u8]),
    /// The HTTP message is complete.
    End {
        /// Whether the connection can carry another one.
        reusable: bool,
    },
    /// One line.
    Line(Payload<'a>),
    /// A line over the limit is being skipped.
    LongLine {
        /// Where and how large.
        fault: Fault,
        /// The id of the response that the line holds, when its beginning tells.
        id: Option<i64>,
    },
    /// The decoder is dead.
    Fault(Fault),
}

/// Room that a list of frames starts with: most reads need no more, and a list lives as long as its read.
const FIRST_ROOM: usize = 16;

/// The frames of one read.
#[derive(Debug, Default)]
pub struct Frames<'a> {
    list: Vec<Frame<'a>>,
    commented: bool,
}

impl<'a> Frames<'a> {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Frames {
            list: Vec::new(),
            commented: false,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, frame: Frame<'a>) {
        if self.list.capacity() == 0 {
            self.list.reserve(FIRST_ROOM);
        }
        self.list.push(frame);
    }

    pub(crate) fn comment(&mut self) {
        if !self.commented {
            self.commented = true;
            self.list.push(Frame::Comment);
        }
    }

    /// The frames in order.
    #[must_use]
    pub fn into_vec(self) -> Vec<Frame<'a>> {
        self.list
    }
}

/// A frame that owns its bytes and knows its flags: what tests and fuzz targets compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedFrame {
    /// Status and the other things a head says.
    Head(Box<Head>),
    /// Body and flags.
    Body(Vec<u8>, scan::Flags),
    /// Data, flags, id, retry, type.
    Event(
        Vec<u8>,
        scan::Flags,
        Option<Box<str>>,
        Option<u64>,
        Option<Box<str>>,
    ),
    /// See [`Frame::Comment`].
    Comment,
    /// See [`Frame::Data`].
    Data(Vec<u8>),
    /// See [`Frame::End`].
    End(bool),
    /// Line and flags.
    Line(Vec<u8>, scan::Flags),
    /// See [`Frame::LongLine`].
    LongLine(Fault, Option<i64>),
    /// See [`Frame::Fault`].
    Fault(Fault),
}

impl From<Frame<'_>> for OwnedFrame {
    fn from(frame: Frame<'_>) -> Self {
        let flagged = |payload: Payload<'_>| {
            let bytes = payload.into_vec();
            let flags = scan::flags(&bytes);
            (bytes, flags)
        };
        match frame {
            Frame::Head(head) => OwnedFrame::Head(head),
            Frame::Body(payload) => {
                let (bytes, flags) = flagged(payload);
                OwnedFrame::Body(bytes, flags)
            }
            Frame::Event(event) => {
                let (bytes, flags) = flagged(event.data);
                OwnedFrame::Event(bytes, flags, event.id, event.retry, event.kind)
            }
            Frame::Comment => OwnedFrame::Comment,
            Frame::Data(bytes) => OwnedFrame::Data(bytes.to_vec()),
            Frame::End { reusable } => OwnedFrame::End(reusable),
            Frame::Line(payload) => {
                let (bytes, flags) = flagged(payload);
                OwnedFrame::Line(bytes, flags)
            }
            Frame::LongLine { fault, id } => OwnedFrame::LongLine(fault, id),
            Frame::Fault(fault) => OwnedFrame::Fault(fault),
        }
    }
}
