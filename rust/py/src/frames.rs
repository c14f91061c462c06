//! Frames as tuples. Knows the order of their items, which `_core.pyi` documents.

use crate::head::{ResponseHead, is_notable};
use ferrule_wire::http::{Head, Kind};
use ferrule_wire::{Code, Event, Fault, Frame, Payload, scan};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PyNone, PyTuple};
use pyo3::{Borrowed, ffi};

const HEAD: u8 = 0;
const BODY: u8 = 1;
const EVENT: u8 = 2;
const COMMENT: u8 = 3;
const DATA: u8 = 4;
const END: u8 = 5;
const LINE: u8 = 6;
const FAULT: u8 = 7;

/// The kinds of frames by name.
pub const KINDS: [(&str, u8); 8] = [
    ("HEAD", HEAD),
    ("BODY", BODY),
    ("EVENT", EVENT),
    ("COMMENT", COMMENT),
    ("DATA", DATA),
    ("END", END),
    ("LINE", LINE),
    ("FAULT", FAULT),
];

/// The frames of one read as a list of tuples.
pub fn to_list<'py>(py: Python<'py>, frames: Vec<Frame<'_>>) -> PyResult<Bound<'py, PyList>> {
    let plain = PlainEvent::new(py)?;
    let frames = frames.into_iter();
    PyList::new(py, frames.map(|frame| Crossing(frame, &plain)))
}

/// A response that came whole and says nothing but its answer, as `(head, body, flags, reusable)`; the list of its
/// frames otherwise.
pub fn to_answer<'py>(py: Python<'py>, frames: Vec<Frame<'_>>) -> PyResult<Bound<'py, PyAny>> {
    let frames = match <[Frame<'_>; 3]>::try_from(frames) {
        Ok(
            [
                Frame::Head(head),
                Frame::Body(body),
                Frame::End { reusable },
            ],
        ) if says_nothing_else(&head) => {
            let (bytes, flags) = to_bytes(py, body)?;
            let answer = (ResponseHead::from(*head), bytes, flags, reusable);
            return Ok(answer.into_pyobject(py)?.into_any());
        }
        Ok(frames) => Vec::from(frames),
        Err(frames) => frames,
    };
    Ok(to_list(py, frames)?.into_any())
}

/// A 200 in JSON whose other fields nobody has to take note of.
fn says_nothing_else(head: &Head) -> bool {
    head.status() == 200 && head.kind() == Kind::Json && !is_notable(head)
}

/// A frame on its way to Python.
struct Crossing<'a, 'c>(Frame<'a>, &'c PlainEvent<'c>);

impl<'py> IntoPyObject<'py> for Crossing<'_, '_> {
    type Target = PyTuple;
    type Output = Bound<'py, PyTuple>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        to_tuple(py, self.0, self.1)
    }
}

/// What events have in common that carry data alone: a read may hold hundreds of them.
struct PlainEvent<'c> {
    kind: Bound<'c, PyInt>,
    no_flags: Bound<'c, PyInt>,
    none: Borrowed<'c, 'c, PyNone>,
}

impl<'c> PlainEvent<'c> {
    fn new(py: Python<'c>) -> PyResult<Self> {
        Ok(PlainEvent {
            kind: EVENT.into_pyobject(py)?,
            no_flags: 0_u8.into_pyobject(py)?,
            none: PyNone::get(py),
        })
    }

    fn tuple<'py>(&self, data: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyTuple>> {
        let none = self.none.as_ptr();
        // SAFETY: five objects are announced and five are given, all alive during the call; the tuple takes
        // references of its own. What comes back is a new tuple, or null with an exception set.
        unsafe {
            let (kind, no_flags) = (self.kind.as_ptr(), self.no_flags.as_ptr());
            let tuple = ffi::PyTuple_Pack(5, kind, data.as_ptr(), no_flags, none, none);
            Ok(Bound::from_owned_ptr_or_err(data.py(), tuple)?.cast_into_unchecked())
        }
    }
}

/// The only frame of a read that reported an impossible count.
pub fn bad_count(py: Python<'_>, size: u64) -> PyResult<Bound<'_, PyList>> {
    to_list(py, vec![Frame::Fault(Fault::new(Code::BadCount, 0, size))])
}

fn to_tuple<'py>(
    py: Python<'py>,
    frame: Frame<'_>,
    plain: &PlainEvent<'_>,
) -> PyResult<Bound<'py, PyTuple>> {
    match frame {
        Frame::Head(head) => (HEAD, ResponseHead::from(*head)).into_pyobject(py),
        Frame::Body(body) => message(py, BODY, body),
        Frame::Event(event) => event_tuple(py, event, plain),
        Frame::Comment => (COMMENT,).into_pyobject(py),
        Frame::Data(data) => (DATA, PyBytes::new(py, data)).into_pyobject(py),
        Frame::End { reusable } => (END, reusable).into_pyobject(py),
        Frame::Line(line) => message(py, LINE, line),
        Frame::LongLine { fault, id } => {
            (FAULT, fault.code.number(), fault.position, fault.size, id).into_pyobject(py)
        }
        Frame::Fault(fault) => {
            (FAULT, fault.code.number(), fault.position, fault.size).into_pyobject(py)
        }
    }
}

fn message<'py>(py: Python<'py>, kind: u8, payload: Payload<'_>) -> PyResult<Bound<'py, PyTuple>> {
    let (bytes, flags) = to_bytes(py, payload)?;
    (kind, bytes, flags).into_pyobject(py)
}

fn event_tuple<'py>(
    py: Python<'py>,
    event: Event<'_>,
    plain: &PlainEvent<'_>,
) -> PyResult<Bound<'py, PyTuple>> {
    let (data, flags) = to_bytes(py, event.data)?;
    match (event.id, event.retry, event.kind) {
        (None, None, None) if flags == 0 => plain.tuple(&data),
        (id, retry, None) => (EVENT, data, flags, id.as_deref(), retry).into_pyobject(py),
        (id, retry, Some(kind)) => {
            (EVENT, data, flags, id.as_deref(), retry, &*kind).into_pyobject(py)
        }
    }
}

/// The message as one `bytes` and its flags.
fn to_bytes<'py>(
    py: Python<'py>,
    payload: Payload<'_>,
) -> PyResult<(Bound<'py, PyBytes>, scan::Flags)> {
    if let Some(slice) = payload.as_slice() {
        // The flags of the source: it is in the cache, its copy is still on the way there.
        let flags = scan::flags(slice);
        return Ok((PyBytes::new(py, slice), flags));
    }
    let bytes = PyBytes::new_with(py, payload.len(), |out| {
        payload.copy_into(out);
        Ok(())
    })?;
    let flags = scan::flags(bytes.as_bytes());
    Ok((bytes, flags))
}
