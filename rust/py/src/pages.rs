//! Zeroed memory whose untouched pages cost nothing. Knows the operating system, not what the memory
//! is for.
//!
//! Why not the allocator: glibc's `calloc` writes zeros over most of what it hands out, so a receive buffer
//! of 64 KiB would cost 64 KiB before its first byte; a page that was only mapped costs nothing.

use std::ptr::NonNull;

/// A fixed piece of memory, zeroed when made. Never moves; freed when dropped.
pub struct Pages {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: `Pages` owns its memory, and its methods read the address and the size only. Whoever goes through the
// pointer answers for what happens there.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Where the memory starts.
    pub const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How many bytes it has.
    pub const fn size(&self) -> usize {
        self.size
    }
}

#[cfg(unix)]
impl Pages {
    /// `size` bytes, not zero of them; `None` when the system has not as many.
    pub fn new(size: usize) -> Option<Self> {
        // SAFETY: a private anonymous mapping at no wanted address touches no memory that exists.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANON,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return None;
        }
        // Neighbouring buffers must not be filled up to one huge page by their first byte. A hint: it may fail.
        #[cfg(target_os = "linux")]
        // SAFETY: the range is the mapping made above.
        unsafe {
            libc::madvise(memory, size, libc::MADV_NOHUGEPAGE);
        }
        let start = NonNull::new(memory.cast())?;
        Some(Pages { start, size })
    }
}

#[cfg(unix)]
impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping that `new` made; it is unmapped once.
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.size);
        }
    }
}

#[cfg(not(unix))]
impl Pages {
    /// `size` bytes, not zero of them; `None` when the system has not as many.
    pub fn new(size: usize) -> Option<Self> {
        let mut memory = Vec::new();
        memory.try_reserve_exact(size).ok()?;
        memory.resize(size, 0_u8);
        let memory = Box::into_raw(memory.into_boxed_slice());
        let start = NonNull::new(memory.cast())?;
        Some(Pages { start, size })
    }
}

#[cfg(not(unix))]
impl Drop for Pages {
    fn drop(&mut self) {
        let memory = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.size);
        // SAFETY: the slice is the box that `new` gave up; it is taken back once.
        drop(unsafe { Box::from_raw(memory) });
    }
}
