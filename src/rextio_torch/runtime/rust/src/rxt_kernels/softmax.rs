//! Softmax along one axis: e^(x - max) over its sum.
//!
//! As eager, without a special case: a NaN anywhere makes its whole line NaN
//! through the sum; so does +inf, through inf - inf; and so do nothing but -inf.

use super::math;
use super::reduce::{max_run, sum_run};
use super::simd::{Isa, Kernel, Simd};
use super::view::Matrix;

/// Row-major `out`, softmax within each row (`axis` 1) or column (`axis` 0).
/// Panics if the sizes differ or the axis is another.
pub fn softmax(isa: Isa, out: &mut [f32], a: Matrix<'_>, axis: usize) {
    assert!(axis < 2, "softmax: axis {axis}");
    assert_eq!(Some(out.len()), a.rows().checked_mul(a.cols()), "softmax: lengths differ");
    if a.is_empty() {
        return;
    }
    let (rows, cols) = (a.rows(), a.cols());
    let to = out.as_mut_ptr();
    if a.unit_rows() {
        run(isa, to, a.ptr(), rows, cols, a.row_stride(), axis);
    } else {
        a.copy_to(out);
        run(isa, to, to.cast_const(), rows, cols, cols as isize, axis);
    }
}

/// The same on row-major elements, in place.
pub fn softmax_in_place(isa: Isa, x: &mut [f32], rows: usize, cols: usize, axis: usize) {
    assert!(axis < 2, "softmax: axis {axis}");
    assert_eq!(Some(x.len()), rows.checked_mul(cols), "softmax: wrong length");
    if x.is_empty() {
        return;
    }
    let to = x.as_mut_ptr();
    run(isa, to, to.cast_const(), rows, cols, cols as isize, axis);
}

fn run(
    isa: Isa,
    out: *mut f32,
    a: *const f32,
    rows: usize,
    cols: usize,
    stride: isize,
    axis: usize,
) {
    let job = Job { out, a, rows, cols, stride, out_stride: cols };
    if axis == 1 {
        isa.run(Rows(job));
    } else {
        isa.run(Columns(job));
    }
}

/// Columns of a larger result: softmax within each column of `a`, whose rows are adjacent elements;
/// those of the result lie `out_stride` apart.
///
/// # Safety
/// `out` is valid for writing them, and equal to `a`, row for row, or disjoint from it.
pub unsafe fn softmax_columns(isa: Isa, out: *mut f32, out_stride: usize, a: Matrix<'_>) {
    assert!(a.unit_rows(), "softmax: elements of a row are not adjacent");
    let (rows, cols) = (a.rows(), a.cols());
    if !a.is_empty() {
        isa.run(Columns(Job { out, a: a.ptr(), rows, cols, stride: a.row_stride(), out_stride }));
    }
}

/// A piece of long lines that several threads compute in three steps, each of which needs what
/// the one before found in all pieces.
pub struct Piece {
    job: Job,
    axis: usize,
}

enum Step<'a> {
    Max(&'a mut [f32]),
    Exp(&'a [f32], &'a mut [f64]),
    Over(&'a [f64]),
}

impl Piece {
    /// Lines are rows (`axis` 1) or columns (`axis` 0) of `a`, whose rows are adjacent elements;
    /// those of the result lie `out_stride` apart.
    ///
    /// # Safety
    /// While the piece lives `a` stays valid, and `out` is valid for writing by this thread
    /// alone, and equal to `a`, row for row, or disjoint from it.
    pub unsafe fn new(out: *mut f32, out_stride: usize, a: Matrix<'_>, axis: usize) -> Self {
        assert!(axis < 2 && a.unit_rows(), "softmax: axis {axis} of such a layout");
        let (rows, cols) = (a.rows(), a.cols());
        Self { job: Job { out, a: a.ptr(), rows, cols, stride: a.row_stride(), out_stride }, axis }
    }

    fn lines(&self) -> usize {
        [self.job.cols, self.job.rows][self.axis]
    }

    /// The largest element of each line; a NaN does not count.
    pub fn max(&self, isa: Isa) -> Vec<f32> {
        let mut max = vec![f32::NEG_INFINITY; self.lines()];
        isa.run(PieceKernel { piece: self, step: Step::Max(&mut max) });
        max
    }

    /// e^(x - max), and the sum of it for each line.
    pub fn exp(&self, isa: Isa, max: &[f32]) -> Vec<f64> {
        let mut total = vec![0.0; self.lines()];
        assert_eq!(max.len(), total.len(), "softmax: wrong length");
        isa.run(PieceKernel { piece: self, step: Step::Exp(max, &mut total) });
        total
    }

    /// What [`Piece::exp`] left, over the whole sum.
    pub fn over(&self, isa: Isa, total: &[f64]) {
        assert_eq!(total.len(), self.lines(), "softmax: wrong length");
        isa.run(PieceKernel { piece: self, step: Step::Over(total) });
    }
}

struct PieceKernel<'a> {
    piece: &'a Piece,
    step: Step<'a>,
}

impl Kernel for PieceKernel<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Piece { job, axis } = self.piece;
        let mut step = self.step;
        if *axis == 1 {
            for r in 0..job.rows {
                let from = job.a.wrapping_offset(job.stride.wrapping_mul(r as isize));
                let to = job.out.wrapping_add(r.wrapping_mul(job.out_stride));
                // SAFETY: row `r` of both, `cols` elements each, and no other thread's.
                unsafe {
                    match &mut step {
                        Step::Max(max) => max[r] = max_run(s, from, job.cols).0,
                        Step::Exp(max, total) => total[r] = row_exp(s, to, from, job.cols, max[r]),
                        Step::Over(total) => row_over(s, to, job.cols, total[r] as f32),
                    }
                }
            }
            return;
        }
        let mut first = 0;
        while first < job.cols {
            let tile = job.tile(first);
            let lines = first..first + tile.width;
            let (mut m, mut t) = ([f32::NEG_INFINITY; WIDTH], [0.0f64; WIDTH]);
            // SAFETY: the tile lies inside the piece, which is this thread's.
            unsafe {
                match &mut step {
                    Step::Max(max) => {
                        tile.max(s, &mut m);
                        max[lines].copy_from_slice(&m[..tile.width]);
                    }
                    Step::Exp(max, total) => {
                        m[..tile.width].copy_from_slice(&max[lines.clone()]);
                        tile.exp(s, &m, &mut t);
                        total[lines].copy_from_slice(&t[..tile.width]);
                    }
                    Step::Over(total) => {
                        t[..tile.width].copy_from_slice(&total[lines]);
                        tile.over(s, &t);
                    }
                }
            }
            first += tile.width;
        }
    }
}

/// Rows of adjacent elements, `stride` apart in `a` and `out_stride` apart in `out`;
/// the two are the same memory, row for row, or disjoint. Not empty.
struct Job {
    out: *mut f32,
    a: *const f32,
    rows: usize,
    cols: usize,
    stride: isize,
    out_stride: usize,
}

/// e / total. Where the product's rounding can be had, a reciprocal and one
/// correction give what the division gives at a fifth of its cost.
#[inline(always)]
fn over<S: Simd>(s: S, e: S::V, total: S::V, inverse: S::V) -> S::V {
    if S::FMA {
        let q = s.mul(e, inverse);
        s.mul_add(s.neg_mul_add(q, total, e), inverse, q)
    } else {
        s.div(e, total)
    }
}

struct Rows(Job);

impl Kernel for Rows {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Job { out, a, rows, cols, stride, out_stride } = self.0;
        for r in 0..rows {
            let from = a.wrapping_offset(stride.wrapping_mul(r as isize));
            // SAFETY: row `r` of both, `cols` elements each.
            unsafe { row(s, out.add(r.wrapping_mul(out_stride)), from, cols) };
        }
    }
}

/// Terms added in f32 before the sum goes on in f64: a long row must not lose
/// more than a short one.
const CHUNK: usize = 2048;

/// # Safety
/// Both are valid for `n` elements, the same ones or disjoint.
#[inline(always)]
unsafe fn row<S: Simd>(s: S, out: *mut f32, a: *const f32, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let (max, _) = max_run(s, a, n);
        let total = row_exp(s, out, a, n, max);
        row_over(s, out, n, total as f32);
    }
}

/// `out = e^(a - max)`, and the sum of it.
///
/// # Safety
/// Both are valid for `n` elements, the same ones or disjoint.
#[inline(always)]
unsafe fn row_exp<S: Simd>(s: S, out: *mut f32, a: *const f32, n: usize, max: f32) -> f64 {
    // SAFETY: every access is below `n`, each read before its place is written.
    unsafe {
        let max = s.splat(max);
        if S::LANES == 1 {
            // Loops that the compiler can turn into vectors: one result each, or
            // several sums side by side.
            for i in 0..n {
                let x = if out.cast_const() == a { out.cast_const() } else { a };
                s.store(out.add(i), math::exp(s, s.sub(s.load(x.add(i)), max)));
            }
            return sum_run(s, out.cast_const(), n);
        }
        let mut total = 0.0f64;
        let mut i = 0;
        while i < n {
            let end = n.min(i + CHUNK);
            let mut acc = [s.splat(0.0); 4];
            while end - i >= 4 * S::LANES {
                for (k, x) in acc.iter_mut().enumerate() {
                    let at = i + k * S::LANES;
                    let e = math::exp(s, s.sub(s.load(a.add(at)), max));
                    s.store(out.add(at), e);
                    *x = s.add(*x, e);
                }
                i += 4 * S::LANES;
            }
            while end - i >= S::LANES {
                let e = math::exp(s, s.sub(s.load(a.add(i)), max));
                s.store(out.add(i), e);
                acc[0] = s.add(acc[0], e);
                i += S::LANES;
            }
            if i < end {
                let left = end - i;
                let e = math::exp(s, s.sub(s.load_head(a.add(i), left), max));
                s.store_head(out.add(i), e, left);
                // The lanes beyond hold e^(0 - max): read back as zeros.
                acc[1] = s.add(acc[1], s.load_head(out.add(i), left));
                i = end;
            }
            let sum = s.add(s.add(acc[0], acc[1]), s.add(acc[2], acc[3]));
            total += f64::from(s.lane_sum(sum));
        }
        total
    }
}

/// `out = out / total`.
///
/// # Safety
/// `out` is valid for `n` elements.
#[inline(always)]
unsafe fn row_over<S: Simd>(s: S, out: *mut f32, n: usize, total: f32) {
    let total = s.splat(total);
    let inverse = s.div(s.splat(1.0), total);
    // SAFETY: every access is below `n`.
    unsafe {
        if S::LANES == 1 {
            for i in 0..n {
                s.store(out.add(i), over(s, s.load(out.add(i)), total, inverse));
            }
            return;
        }
        let mut i = 0;
        while n - i >= S::LANES {
            let e = s.load(out.add(i));
            s.store(out.add(i), over(s, e, total, inverse));
            i += S::LANES;
        }
        if i < n {
            let e = s.load_head(out.add(i), n - i);
            s.store_head(out.add(i), over(s, e, total, inverse), n - i);
        }
    }
}

struct Columns(Job);

/// Columns that advance together: few, so that what is read three times stays in the
/// second-level cache.
pub const WIDTH: usize = 64;

impl Kernel for Columns {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let job = self.0;
        let mut first = 0;
        while first < job.cols {
            let tile = job.tile(first);
            let (mut max, mut total) = ([f32::NEG_INFINITY; WIDTH], [0.0f64; WIDTH]);
            // SAFETY: the tile lies inside both.
            unsafe {
                tile.max(s, &mut max);
                tile.exp(s, &max, &mut total);
                tile.over(s, &total);
            }
            first += tile.width;
        }
    }
}

impl Job {
    /// Columns from `first` on, at most [`WIDTH`].
    #[inline(always)]
    fn tile(&self, first: usize) -> Tile {
        Tile {
            out: self.out.wrapping_add(first),
            a: self.a.wrapping_add(first),
            rows: self.rows,
            width: WIDTH.min(self.cols - first),
            stride: self.stride,
            out_stride: self.out_stride,
        }
    }
}

/// At most [`WIDTH`] columns. Running values are whole vectors: WIDTH is a multiple of every
/// LANES. In each method `a` and `out` are valid for `rows` rows of `width` elements.
struct Tile {
    out: *mut f32,
    a: *const f32,
    rows: usize,
    width: usize,
    stride: isize,
    out_stride: usize,
}

impl Tile {
    #[inline(always)]
    fn line(&self, r: usize) -> *const f32 {
        self.a.wrapping_offset(self.stride.wrapping_mul(r as isize))
    }

    #[inline(always)]
    fn place(&self, r: usize) -> *mut f32 {
        self.out.wrapping_add(r.wrapping_mul(self.out_stride))
    }

    /// # Safety
    /// As the type says.
    #[inline(always)]
    unsafe fn max<S: Simd>(&self, s: S, max: &mut [f32; WIDTH]) {
        for r in 0..self.rows {
            let mut i = 0;
            while i < self.width {
                // SAFETY: r < rows and i < width.
                unsafe {
                    let m = max.as_mut_ptr().add(i);
                    let x = s.load_some(self.line(r).add(i), self.width - i);
                    // A NaN is dropped here, and comes back through the sum.
                    s.store(m, s.max(x, s.load(m)));
                }
                i += S::LANES;
            }
        }
    }

    /// `out = e^(a - max)`, added up in `total`.
    ///
    /// # Safety
    /// As the type says.
    #[inline(always)]
    unsafe fn exp<S: Simd>(&self, s: S, max: &[f32; WIDTH], total: &mut [f64; WIDTH]) {
        for r in 0..self.rows {
            let mut i = 0;
            while i < self.width {
                // SAFETY: r < rows and i < width.
                unsafe {
                    let x = s.load_some(self.line(r).add(i), self.width - i);
                    let e = math::exp(s, s.sub(x, s.load(max.as_ptr().add(i))));
                    s.store_some(self.place(r).add(i), e, self.width - i);
                    let t = total.as_mut_ptr().add(i);
                    s.d_store(t, s.d_add(s.d_load(t), e));
                }
                i += S::LANES;
            }
        }
    }

    /// `out = out / total`.
    ///
    /// # Safety
    /// As the type says.
    #[inline(always)]
    unsafe fn over<S: Simd>(&self, s: S, total: &[f64; WIDTH]) {
        let total = total.map(|total| total as f32);
        let inverse = total.map(|total| 1.0 / total);
        for r in 0..self.rows {
            let mut i = 0;
            while i < self.width {
                // SAFETY: r < rows and i < width.
                unsafe {
                    let e = s.load_some(self.place(r).add(i), self.width - i);
                    let t = s.load(total.as_ptr().add(i));
                    let v = s.load(inverse.as_ptr().add(i));
                    s.store_some(self.place(r).add(i), over(s, e, t, v), self.width - i);
                }
                i += S::LANES;
            }
        }
    }
}
