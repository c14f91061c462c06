//! The decoders as Python classes. Knows locks: the state is held only while bytes are decoded, and no
//! Python object is made meanwhile, so nothing that Python runs (a finalizer, say) can meet a held lock.
//!
//! Defaults are literals because they appear in the signatures that Python shows.

use crate::buffer::{LARGEST_BUFFER, ReceiveBuffer};
use crate::frames::{bad_count, to_answer, to_list};
use ferrule_wire::http::{self, Kind, Limits};
use ferrule_wire::{Frame, Frames};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyMemoryView};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sizes are bounded so that sums of a few of them cannot overflow.
fn checked_size(size: usize) -> PyResult<usize> {
    if (1..=isize::MAX.unsigned_abs() / 4).contains(&size) {
        Ok(size)
    } else {
        Err(PyValueError::new_err("a size must be positive"))
    }
}

fn checked_buffer(size: usize) -> PyResult<usize> {
    if size <= LARGEST_BUFFER {
        checked_size(size)
    } else {
        Err(PyValueError::new_err("a buffer is at most 1 GiB"))
    }
}

/// No decoder is left half-changed by a panic that is worth refusing it for: what follows is a wrong
/// frame at worst.
fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a decoder under its lock; the frames come out when the lock is free again.
fn decode<'a, T>(state: &Mutex<T>, work: impl FnOnce(&mut T, &mut Frames<'a>)) -> Vec<Frame<'a>> {
    let mut frames = Frames::new();
    work(&mut locked(state), &mut frames);
    frames.into_vec()
}

/// Decodes what a read put into the buffer. Never raises for what `nbytes` is.
fn decode_buffer<'py, T>(
    py: Python<'py>,
    buffer: &ReceiveBuffer,
    nbytes: isize,
    state: &Mutex<T>,
    feed: impl for<'a> FnOnce(&mut T, &'a [u8], &mut Frames<'a>),
    kill: impl FnOnce(&mut T),
) -> PyResult<Bound<'py, PyList>> {
    let listed = |frames: Vec<Frame<'_>>| to_list(py, frames);
    let decoded = decode_bytes(buffer, nbytes, state, feed, listed);
    decoded.unwrap_or_else(|| {
        kill(&mut locked(state));
        bad_count(py, nbytes.unsigned_abs() as u64)
    })
}

/// What `convert` makes of the frames; `None` when `nbytes` is impossible.
fn decode_bytes<T, R>(
    buffer: &ReceiveBuffer,
    nbytes: isize,
    state: &Mutex<T>,
    feed: impl for<'a> FnOnce(&mut T, &'a [u8], &mut Frames<'a>),
    convert: impl for<'a> FnOnce(Vec<Frame<'a>>) -> R,
) -> Option<R> {
    let size = usize::try_from(nbytes).ok()?;
    buffer.copy_out(size, |input| {
        convert(decode(state, |decoder, frames| {
            feed(decoder, input, frames);
        }))
    })
}

/// Decodes the responses of one connection.
#[pyclass(frozen)]
pub struct ResponseDecoder {
    buffer: ReceiveBuffer,
    state: Mutex<http::ResponseDecoder>,
}

#[pymethods]
impl ResponseDecoder {
    #[new]
    #[pyo3(signature = (*, buffer_size = 65_536, max_head = 65_536, max_message = 67_108_864))]
    fn new(buffer_size: usize, max_head: usize, max_message: usize) -> PyResult<Self> {
        let limits = Limits {
            max_head: checked_size(max_head)?,
            max_message: checked_size(max_message)?,
        };
        Ok(ResponseDecoder {
            buffer: ReceiveBuffer::new(checked_buffer(buffer_size)?),
            state: Mutex::new(http::ResponseDecoder::new(limits)),
        })
    }

    /// The memory that the next read goes into: always the same view.
    #[pyo3(signature = (sizehint = -1, /), text_signature = "($self, sizehint=-1, /)")]
    fn get_buffer<'py>(
        &self,
        py: Python<'py>,
        sizehint: isize,
    ) -> PyResult<Bound<'py, PyMemoryView>> {
        let _ = sizehint; // asyncio passes one; the buffer has one size.
        self.buffer.view(py)
    }

    /// Expect one response.
    #[pyo3(signature = (*, connect = false))]
    fn begin(&self, connect: bool) -> PyResult<()> {
        if locked(&self.state).begin(connect) {
            Ok(())
        } else {
            Err(PyRuntimeError::new_err("the last response is not complete"))
        }
    }

    /// The frames of the first `nbytes` bytes of the buffer.
    #[pyo3(signature = (nbytes, /))]
    fn buffer_updated<'py>(&self, py: Python<'py>, nbytes: isize) -> PyResult<Bound<'py, PyList>> {
        let feed = http::ResponseDecoder::feed;
        let kill = http::ResponseDecoder::kill;
        decode_buffer(py, &self.buffer, nbytes, &self.state, feed, kill)
    }

    /// As `buffer_updated`; a response that is all there and plain comes as one tuple instead of a list.
    #[pyo3(signature = (nbytes, /))]
    fn answer_updated<'py>(&self, py: Python<'py>, nbytes: isize) -> PyResult<Bound<'py, PyAny>> {
        let feed = http::ResponseDecoder::feed;
        let convert = |frames: Vec<Frame<'_>>| to_answer(py, frames);
        let decoded = decode_bytes(&self.buffer, nbytes, &self.state, feed, convert);
        decoded.unwrap_or_else(|| {
            locked(&self.state).kill();
            Ok(bad_count(py, nbytes.unsigned_abs() as u64)?.into_any())
        })
    }

    /// The frames of `data`.
    #[pyo3(signature = (data, /))]
    fn feed<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyList>> {
        to_list(
            py,
            decode(&self.state, |state, frames| state.feed(data, frames)),
        )
    }

    /// The stream ended.
    fn eof<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        to_list(py, decode(&self.state, http::ResponseDecoder::eof))
    }
}

/// Decodes a body alone.
#[pyclass(frozen)]
pub struct BodyDecoder {
    state: Mutex<http::BodyDecoder>,
}

#[pymethods]
impl BodyDecoder {
    #[new]
    #[pyo3(signature = (kind, *, max_message = 67_108_864))]
    fn new(kind: u8, max_message: usize) -> PyResult<Self> {
        let kinds = [Kind::Other, Kind::Json, Kind::Sse];
        let Some(kind) = kinds.into_iter().find(|known| *known as u8 == kind) else {
            return Err(PyValueError::new_err("kind is none of the KIND constants"));
        };
        let decoder = http::BodyDecoder::new(kind, checked_size(max_message)?);
        Ok(BodyDecoder {
            state: Mutex::new(decoder),
        })
    }

    /// The frames of `data`.
    #[pyo3(signature = (data, /))]
    fn feed<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyList>> {
        to_list(
            py,
            decode(&self.state, |state, frames| state.feed(data, frames)),
        )
    }

    /// The body ended.
    fn eof<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        to_list(py, decode(&self.state, http::BodyDecoder::eof))
    }
}

/// Decodes newline-delimited messages.
#[pyclass(frozen)]
pub struct LineDecoder {
    buffer: ReceiveBuffer,
    state: Mutex<ferrule_wire::LineDecoder>,
}

#[pymethods]
impl LineDecoder {
    #[new]
    #[pyo3(signature = (*, buffer_size = 65_536, max_line = 67_108_864))]
    fn new(buffer_size: usize, max_line: usize) -> PyResult<Self> {
        let decoder = ferrule_wire::LineDecoder::new(checked_size(max_line)?);
        Ok(LineDecoder {
            buffer: ReceiveBuffer::new(checked_buffer(buffer_size)?),
            state: Mutex::new(decoder),
        })
    }

    /// The memory that the next read goes into: always the same view.
    #[pyo3(signature = (sizehint = -1, /), text_signature = "($self, sizehint=-1, /)")]
    fn get_buffer<'py>(
        &self,
        py: Python<'py>,
        sizehint: isize,
    ) -> PyResult<Bound<'py, PyMemoryView>> {
        let _ = sizehint; // asyncio passes one; the buffer has one size.
        self.buffer.view(py)
    }

    /// The frames of the first `nbytes` bytes of the buffer.
    #[pyo3(signature = (nbytes, /))]
    fn buffer_updated<'py>(&self, py: Python<'py>, nbytes: isize) -> PyResult<Bound<'py, PyList>> {
        let feed = ferrule_wire::LineDecoder::feed;
        let kill = ferrule_wire::LineDecoder::kill;
        decode_buffer(py, &self.buffer, nbytes, &self.state, feed, kill)
    }

    /// The frames of `data`.
    #[pyo3(signature = (data, /))]
    fn feed<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyList>> {
        to_list(
            py,
            decode(&self.state, |state, frames| state.feed(data, frames)),
        )
    }

    /// The stream ended.
    fn eof<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        to_list(py, decode(&self.state, ferrule_wire::LineDecoder::eof))
    }
}
