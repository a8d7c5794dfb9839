//! Few rows times a large matrix: memory is the limit, and it wants to be read in
//! order.

use super::simd::Simd;
use super::tiles::Product;

/// [`super::tiles::by_columns`] for a few rows and a `b` too large for the second-level cache: `b` is
/// read in order and once, eight rows of up to `WIDTH` columns at a time, which
/// stay near for all rows of `a`.
///
/// # Safety
/// As for [`super::tiles::by_rows`].
#[inline(always)]
pub(super) unsafe fn by_sweep<S: Simd>(s: S, p: &Product) {
    const WIDTH: usize = 512;
    // One row has the cache for itself, and longer runs to read.
    let width = if p.m == 1 { 4 * WIDTH } else { WIDTH };
    // SAFETY: rows below `k`, columns below `n`.
    unsafe {
        let mut j = 0;
        while j < p.n {
            let width = width.min(p.n - j);
            let line = |q: usize| p.b_at(q).wrapping_add(j);
            let mut q = 0;
            while q < p.k {
                let lines = (p.k - q).min(8);
                for i in 0..p.m {
                    let out = std::slice::from_raw_parts_mut(p.out.add(i * p.n + j), width);
                    if q == 0 {
                        out.fill(0.0);
                    }
                    let x =
                        |q: usize| *p.a_at(i).wrapping_offset(p.a_step.wrapping_mul(q as isize));
                    if lines == 8 {
                        let from: [*const f32; 8] = std::array::from_fn(|u| line(q + u));
                        let factors: [f32; 8] = std::array::from_fn(|u| x(q + u));
                        add_scaled(s, out, &from, &factors);
                    } else {
                        for q in q..p.k {
                            add_scaled(s, out, &[line(q)], &[x(q)]);
                        }
                    }
                }
                q += lines;
            }
            if let Some(bias) = p.bias {
                for i in 0..p.m {
                    let out = std::slice::from_raw_parts_mut(p.out.add(i * p.n + j), width);
                    add_scaled(s, out, &[bias.add(j)], &[1.0]);
                }
            }
            j += width;
        }
    }
}

/// # Safety
/// Each line is valid for reading `out.len()` elements.
#[inline(always)]
unsafe fn add_scaled<S: Simd, const N: usize>(
    s: S,
    out: &mut [f32],
    lines: &[*const f32; N],
    factors: &[f32; N],
) {
    let (n, out) = (out.len(), out.as_mut_ptr());
    let mut x = [s.splat(0.0); N];
    for (x, factor) in x.iter_mut().zip(factors) {
        *x = s.splat(*factor);
    }
    let factors = x;
    let mut i = 0;
    while i < n {
        // SAFETY: the caller's promise, below `n`.
        unsafe {
            let mut x = s.load_some(out.add(i), n - i);
            // Two chains, added at the end.
            let mut y = s.splat(0.0);
            for u in 0..N {
                let term = s.load_some(lines[u].add(i), n - i);
                if u % 2 == 0 {
                    x = s.mul_add(factors[u], term, x);
                } else {
                    y = s.mul_add(factors[u], term, y);
                }
            }
            s.store_some(out.add(i), s.add(x, y), n - i);
        }
        i += S::LANES;
    }
}
