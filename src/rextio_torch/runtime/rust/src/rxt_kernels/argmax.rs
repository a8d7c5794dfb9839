//! Index of the largest element along one axis. As eager: the first of equal
//! ones (and -0 equals 0); a NaN counts as larger than everything, the first NaN
//! wins.

use super::reduce::max_run;
use super::simd::{Isa, Kernel, Simd};
use super::view::Matrix;

/// `out[r]` is the index in row `r`; for columns give the transposed view.
///
/// Panics if the lengths differ, or if there are rows but no columns: the caller
/// raises eager's IndexError before.
pub fn argmax_rows(isa: Isa, out: &mut [i64], a: Matrix<'_>) {
    assert_eq!(out.len(), a.rows(), "argmax: lengths differ");
    if out.is_empty() {
        return;
    }
    assert!(a.cols() > 0, "argmax: no elements");
    if a.unit_rows() {
        isa.run(Rows { out, a });
    } else if a.row_stride() == 1 && a.rows() > 1 && u32::try_from(a.cols()).is_ok() {
        isa.run(Columns { out, a });
    } else {
        for (r, x) in out.iter_mut().enumerate() {
            // SAFETY: row `r` of the view, `cols` elements.
            *x = unsafe { strided(a.row(r), a.cols(), a.col_stride()) };
        }
    }
}

struct Rows<'a, 'b> {
    out: &'a mut [i64],
    a: Matrix<'b>,
}

/// Elements looked at before the place of their maximum is: they are still in
/// the first-level cache for the second look.
const CHUNK: usize = 1024;

impl Kernel for Rows<'_, '_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let n = self.a.cols();
        for (r, out) in self.out.iter_mut().enumerate() {
            let row = self.a.row(r);
            let mut best = f32::NEG_INFINITY;
            let mut index = 0;
            let mut start = 0;
            while start < n {
                let len = CHUNK.min(n - start);
                // SAFETY: `out` has as many elements as the view has rows, and
                // the `n` elements of a row are adjacent.
                unsafe {
                    let p = row.add(start);
                    let (max, nan) = max_run(s, p, len);
                    if nan {
                        index = start + find(s, p, len, None);
                        break;
                    }
                    // Strictly: the first of equal maxima stays. A row of nothing
                    // but -inf keeps index 0.
                    if max > best {
                        best = max;
                        index = start + find(s, p, len, Some(max));
                    }
                }
                start += len;
            }
            *out = index as i64;
        }
    }
}

/// The first element equal to `key`, or the first NaN; `n` if there is none.
///
/// # Safety
/// `p` is valid for reading `n` elements.
#[inline(always)]
unsafe fn find<S: Simd>(s: S, p: *const f32, n: usize, key: Option<f32>) -> usize {
    // SAFETY: every access is below `n`.
    unsafe {
        let mut i = 0;
        while n - i >= S::LANES {
            let x = s.load(p.add(i));
            let hit = match key {
                Some(key) => s.eq(x, s.splat(key)),
                None => s.unordered(x, x),
            };
            let hit = s.bits(hit);
            if hit != 0 {
                return i + hit.trailing_zeros() as usize;
            }
            i += S::LANES;
        }
        while i < n {
            let x = *p.add(i);
            if key.map_or(x.is_nan(), |key| x == key) {
                break;
            }
            i += 1;
        }
        i
    }
}

/// # Safety
/// The `n` elements, `stride` apart, are valid for reading.
unsafe fn strided(p: *const f32, n: usize, stride: isize) -> i64 {
    let mut best = f32::NEG_INFINITY;
    let mut index = 0;
    let mut p = p;
    for i in 0..n {
        // SAFETY: the caller's promise.
        let x = unsafe { *p };
        if x.is_nan() {
            return i as i64;
        }
        if x > best {
            best = x;
            index = i;
        }
        p = p.wrapping_offset(stride);
    }
    index as i64
}

/// Rows that lie side by side advance together, as in `reduce`.
struct Columns<'a, 'b> {
    out: &'a mut [i64],
    a: Matrix<'b>,
}

const WIDTH: usize = 256;

impl Kernel for Columns<'_, '_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let n = self.a.cols();
        for (block, out) in self.out.chunks_mut(WIDTH).enumerate() {
            let mut best = [f32::NEG_INFINITY; WIDTH];
            // Indices as the bits of floats: they are only ever selected and
            // moved, which keeps bits.
            let mut index = [0.0f32; WIDTH];
            for c in 0..n {
                let line = self.a.at(block * WIDTH, c);
                let here = s.splat(f32::from_bits(c as u32));
                // SAFETY: row `block * WIDTH` exists, since `out` is not empty,
                // and so does column `c`; the line has `out.len()` adjacent
                // elements from there. The running values are whole vectors:
                // WIDTH is a multiple of every LANES.
                unsafe {
                    let mut i = 0;
                    while i < out.len() {
                        let left = out.len() - i;
                        let x = s.load_some(line.add(i), left);
                        let (b, k) = (best.as_mut_ptr().add(i), index.as_mut_ptr().add(i));
                        let old = s.load(b);
                        // Larger, or the first NaN: "not x <= old" also holds
                        // where x is NaN, and a NaN that is there stays.
                        let new = s.and(s.not_le(x, old), s.eq(old, old));
                        s.store(b, s.select(new, x, old));
                        s.store(k, s.select(new, here, s.load(k)));
                        i += S::LANES;
                    }
                }
            }
            for (x, bits) in out.iter_mut().zip(index) {
                *x = i64::from(bits.to_bits());
            }
        }
    }
}
