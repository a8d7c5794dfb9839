//! Sum, mean and maximum along one axis.
//!
//! Sums run in f64 and are rounded once: the error is that rounding and at most
//! n 2^-53 of the sum of the magnitudes, below that of any f32 summation unless
//! the terms cancel to more than fifty bits. Where one of eager's partial sums
//! overflows and the whole does not, eager gives inf and this the finite sum.

use super::simd::{Isa, Kernel, Simd};
use super::view::Matrix;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    Sum,
    Mean,
}

impl Reduce {
    /// Eager rounds the sum, then divides: a mean overflows where its sum does.
    #[inline(always)]
    pub fn finish(self, sum: f64, n: usize) -> f32 {
        match self {
            Reduce::Sum => sum as f32,
            Reduce::Mean => sum as f32 / n as f32,
        }
    }
}

/// Sum of all elements.
pub fn sum(isa: Isa, a: &[f32]) -> f64 {
    isa.run(SumSlice { a })
}

/// `out[r]` is the sum or mean of row `r`; for columns give the transposed view.
/// Panics if the lengths differ.
pub fn reduce_rows(isa: Isa, op: Reduce, out: &mut [f32], a: Matrix<'_>) {
    let n = a.cols();
    sum_each_row(isa, out, a, |sum| op.finish(sum, n));
}

/// `out[r]` is the sum of row `r`, not rounded: a part of a longer row.
/// Panics if the lengths differ.
pub fn sum_rows(isa: Isa, out: &mut [f64], a: Matrix<'_>) {
    sum_each_row(isa, out, a, |sum| sum);
}

fn sum_each_row<T>(isa: Isa, out: &mut [T], a: Matrix<'_>, finish: impl Fn(f64) -> T) {
    assert_eq!(out.len(), a.rows(), "reduce: lengths differ");
    if a.is_empty() {
        // An empty sum is 0 and an empty mean 0 / 0.
        out.fill_with(|| finish(0.0));
    } else if a.unit_rows() {
        isa.run(SumRows { finish, out, a });
    } else if a.row_stride() == 1 && a.rows() > 1 {
        isa.run(SumColumns { finish, out, a });
    } else {
        for (r, x) in out.iter_mut().enumerate() {
            // SAFETY: row `r` of the view, `cols` elements.
            let total = unsafe { sum_strided(a.row(r), a.cols(), a.col_stride()) };
            *x = finish(total);
        }
    }
}

/// The largest element; NaN if any is NaN; -inf of nothing.
pub fn max(isa: Isa, a: &[f32]) -> f32 {
    isa.run(MaxSlice { a })
}

struct SumSlice<'a> {
    a: &'a [f32],
}

impl Kernel for SumSlice<'_> {
    type Out = f64;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f64 {
        // SAFETY: a slice's own pointer and length.
        unsafe { sum_run(s, self.a.as_ptr(), self.a.len()) }
    }
}

struct SumRows<'a, 'b, T, F> {
    finish: F,
    out: &'a mut [T],
    a: Matrix<'b>,
}

impl<T, F: Fn(f64) -> T> Kernel for SumRows<'_, '_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let n = self.a.cols();
        for (r, x) in self.out.iter_mut().enumerate() {
            // SAFETY: `out` has as many elements as the view has rows, and the
            // `cols` elements of a row are adjacent.
            let total = unsafe { sum_run(s, self.a.row(r), n) };
            *x = (self.finish)(total);
        }
    }
}

/// # Safety
/// `p` is valid for reading `n` elements.
#[inline(always)]
pub(super) unsafe fn sum_run<S: Simd>(s: S, p: *const f32, n: usize) -> f64 {
    // SAFETY: every access is below `n`.
    unsafe {
        if S::LANES == 1 {
            // Eight running sums, which the compiler keeps in vectors.
            let mut acc = [0.0f64; 8];
            let blocks = n / 8;
            for b in 0..blocks {
                for (k, x) in acc.iter_mut().enumerate() {
                    *x += f64::from(*p.add(b * 8 + k));
                }
            }
            let rest: f64 = (blocks * 8..n).map(|i| f64::from(*p.add(i))).sum();
            return acc.iter().sum::<f64>() + rest;
        }
        // `wrapping_add` because an index would be checked for overflow, as
        // generated crates are built.
        let mut acc = [s.d_zero(); 4];
        let mut i = 0usize;
        for _ in 0..n / (4 * S::LANES) {
            for (k, x) in acc.iter_mut().enumerate() {
                *x = s.d_add_at(*x, p.add(i).add(k * S::LANES));
            }
            i = i.wrapping_add(4 * S::LANES);
        }
        while n - i >= S::LANES {
            acc[0] = s.d_add_at(acc[0], p.add(i));
            i += S::LANES;
        }
        if i < n {
            acc[1] = s.d_add(acc[1], s.load_head(p.add(i), n - i));
        }
        s.d_sum(s.d_merge(s.d_merge(acc[0], acc[1]), s.d_merge(acc[2], acc[3])))
    }
}

/// # Safety
/// The `n` elements, `stride` apart, are valid for reading.
unsafe fn sum_strided(p: *const f32, n: usize, stride: isize) -> f64 {
    let mut acc = [0.0f64; 4];
    let mut p = p;
    for i in 0..n {
        // SAFETY: the caller's promise.
        acc[i % 4] += f64::from(unsafe { *p });
        p = p.wrapping_offset(stride);
    }
    (acc[0] + acc[1]) + (acc[2] + acc[3])
}

/// Rows whose elements are far apart but which lie side by side: all of them
/// advance together, `WIDTH` at a time, so that memory is read in order.
struct SumColumns<'a, 'b, T, F> {
    finish: F,
    out: &'a mut [T],
    a: Matrix<'b>,
}

/// Running sums of one block: 4 KiB of the first-level cache.
const WIDTH: usize = 512;

impl<T, F: Fn(f64) -> T> Kernel for SumColumns<'_, '_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let SumColumns { finish, out, a } = self;
        let n = a.cols();
        for (block, out) in out.chunks_mut(WIDTH).enumerate() {
            let width = out.len();
            let mut acc = [0.0f64; WIDTH];
            let mut c = 0;
            while c < n {
                // Eight lines at once, to load and store the running sums once.
                // What is beyond the last is read as a line again, and not added.
                let lines = (n - c).min(8);
                // SAFETY: row `block * WIDTH` exists, since `out` is not empty,
                // and so do columns below `n`; each line has `width` adjacent
                // elements from there; `acc` has WIDTH, a multiple of LANES.
                unsafe {
                    let line = |k: usize| a.at(block * WIDTH, c + k);
                    if lines == 8 {
                        let p: [*const f32; 8] = std::array::from_fn(line);
                        add_lines(s, &mut acc, &p, width);
                    } else {
                        for k in 0..lines {
                            add_lines(s, &mut acc, &[line(k)], width);
                        }
                    }
                }
                c += lines;
            }
            for (x, total) in out.iter_mut().zip(acc) {
                *x = finish(total);
            }
        }
    }
}

/// # Safety
/// Each line is valid for reading `width <= WIDTH` elements.
#[inline(always)]
unsafe fn add_lines<S: Simd, const N: usize>(
    s: S,
    acc: &mut [f64; WIDTH],
    lines: &[*const f32; N],
    width: usize,
) {
    let acc = acc.as_mut_ptr();
    // SAFETY: reads below `width`; the running sums are whole vectors, and
    // WIDTH is a multiple of every LANES.
    unsafe {
        let mut i = 0;
        while width - i >= S::LANES {
            let mut x = s.d_load(acc.add(i));
            for line in lines {
                x = s.d_add_at(x, line.add(i));
            }
            s.d_store(acc.add(i), x);
            i += S::LANES;
        }
        if i < width {
            let mut x = s.d_load(acc.add(i));
            for line in lines {
                x = s.d_add(x, s.load_head(line.add(i), width - i));
            }
            s.d_store(acc.add(i), x);
        }
    }
}

struct MaxSlice<'a> {
    a: &'a [f32],
}

impl Kernel for MaxSlice<'_> {
    type Out = f32;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        // SAFETY: a slice's own pointer and length.
        let (max, nan) = unsafe { max_run(s, self.a.as_ptr(), self.a.len()) };
        if nan {
            f32::NAN
        } else {
            max
        }
    }
}

/// The largest element that is not NaN (-inf if there is none), and whether one
/// was NaN.
///
/// # Safety
/// `p` is valid for reading `n` elements.
#[inline(always)]
pub(super) unsafe fn max_run<S: Simd>(s: S, p: *const f32, n: usize) -> (f32, bool) {
    // SAFETY: every access is below `n`.
    unsafe {
        // `max` hands on its second operand where it cannot compare: the running
        // maximum, which is never NaN.
        let mut acc = [s.splat(f32::NEG_INFINITY); 4];
        let mut nan = s.unordered(acc[0], acc[0]);
        let mut i = 0usize;
        for _ in 0..n / (4 * S::LANES) {
            let mut x = acc;
            for k in 0..4 {
                x[k] = s.load(p.add(i).add(k * S::LANES));
                acc[k] = s.max(x[k], acc[k]);
            }
            nan = s.or(nan, s.unordered(x[0], x[1]));
            nan = s.or(nan, s.unordered(x[2], x[3]));
            i = i.wrapping_add(4 * S::LANES);
        }
        while n - i >= S::LANES {
            let x = s.load(p.add(i));
            acc[0] = s.max(x, acc[0]);
            nan = s.or(nan, s.unordered(x, x));
            i += S::LANES;
        }
        let mut max = s.lane_max(s.max(s.max(acc[0], acc[1]), s.max(acc[2], acc[3])));
        let mut nan = s.any(nan);
        // The zeros that fill a partial vector must not count.
        while i < n {
            let x = *p.add(i);
            max = if x > max { x } else { max };
            nan |= x.is_nan();
            i += 1;
        }
        (max, nan)
    }
}
