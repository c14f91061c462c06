//! Frames as tuples. Knows the order of their items, which `_core.pyi` documents.

use crate::head::ResponseHead;
use ferrule_wire::{Code, Event, Fault, Frame, Payload, scan};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

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
    let list = PyList::empty(py);
    for frame in frames {
        list.append(to_tuple(py, frame)?)?;
    }
    Ok(list)
}

/// The only frame of a read that reported an impossible count.
pub fn bad_count(py: Python<'_>, size: u64) -> PyResult<Bound<'_, PyList>> {
    to_list(py, vec![Frame::Fault(Fault::new(Code::BadCount, 0, size))])
}

fn to_tuple<'py>(py: Python<'py>, frame: Frame<'_>) -> PyResult<Bound<'py, PyTuple>> {
    match frame {
        Frame::Head(head) => (HEAD, ResponseHead::from(*head)).into_pyobject(py),
        Frame::Body(body) => message(py, BODY, body),
        Frame::Event(event) => event_tuple(py, event),
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

fn event_tuple<'py>(py: Python<'py>, event: Event<'_>) -> PyResult<Bound<'py, PyTuple>> {
    let (data, flags) = to_bytes(py, event.data)?;
    let id = event.id.as_deref().into_bound_py_any(py)?;
    match event.kind {
        None => (EVENT, data, flags, id, event.retry).into_pyobject(py),
        Some(kind) => (EVENT, data, flags, id, event.retry, &*kind).into_pyobject(py),
    }
}

/// The message as one `bytes` and its flags.
fn to_bytes<'py>(
    py: Python<'py>,
    payload: Payload<'_>,
) -> PyResult<(Bound<'py, PyBytes>, scan::Flags)> {
    let bytes = match payload.as_slice() {
        Some(slice) => PyBytes::new(py, slice),
        None => PyBytes::new_with(py, payload.len(), |out| {
            payload.copy_into(out);
            Ok(())
        })?,
    };
    let flags = scan::flags(bytes.as_bytes());
    Ok((bytes, flags))
}
