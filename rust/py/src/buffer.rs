//! The memory that reads go into. Knows who may touch it when; not what is read.
//!
//! Python fills the memory through a `memoryview` (`recv_into`, asyncio's `BufferedProtocol`), and may
//! keep that view for as long as it likes. So, while the memory lives, Rust neither grows, moves nor
//! borrows it: no reference to it is ever made. What was read is copied out through a raw
//! pointer, into scratch memory that Rust alone knows, and is decoded there. The copy of one read costs a
//! few percent of decoding it; in return, whatever Python does with the view, the decoders see bytes
//! that do not change under them.

use crate::pages::Pages;
use pyo3::exceptions::{PyBufferError, PyMemoryError};
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use pyo3::{IntoPyObjectExt, ffi};
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::OnceLock;

thread_local! {
    /// One a thread, not one a decoder: a thousand idle connections need one.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The largest receive buffer: no read is larger on any system.
pub const LARGEST_BUFFER: usize = 1 << 30;

/// Scratch memory above this size is not kept for the next read.
const LARGEST_SCRATCH: usize = 1024 * 1024;

/// The memory as Python sees it: an object that owns it and exports it. Each view holds a reference to the
/// object, so the memory is freed after the last view.
#[pyclass(frozen)]
struct Memory {
    pages: Pages,
}

#[pymethods]
impl Memory {
    /// Exports the memory, writable.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let py = slf.py();
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        let pages = &slf.get().pages;
        let size = ffi::Py_ssize_t::try_from(pages.size())?;
        let start = pages.start().as_ptr();
        // SAFETY: `view` is valid (the caller's duty, and not null), the memory has `size` bytes and lives
        // as long as `slf`, of which the view takes a reference. It is never resized or moved.
        let failed =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start.cast(), size, 0, flags) };
        if failed == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(py))
        }
    }
}

/// The receive buffer of a decoder: made when it is first asked for.
pub struct ReceiveBuffer {
    size: usize,
    made: OnceLock<(Py<Memory>, Py<PyMemoryView>)>,
}

impl ReceiveBuffer {
    pub const fn new(size: usize) -> Self {
        ReceiveBuffer {
            size,
            made: OnceLock::new(),
        }
    }

    /// The view on the whole memory, always the same one.
    pub fn view<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        if let Some((_, view)) = self.made.get() {
            return Ok(view.bind(py).clone());
        }
        let pages = Pages::new(self.size).ok_or_else(|| PyMemoryError::new_err(()))?;
        let memory = Bound::new(py, Memory { pages })?;
        let view = PyMemoryView::from(&memory.clone().into_bound_py_any(py)?)?;
        // Two threads may make one at once: the first stays, the other is dropped.
        let (_, view) = self.made.get_or_init(|| (memory.unbind(), view.unbind()));
        Ok(view.bind(py).clone())
    }

    /// Hands a copy of the first `size` bytes to `decode`; `None` when there are not as many.
    ///
    /// Nobody may be writing to the first `size` bytes meanwhile: the driver's duty, which has one reader a
    /// stream and calls this after its read returned. Should it fail in that, the bytes are garbage,
    /// but the decoder still sees them unchanging.
    pub fn copy_out<R>(&self, size: usize, decode: impl FnOnce(&[u8]) -> R) -> Option<R> {
        if size > self.size {
            return None;
        }
        let Some((memory, _)) = self.made.get() else {
            return (size == 0).then(|| decode(&[]));
        };
        // A thread that is ending has no scratch any more: then the read gets its own.
        let mut scratch = SCRATCH.try_with(Cell::take).unwrap_or_default();
        scratch.clear();
        scratch.try_reserve(size).ok()?;
        let start = memory.get().pages.start().as_ptr();
        // SAFETY: `start` points to `self.size >= size` initialised bytes, which live as long as `memory`;
        // `scratch` has room for `size` bytes and is memory of its own, so the two do not overlap. After the
        // copy its first `size` bytes are initialised.
        unsafe {
            std::ptr::copy_nonoverlapping(start, scratch.as_mut_ptr(), size);
            scratch.set_len(size);
        }
        let result = decode(&scratch);
        if scratch.capacity() <= LARGEST_SCRATCH {
            let _ = SCRATCH.try_with(|kept| kept.set(scratch));
        }
        Some(result)
    }
}
