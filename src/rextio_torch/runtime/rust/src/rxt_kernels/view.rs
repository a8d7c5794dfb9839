//! A borrowed two-dimensional view with any strides.

use std::marker::PhantomData;

use super::elementwise::{gather, gather_transposed};

/// `rows` by `cols` elements; element (r, c) lies `r * row_stride + c *
/// col_stride` elements from `ptr`. Strides may be zero, negative or overlapping.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    ptr: *const f32,
    rows: usize,
    cols: usize,
    row_stride: isize,
    col_stride: isize,
    borrow: PhantomData<&'a [f32]>,
}

impl<'a> Matrix<'a> {
    /// # Safety
    /// Every element of the view is valid for reading for `'a`, and not written while a kernel
    /// reads it, but by a kernel that says that its result may be the same memory.
    pub unsafe fn new(
        ptr: *const f32,
        (rows, cols): (usize, usize),
        (row_stride, col_stride): (isize, isize),
    ) -> Matrix<'a> {
        Matrix { ptr, rows, cols, row_stride, col_stride, borrow: PhantomData }
    }

    /// Row-major elements. Panics if there are not `rows * cols` of them.
    pub fn from_slice(a: &'a [f32], rows: usize, cols: usize) -> Matrix<'a> {
        assert_eq!(Some(a.len()), rows.checked_mul(cols), "matrix: wrong length");
        Matrix {
            ptr: a.as_ptr(),
            rows,
            cols,
            row_stride: cols as isize,
            col_stride: 1,
            borrow: PhantomData,
        }
    }

    #[must_use]
    pub fn transposed(self) -> Matrix<'a> {
        Matrix {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }
    pub fn cols(&self) -> usize {
        self.cols
    }
    pub fn row_stride(&self) -> isize {
        self.row_stride
    }
    pub fn col_stride(&self) -> isize {
        self.col_stride
    }
    pub fn ptr(&self) -> *const f32 {
        self.ptr
    }
    pub fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }

    /// Whether the elements of each row are adjacent.
    pub fn unit_rows(&self) -> bool {
        self.col_stride == 1 || self.cols <= 1
    }
    /// Whether the elements of each column are adjacent.
    pub fn unit_cols(&self) -> bool {
        self.row_stride == 1 || self.rows <= 1
    }

    /// Where row `r` begins. In bounds only for r < rows of a view that is not empty.
    #[inline(always)]
    pub fn row(&self, r: usize) -> *const f32 {
        self.ptr.wrapping_offset(self.row_stride.wrapping_mul(r as isize))
    }

    /// Where element (r, c) lies, under the same condition.
    #[inline(always)]
    pub fn at(&self, r: usize, c: usize) -> *const f32 {
        self.row(r).wrapping_offset(self.col_stride.wrapping_mul(c as isize))
    }

    /// Rows `from..to` only.
    #[must_use]
    pub fn row_range(self, from: usize, to: usize) -> Matrix<'a> {
        assert!(from <= to && to <= self.rows, "matrix: rows out of range");
        Matrix { ptr: self.row(from), rows: to - from, ..self }
    }

    /// Columns `from..to` only.
    #[must_use]
    pub fn column_range(self, from: usize, to: usize) -> Matrix<'a> {
        self.transposed().row_range(from, to).transposed()
    }

    /// Writes the elements in row-major order. Panics if `out` has another size.
    pub fn copy_to(&self, out: &mut [f32]) {
        assert_eq!(Some(out.len()), self.rows.checked_mul(self.cols), "matrix: wrong length");
        if self.is_empty() {
            return;
        }
        // SAFETY: every element read is one of the view, and none of them is in
        // `out`, which nothing else may read while it is borrowed.
        unsafe {
            if self.row_stride == 1 && self.col_stride != 1 {
                gather_transposed(out, self.rows, self.cols, self.ptr, self.col_stride);
            } else {
                for (r, row) in out.chunks_exact_mut(self.cols).enumerate() {
                    gather(row, self.row(r), self.col_stride);
                }
            }
        }
    }
}
