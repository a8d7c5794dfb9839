//! Memory of results and temporaries: 64-byte aligned, kept for the next one when freed.
//!
//! Eager PyTorch pays for page faults on every large result; here freed memory is used again. Two
//! stores, both bounded: each thread keeps a few small blocks, and the process keeps large ones up
//! to [`POOL_BYTES`]. A process that was forked while another thread held the store's lock just
//! allocates: the lock is only ever tried.
//!
//! The largest blocks come from the system and go back to it: the C library would keep what is
//! freed to it in a heap with holes, and its pages are small ([`pages`]).
//!
//! Memory that is used again hides mistakes from memory checkers: with [`EXACT`] each buffer is an
//! allocation of its own, as large as what was asked for.

use std::alloc::{alloc, dealloc, Layout};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Mutex;

use super::super::rxt_core::error::{Error, Result};

/// Compiled for a memory checker: nothing is kept for the next one.
pub const EXACT: bool = option_env!("REXTIO_TORCH_EXACT_MEMORY").is_some();
/// Alignment of every buffer in bytes: a cache line, and what PyTorch's own allocator gives.
pub const ALIGNMENT: usize = 64;
/// Bytes before the elements that belong to whoever holds the buffer.
pub const HEADER_BYTES: usize = 128;
/// The most that the process keeps of freed large blocks, in bytes.
pub const POOL_BYTES: usize = 128 << 20;
/// Blocks of up to this size are kept by the thread that frees them.
const SMALL_BYTES: usize = 4096;
/// How many of them.
const SMALL_BLOCKS: usize = 16;
/// Blocks below this size are cheap to allocate.
const LARGE_BYTES: usize = 64 << 10;

/// A block of memory: a header, then elements of 4 or 8 bytes. Neither is initialised.
#[derive(Debug)]
pub struct Buffer {
    block: NonNull<u8>,
    /// Of the whole block, header included.
    bytes: usize,
}

// SAFETY: a buffer owns its block; nothing in it depends on the thread.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer only gives out its address.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer for `count` elements of `size` bytes; an error, as in eager, if there is no memory.
    pub fn new(count: usize, size: usize) -> Result<Self> {
        let bytes = count
            .checked_mul(size)
            .and_then(|bytes| bytes.checked_add(HEADER_BYTES))
            .ok_or_else(|| no_memory(count, size))?;
        if EXACT {
            return Self::allocate(bytes).ok_or_else(|| no_memory(count, size));
        }
        if bytes <= SMALL_BYTES {
            let kept = SMALL.try_with(|small| small.borrow_mut().0.pop()).ok().flatten();
            if let Some(block) = kept {
                return Ok(block.into_buffer());
            }
        }
        if bytes >= LARGE_BYTES {
            if let Some(buffer) = POOL.try_lock().ok().and_then(|mut pool| pool.take(bytes)) {
                return Ok(buffer);
            }
        }
        Self::allocate(bytes.max(SMALL_BYTES)).ok_or_else(|| no_memory(count, size))
    }

    fn allocate(bytes: usize) -> Option<Self> {
        if bytes >= pages::LEAST_BYTES && !EXACT {
            return Some(Self { block: pages::map(bytes)?, bytes });
        }
        let layout = Layout::from_size_align(bytes, ALIGNMENT).ok()?;
        // SAFETY: the layout's size is not zero.
        let block = NonNull::new(unsafe { alloc(layout) })?;
        Some(Self { block, bytes })
    }

    /// The start of the header.
    pub fn header(&self) -> NonNull<u8> {
        self.block
    }

    /// The start of the elements.
    pub fn data(&self) -> *mut u8 {
        // SAFETY: every block is at least a header long.
        unsafe { self.block.as_ptr().add(HEADER_BYTES) }
    }

    /// Give up the buffer; [`Buffer::from_header`] takes it back.
    pub fn into_header(self) -> (NonNull<u8>, usize) {
        let parts = (self.block, self.bytes);
        std::mem::forget(self);
        parts
    }

    /// # Safety
    /// The parts come from [`Buffer::into_header`] and are used once.
    pub unsafe fn from_header(block: NonNull<u8>, bytes: usize) -> Self {
        Self { block, bytes }
    }

    fn free(&mut self) {
        // SAFETY: the block came from `allocate` with this size, and is not used afterwards.
        unsafe {
            if self.bytes >= pages::LEAST_BYTES && !EXACT {
                return pages::unmap(self.block, self.bytes);
            }
            let layout = Layout::from_size_align_unchecked(self.bytes, ALIGNMENT);
            dealloc(self.block.as_ptr(), layout);
        }
    }
}

#[cold]
fn no_memory(count: usize, size: usize) -> Error {
    Error::runtime(format!(
        "not enough memory for a result of {count} elements of {size} bytes each"
    ))
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let taken = Self { block: self.block, bytes: self.bytes };
        let kept = if EXACT {
            false
        } else if self.bytes == SMALL_BYTES {
            // At the end of a thread its store is gone: then the block is freed.
            SMALL.try_with(|small| small.borrow_mut().keep(taken.block)).unwrap_or(false)
        } else if self.bytes >= LARGE_BYTES {
            POOL.try_lock().is_ok_and(|mut pool| pool.keep(taken.block, taken.bytes))
        } else {
            false
        };
        std::mem::forget(taken);
        if !kept {
            self.free();
        }
    }
}

/// Memory from the system, page by page.
#[cfg(all(any(target_os = "linux", target_os = "macos"), target_pointer_width = "64"))]
mod pages {
    use std::ffi::{c_int, c_void};
    use std::ptr::{null_mut, NonNull};

    /// A huge page of x86-64, and of AArch64 with pages of 4 KiB.
    const HUGE_PAGE: usize = 2 << 20;
    /// Blocks from this size on. Below, the faults of small pages cost more than filling them, and
    /// the C library's heap is much faster when it is warm.
    pub const LEAST_BYTES: usize = HUGE_PAGE;

    const READ_WRITE: c_int = 1 | 2;
    const PRIVATE: c_int = 2;
    const ANONYMOUS: c_int = if cfg!(target_os = "linux") { 0x20 } else { 0x1000 };
    const FAILED: *mut c_void = usize::MAX as *mut c_void;

    // Of the C library that std links in any case.
    extern "C" {
        fn mmap(
            address: *mut c_void,
            bytes: usize,
            protection: c_int,
            flags: c_int,
            file: c_int,
            offset: i64,
        ) -> *mut c_void;
        fn munmap(address: *mut c_void, bytes: usize) -> c_int;
        #[cfg(target_os = "linux")]
        fn madvise(address: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    }

    /// What is mapped for a block. Linux aligns a mapping of whole huge pages; what lies beyond
    /// the block is never touched, so it takes no memory.
    fn mapped(bytes: usize) -> Option<usize> {
        bytes.checked_next_multiple_of(HUGE_PAGE)
    }

    pub fn map(bytes: usize) -> Option<NonNull<u8>> {
        let mapped = mapped(bytes)?;
        // SAFETY: new memory at an address that the system chooses touches nothing that exists.
        let block = unsafe { mmap(null_mut(), mapped, READ_WRITE, PRIVATE | ANONYMOUS, -1, 0) };
        if block == FAILED {
            return None;
        }
        #[cfg(target_os = "linux")]
        {
            const HUGE_PAGES: c_int = 14;
            // Only what is filled: a huge page for the last few bytes would cost its 2 MiB.
            // SAFETY: advice on memory of our own. Where it is not taken, pages are small.
            unsafe { madvise(block, bytes / HUGE_PAGE * HUGE_PAGE, HUGE_PAGES) };
        }
        NonNull::new(block.cast())
    }

    /// # Safety
    /// The block came from [`map`] with this size, and nobody uses it any more.
    pub unsafe fn unmap(block: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise. It cannot fail on a whole mapping.
        unsafe { munmap(block.as_ptr().cast(), mapped(bytes).unwrap_or(bytes)) };
    }
}

/// Elsewhere everything comes from the C library.
#[cfg(not(all(any(target_os = "linux", target_os = "macos"), target_pointer_width = "64")))]
mod pages {
    use std::ptr::NonNull;

    pub const LEAST_BYTES: usize = usize::MAX;

    pub fn map(_: usize) -> Option<NonNull<u8>> {
        None
    }

    /// # Safety
    /// None: it does nothing, since [`map`] gives nothing.
    pub unsafe fn unmap(_: NonNull<u8>, _: usize) {}
}

/// A kept block of [`SMALL_BYTES`].
struct SmallBlock(NonNull<u8>);

impl SmallBlock {
    fn into_buffer(self) -> Buffer {
        Buffer { block: self.0, bytes: SMALL_BYTES }
    }
}

/// Small blocks of one thread.
struct Small(Vec<SmallBlock>);

impl Small {
    fn keep(&mut self, block: NonNull<u8>) -> bool {
        if self.0.len() >= SMALL_BLOCKS {
            return false;
        }
        self.0.push(SmallBlock(block));
        true
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        for block in self.0.drain(..) {
            let mut buffer = block.into_buffer();
            buffer.free();
            std::mem::forget(buffer);
        }
    }
}

thread_local! {
    static SMALL: RefCell<Small> = const { RefCell::new(Small(Vec::new())) };
}

/// Large blocks of the process, the last freed last.
struct Pool {
    blocks: Vec<(NonNull<u8>, usize)>,
    bytes: usize,
}

// SAFETY: the pool owns its blocks; nothing in them depends on the thread.
unsafe impl Send for Pool {}

static POOL: Mutex<Pool> = Mutex::new(Pool { blocks: Vec::new(), bytes: 0 });

impl Pool {
    /// The most recently freed block of at least `bytes`, if it is not much larger than that.
    fn take(&mut self, bytes: usize) -> Option<Buffer> {
        let fits = |&(_, size): &(NonNull<u8>, usize)| size >= bytes && size <= bytes + bytes / 4;
        let index = self.blocks.iter().rposition(fits)?;
        let (block, size) = self.blocks.remove(index);
        self.bytes -= size;
        Some(Buffer { block, bytes: size })
    }

    /// Keep a block, letting go of the ones freed first where there is no room.
    fn keep(&mut self, block: NonNull<u8>, bytes: usize) -> bool {
        if bytes > POOL_BYTES {
            return false;
        }
        while self.bytes + bytes > POOL_BYTES {
            let (block, size) = self.blocks.remove(0);
            self.bytes -= size;
            let mut buffer = Buffer { block, bytes: size };
            buffer.free();
            std::mem::forget(buffer);
        }
        self.bytes += bytes;
        self.blocks.push((block, bytes));
        true
    }
}

/// Bytes that the process-wide store holds now.
pub fn pooled_bytes() -> usize {
    POOL.lock().map_or(0, |pool| pool.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_aligned_and_writable() {
        for count in [0, 1, 7, 1000, 1 << 18, (1 << 20) - 32, (1 << 20) - 31, 3 << 20] {
            let buffer = Buffer::new(count, 4).unwrap();
            assert_eq!(buffer.data() as usize % ALIGNMENT, 0);
            // SAFETY: the buffer has `count` elements of 4 bytes.
            unsafe { std::ptr::write_bytes(buffer.data(), 0xff, count * 4) };
        }
    }

    #[test]
    fn too_much_is_an_error() {
        for count in [usize::MAX, usize::MAX / 4, 1 << 60] {
            assert!(Buffer::new(count, 4).is_err());
        }
    }

    #[test]
    fn a_small_block_is_used_again() {
        let first = Buffer::new(10, 4).unwrap().header();
        assert_eq!(Buffer::new(20, 4).unwrap().header(), first);
    }

    #[test]
    fn the_pool_is_bounded() {
        let buffers: Vec<Buffer> = (0..40).map(|_| Buffer::new(4 << 20, 1).unwrap()).collect();
        drop(buffers);
        assert!(pooled_bytes() <= POOL_BYTES);
        drop(Buffer::new(POOL_BYTES + 1, 1).unwrap());
        assert!(pooled_bytes() <= POOL_BYTES);
    }

    #[test]
    fn a_kept_block_holds_what_it_is_used_for() {
        for (freed, wanted) in [(1 << 20, 1_200_000), (1 << 20, 1 << 20), (1 << 20, 900_000)] {
            drop(Buffer::new(freed, 1).unwrap());
            let (block, bytes) = Buffer::new(wanted, 1).unwrap().into_header();
            // SAFETY: the parts of the buffer just given up.
            drop(unsafe { Buffer::from_header(block, bytes) });
            assert!(bytes >= HEADER_BYTES + wanted, "{bytes} for {wanted}");
        }
    }

    #[test]
    fn a_thread_keeps_few_small_blocks() {
        let buffers: Vec<Buffer> = (0..100).map(|_| Buffer::new(1, 4).unwrap()).collect();
        drop(buffers);
        assert_eq!(SMALL.with(|small| small.borrow().0.len()), SMALL_BLOCKS);
    }

    #[test]
    fn buffers_may_end_on_another_thread() {
        let buffer = Buffer::new(1 << 20, 4).unwrap();
        let small = Buffer::new(1, 4).unwrap();
        std::thread::spawn(move || drop((buffer, small))).join().unwrap();
    }
}
