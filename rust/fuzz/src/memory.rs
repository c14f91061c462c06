//! Counts the bytes that a thread holds. Knows nothing of who holds them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, counted.
pub struct Counting;

fn add(size: usize) {
    let size = isize::try_from(size).unwrap_or(isize::MAX);
    let _ = HELD.try_with(|held| held.set(held.get() + size));
}

fn remove(size: usize) {
    let size = isize::try_from(size).unwrap_or(isize::MAX);
    let _ = HELD.try_with(|held| held.set(held.get() - size));
}

// SAFETY: every call is handed to the system's allocator unchanged; counting touches a cell of the thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's duties are those of `System.alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        remove(layout.size());
        // SAFETY: `place` came from `System` with this layout.
        unsafe { System.dealloc(place, layout) }
    }
}

/// What this thread holds now.
pub fn held() -> isize {
    HELD.get()
}
