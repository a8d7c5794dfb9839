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
    let job = Job { out, a, rows, cols, stride };
    if axis == 1 {
        isa.run(Rows(job));
    } else {
        isa.run(Columns(job));
    }
}

/// Rows of adjacent elements, `stride` apart in `a` and `cols` apart in `out`;
/// the two are the same memory, row for row, or disjoint. Not empty.
struct Job {
    out: *mut f32,
    a: *const f32,
    rows: usize,
    cols: usize,
    stride: isize,
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
        let Job { out, a, rows, cols, stride } = self.0;
        for r in 0..rows {
            let from = a.wrapping_offset(stride.wrapping_mul(r as isize));
            // SAFETY: row `r` of both, `cols` elements each.
            unsafe { row(s, out.add(r.wrapping_mul(cols)), from, cols) };
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
    // SAFETY: every access is below `n`, each read before its place is written.
    unsafe {
        let (max, _) = max_run(s, a, n);
        let max = s.splat(max);
        if S::LANES == 1 {
            // Loops that the compiler can turn into vectors: one result each, or
            // several sums side by side.
            for i in 0..n {
                let x = if out.cast_const() == a { out.cast_const() } else { a };
                s.store(out.add(i), math::exp(s, s.sub(s.load(x.add(i)), max)));
            }
            let total = s.splat(sum_run(s, out.cast_const(), n) as f32);
            let inverse = s.div(s.splat(1.0), total);
            for i in 0..n {
                s.store(out.add(i), over(s, s.load(out.add(i)), total, inverse));
            }
            return;
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
        let total = s.splat(total as f32);
        let inverse = s.div(s.splat(1.0), total);
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
const WIDTH: usize = 64;

impl Kernel for Columns {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Job { out, a, rows, cols, stride } = self.0;
        let mut first = 0;
        while first < cols {
            let width = WIDTH.min(cols - first);
            let mut max = [f32::NEG_INFINITY; WIDTH];
            let mut total = [0.0f64; WIDTH];
            let line =
                |r: usize| a.wrapping_offset(stride.wrapping_mul(r as isize)).wrapping_add(first);
            let place = |r: usize| out.wrapping_add(r.wrapping_mul(cols)).wrapping_add(first);
            // SAFETY: r < rows, and columns `first..first + width` exist, in `a`
            // as in `out`. The running values are whole vectors: WIDTH is a
            // multiple of every LANES.
            unsafe {
                for r in 0..rows {
                    let mut i = 0;
                    while i < width {
                        let m = max.as_mut_ptr().add(i);
                        let x = s.load_some(line(r).add(i), width - i);
                        // A NaN is dropped here, and comes back through the sum.
                        s.store(m, s.max(x, s.load(m)));
                        i += S::LANES;
                    }
                }
                for r in 0..rows {
                    let mut i = 0;
                    while i < width {
                        let x = s.load_some(line(r).add(i), width - i);
                        let e = math::exp(s, s.sub(x, s.load(max.as_ptr().add(i))));
                        s.store_some(place(r).add(i), e, width - i);
                        let t = total.as_mut_ptr().add(i);
                        s.d_store(t, s.d_add(s.d_load(t), e));
                        i += S::LANES;
                    }
                }
                // The sums, as f32 and inverted, take the maxima's place.
                let mut inverse = [0.0f32; WIDTH];
                for ((t, m), v) in total.iter().zip(&mut max).zip(&mut inverse) {
                    *m = *t as f32;
                    *v = 1.0 / *m;
                }
                for r in 0..rows {
                    let mut i = 0;
                    while i < width {
                        let e = s.load_some(place(r).add(i), width - i);
                        let t = s.load(max.as_ptr().add(i));
                        let v = s.load(inverse.as_ptr().add(i));
                        s.store_some(place(r).add(i), over(s, e, t, v), width - i);
                        i += S::LANES;
                    }
                }
            }
            first += width;
        }
    }
}
