//! Memory that several threads read and write.

use std::ops::Range;

use super::super::super::rxt_core::error::Result;
use super::super::super::rxt_kernels::view::Matrix;
use super::super::buffer::Buffer;
use super::super::node::View;
use super::super::parallel::{split, Threads};

/// A pointer that several threads write disjoint parts of.
#[derive(Clone, Copy)]
pub struct Shared(pub *mut f32);

// SAFETY: each use says which part it writes, and parts are disjoint.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    #[inline]
    pub fn get(self) -> *mut f32 {
        self.0
    }

    /// # Safety
    /// `offset..offset + count` lies in the memory behind the pointer, and no other thread uses
    /// that part while the slice lives.
    #[inline]
    pub unsafe fn part<'a>(self, offset: usize, count: usize) -> &'a mut [f32] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(offset), count) }
    }
}

/// A view that several threads read.
#[derive(Clone, Copy)]
pub struct Readable(pub View);

// SAFETY: threads only read it. Where it is the memory of the result itself, each thread touches
// its own part only.
unsafe impl Sync for Readable {}
// SAFETY: an address and sizes; nothing in it depends on the thread.
unsafe impl Send for Readable {}

impl Readable {
    #[inline]
    pub fn get(self) -> View {
        self.0
    }

    #[inline]
    pub fn matrix(&self) -> Matrix<'_> {
        let View { data, rows, columns, row_stride, column_stride } = self.0;
        // SAFETY: a node's view is valid for reading while the node lives, and the caller keeps
        // the node for as long as it uses the matrix.
        unsafe { Matrix::new(data, (rows, columns), (row_stride, column_stride)) }
    }

    /// The elements of a single row, copied.
    pub fn elements(&self) -> Vec<f32> {
        let mut elements = vec![0.0; self.0.columns];
        self.matrix().copy_to(&mut elements);
        elements
    }
}

/// [`split`] over the lines of a result; each part is given the memory of its own, `width` elements
/// a line.
///
/// # Safety
/// The memory has `lines * width` elements, and nothing else uses it meanwhile.
#[inline]
pub unsafe fn split_out(
    threads: Threads,
    out: Shared,
    (lines, width): (usize, usize),
    step: usize,
    nanoseconds: f64,
    work: impl Fn(Range<usize>, &mut [f32]) + Sync,
) {
    split(threads, lines, step, nanoseconds, |part| {
        // SAFETY: the parts are disjoint, and the caller promises the rest.
        let out = unsafe { out.part(part.start * width, part.len() * width) };
        work(part, out);
    });
}

#[inline]
pub fn f32_buffer(count: usize) -> Result<(Buffer, Shared)> {
    let buffer = Buffer::new(count, size_of::<f32>())?;
    let data = Shared(buffer.data().cast());
    Ok((buffer, data))
}
