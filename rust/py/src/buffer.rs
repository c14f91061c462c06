//! The memory that reads go into. Knows who may touch it when; not what is read.
//!
//! Python fills the memory through a `memoryview` (`recv_into`, asyncio's `BufferedProtocol`), and may
//! keep that view for as long as it likes. So, while the memory lives, Rust neither grows, moves nor
//! borrows it: no reference to it is ever made. What was read is copied out through a raw
//! pointer, into scratch memory that Rust alone knows, and is decoded there. The copy of one read costs a
//! few percent of decoding it; in return, whatever Python does with the view, the decoders see bytes
//! that do not change under them.

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use pyo3::{IntoPyObjectExt, ffi};
use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::OnceLock;

thread_local! {
    /// One a thread, not one a decoder: a thousand idle connections need one.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Scratch memory above this size is not kept for the next read.
const LARGEST_SCRATCH: usize = 1024 * 1024;

/// A fixed piece of zeroed memory that is exported to Python. Owned by the views on it.
#[pyclass(frozen)]
struct Memory {
    /// From `Box::into_raw`; given back in `drop`.
    start: NonNull<[u8]>,
}

// SAFETY: `Memory` owns its allocation. Through `&Memory` only the address and the size are read; the bytes
// behind them are touched by Python, and by `copy_out`, which tells its caller the condition.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(size: usize) -> Self {
        // `vec!` of zeros asks the allocator for zeroed memory: pages never read into cost nothing.
        let memory = Box::into_raw(vec![0_u8; size].into_boxed_slice());
        // SAFETY: `Box::into_raw` never returns null.
        let start = unsafe { NonNull::new_unchecked(memory) };
        Memory { start }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `start` came from `Box::into_raw` and is given back once. No view is left: each view
        // holds a reference to the Python object that owns `self`.
        drop(unsafe { Box::from_raw(self.start.as_ptr()) });
    }
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
        let memory = slf.get().start;
        let size = ffi::Py_ssize_t::try_from(memory.len())?;
        // SAFETY: `view` is valid (the caller's duty, and not null), the memory has `size` bytes and lives
        // as long as `slf`, of which the view takes a reference. It is never resized or moved.
        let failed = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), memory.as_ptr().cast(), size, 0, flags)
        };
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
        let memory = Bound::new(py, Memory::new(self.size))?;
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
        let mut scratch = SCRATCH.take();
        scratch.clear();
        scratch.reserve(size);
        let start = memory.get().start.as_ptr().cast::<u8>();
        // SAFETY: `start` points to `self.size >= size` initialised bytes, which live as long as `memory`;
        // `scratch` has room for `size` bytes and is memory of its own, so the two do not overlap. After the
        // copy its first `size` bytes are initialised.
        unsafe {
            std::ptr::copy_nonoverlapping(start, scratch.as_mut_ptr(), size);
            scratch.set_len(size);
        }
        let result = decode(&scratch);
        if scratch.capacity() <= LARGEST_SCRATCH {
            SCRATCH.set(scratch);
        }
        Some(result)
    }
}
