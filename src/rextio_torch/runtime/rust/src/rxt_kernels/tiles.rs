//! Register tiles of the small products: everything that must be inlined into a
//! kernel compiled for one instruction set.
//!
//! `T` is always the number of accumulators, the product of the other constants
//! (stable Rust cannot multiply them in a type).

use super::simd::Simd;

/// `acc[i * NR + j]` holds, lane by lane, the products of row `a[i]` with row
/// `b[j]`: both run along `k`, so every load is a whole vector.
///
/// # Safety
/// Every row is valid for reading `k` elements.
#[inline(always)]
unsafe fn dot_tile<S: Simd, const MR: usize, const NR: usize, const T: usize>(
    s: S,
    a: &[*const f32; MR],
    b: &[*const f32; NR],
    k: usize,
) -> [S::V; T] {
    let mut total = [s.splat(0.0); T];
    let mut from = 0usize;
    while from < k {
        let to = k.min(from.wrapping_add(chain::<S>(true) * S::LANES));
        let mut acc = [s.splat(0.0); T];
        // SAFETY: every access is below `k`.
        unsafe {
            // `wrapping_add` because an index would be checked for overflow, as
            // generated crates are built.
            let mut p = from;
            for _ in 0..(to - from) / S::LANES {
                let mut x = [s.splat(0.0); MR];
                for i in 0..MR {
                    x[i] = s.load(a[i].add(p));
                }
                for j in 0..NR {
                    let y = s.load(b[j].add(p));
                    for i in 0..MR {
                        acc[i * NR + j] = s.mul_add(x[i], y, acc[i * NR + j]);
                    }
                }
                p = p.wrapping_add(S::LANES);
            }
            if p < to {
                // Zeros beyond the end of both: no NaN, no contribution.
                let left = to - p;
                let mut x = [s.splat(0.0); MR];
                for i in 0..MR {
                    x[i] = s.load_head(a[i].add(p), left);
                }
                for j in 0..NR {
                    let y = s.load_head(b[j].add(p), left);
                    for i in 0..MR {
                        acc[i * NR + j] = s.mul_add(x[i], y, acc[i * NR + j]);
                    }
                }
            }
        }
        add_chain(s, &mut total, &acc, from == 0);
        from = to;
    }
    total
}

/// Terms that are added to one running sum before it is put aside and a new one
/// begun: the rounding error of a long sum grows with the two lengths' sum, not
/// with their product. Dot products and single rows, which eager splits further, and
/// single lanes get shorter ones.
#[inline(always)]
pub(super) fn chain<S: Simd>(short: bool) -> usize {
    match (S::LANES, short) {
        (1, _) => 16,
        (_, true) => 32,
        (_, false) => 64,
    }
}

/// `total += acc`, or `total = acc` for the first.
#[inline(always)]
pub(super) fn add_chain<S: Simd, const T: usize>(
    s: S,
    total: &mut [S::V; T],
    acc: &[S::V; T],
    first: bool,
) {
    if first {
        *total = *acc;
    } else {
        for (total, acc) in total.iter_mut().zip(acc) {
            *total = s.add(*total, *acc);
        }
    }
}

/// One dot product, eight running sums.
///
/// # Safety
/// Both are valid for reading `k` elements.
#[inline(always)]
pub(super) unsafe fn dot<S: Simd>(s: S, a: *const f32, b: *const f32, k: usize) -> f32 {
    // With one lane, sixteen sums that the compiler keeps in vectors; else eight
    // vectors, as many as the latency of a multiply-add asks for.
    // SAFETY: the caller's promise, handed on.
    unsafe {
        if S::LANES == 1 {
            dot_sums::<S, 16>(s, a, b, k)
        } else {
            dot_sums::<S, 8>(s, a, b, k)
        }
    }
}

/// # Safety
/// Both are valid for reading `k` elements.
#[inline(always)]
unsafe fn dot_sums<S: Simd, const N: usize>(s: S, a: *const f32, b: *const f32, k: usize) -> f32 {
    let mut acc = [s.splat(0.0); N];
    // SAFETY: every access is below `k`.
    unsafe {
        let mut p = 0usize;
        for _ in 0..k / (N * S::LANES) {
            for (u, x) in acc.iter_mut().enumerate() {
                let at = p.wrapping_add(u * S::LANES);
                *x = s.mul_add(s.load(a.add(at)), s.load(b.add(at)), *x);
            }
            p = p.wrapping_add(N * S::LANES);
        }
        let mut u = 0;
        while p < k {
            let (x, y) = (s.load_some(a.add(p), k - p), s.load_some(b.add(p), k - p));
            acc[u % N] = s.mul_add(x, y, acc[u % N]);
            u += 1;
            p += S::LANES;
        }
    }
    // Pairwise.
    let mut n = N;
    while n > 1 {
        n /= 2;
        for u in 0..n {
            acc[u] = s.add(acc[u], acc[u + n]);
        }
    }
    s.lane_sum(acc[0])
}

/// Where a product of small matrices comes from and goes to. Not empty in any
/// direction. Row `i` of `a` begins at `a + i * a_row`, its elements `a_step`
/// apart; `b` likewise; `out` is row-major, `n` columns.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub out: *mut f32,
    pub a: *const f32,
    pub a_row: isize,
    pub a_step: isize,
    pub b: *const f32,
    pub b_row: isize,
    pub bias: Option<*const f32>,
    pub m: usize,
    pub k: usize,
    pub n: usize,
}

impl Product {
    #[inline(always)]
    pub(super) fn a_at(&self, i: usize) -> *const f32 {
        self.a.wrapping_offset(self.a_row.wrapping_mul(i as isize))
    }
    #[inline(always)]
    pub(super) fn b_at(&self, j: usize) -> *const f32 {
        self.b.wrapping_offset(self.b_row.wrapping_mul(j as isize))
    }
    /// # Safety
    /// `bias` is valid for `n` elements and `j < n`.
    #[inline(always)]
    unsafe fn bias_at(&self, j: usize) -> f32 {
        match self.bias {
            // SAFETY: the caller's promise.
            Some(p) => unsafe { *p.add(j) },
            None => 0.0,
        }
    }
}

/// `out[i, j] = a[i, :] . b[j, :] + bias[j]`: `b` is the second operand
/// transposed (a linear layer's weight). `a_step` is 1.
///
/// # Safety
/// All that `Product` describes is valid, and `out` disjoint from the rest.
#[inline(always)]
pub(super) unsafe fn by_rows<S: Simd>(s: S, p: &Product) {
    // SAFETY: the caller's promise, handed on.
    unsafe {
        if S::LANES == 1 {
            for i in 0..p.m {
                for j in 0..p.n {
                    let sum = dot(s, p.a_at(i), p.b_at(j), p.k);
                    *p.out.add(i * p.n + j) = sum + p.bias_at(j);
                }
            }
        } else if p.m == 1 {
            let mut j = 0;
            while p.n - j >= 3 {
                dot_block::<S, 1, 8, 8>(s, p, 0, j);
                j = p.n.min(j + 8);
            }
            while j < p.n {
                *p.out.add(j) = dot(s, p.a, p.b_at(j), p.k) + p.bias_at(j);
                j += 1;
            }
        } else {
            // Four rows of `b` stay in the first-level cache while `a` streams
            // past from the second, and `b` comes from memory once.
            let mut j = 0;
            while j < p.n {
                let mut i = 0;
                while i < p.m {
                    if S::LANES == 16 && p.m - i > 2 {
                        dot_block::<S, 4, 4, 16>(s, p, i, j);
                        i += 4;
                    } else {
                        dot_block::<S, 2, 4, 8>(s, p, i, j);
                        i += 2;
                    }
                }
                j += 4;
            }
        }
    }
}

/// The tile at (i, j). What lies beyond the last row of either is the last row
/// again, and is not stored.
///
/// # Safety
/// As for [`by_rows`], and (i, j) inside `out`.
#[inline(always)]
unsafe fn dot_block<S: Simd, const MR: usize, const NR: usize, const T: usize>(
    s: S,
    p: &Product,
    i: usize,
    j: usize,
) {
    // SAFETY: rows are clamped to those there are, stores to (m, n).
    unsafe {
        let a: [*const f32; MR] = std::array::from_fn(|r| p.a_at((i + r).min(p.m - 1)));
        let b: [*const f32; NR] = std::array::from_fn(|r| p.b_at((j + r).min(p.n - 1)));
        let acc = dot_tile::<S, MR, NR, T>(s, &a, &b, p.k);
        for half in 0..T / 8 {
            let mut eight = [acc[0]; 8];
            eight.copy_from_slice(&acc[half * 8..half * 8 + 8]);
            let sums = s.lane_sums(eight);
            for r in 0..8 / NR {
                let row = i + half * (8 / NR) + r;
                if row >= p.m {
                    continue;
                }
                let to = p.out.add(row * p.n + j);
                if p.n - j >= NR {
                    for c in 0..NR {
                        *to.add(c) = sums[r * NR + c] + p.bias_at(j + c);
                    }
                } else {
                    for c in 0..p.n - j {
                        *to.add(c) = sums[r * NR + c] + p.bias_at(j + c);
                    }
                }
            }
        }
    }
}

/// `out[i, j] = sum over q of a[i, q] b[q, j], + bias[j]`: the rows of `b` have
/// adjacent elements, `a` has any strides.
///
/// # Safety
/// As for [`by_rows`].
#[inline(always)]
pub(super) unsafe fn by_columns<S: Simd>(s: S, p: &Product) {
    let mut j = 0;
    // SAFETY: each call stays inside (m, n); the caller's promise.
    unsafe {
        // Wide blocks, then single vectors, then what is left of one. Several
        // sums per output where there are few outputs: a multiply-add must not
        // wait for the one before.
        if S::LANES == 1 {
            while p.n - j >= 16 {
                columns::<S, 2, 16, 1, 32, 1, 16, 2, 32>(s, p, j);
                j += 16;
            }
            while p.n - j >= 4 {
                columns::<S, 2, 4, 1, 8, 1, 4, 4, 16>(s, p, j);
                j += 4;
            }
        } else if S::LANES == 16 {
            while p.n - j >= 4 * S::LANES {
                columns::<S, 4, 4, 1, 16, 1, 4, 2, 8>(s, p, j);
                j += 4 * S::LANES;
            }
        } else {
            while p.n - j >= 2 * S::LANES {
                columns::<S, 4, 2, 1, 8, 1, 2, 4, 8>(s, p, j);
                j += 2 * S::LANES;
            }
        }
        while p.n - j >= S::LANES {
            columns::<S, 4, 1, 2, 8, 1, 1, 8, 8>(s, p, j);
            j += S::LANES;
        }
        if j < p.n {
            columns::<S, 4, 1, 2, 8, 1, 1, 8, 8>(s, p, j);
        }
    }
}

/// `NV` vectors of columns from `j` on (or what is left of one), all rows:
/// `MR` at a time with `KU` sums each, the rest one at a time with `KU1`.
///
/// # Safety
/// As for [`by_columns`], and `j < n`.
#[inline(always)]
unsafe fn columns<
    S: Simd,
    const MR: usize,
    const NV: usize,
    const KU: usize,
    const T: usize,
    const M1: usize,
    const NV1: usize,
    const KU1: usize,
    const T1: usize,
>(
    s: S,
    p: &Product,
    j: usize,
) {
    let mut i = 0;
    // SAFETY: rows below `m`.
    unsafe {
        while p.m - i >= MR {
            outer_tile::<S, MR, NV, KU, T>(s, p, i, j);
            i += MR;
        }
        while i < p.m {
            outer_tile::<S, M1, NV1, KU1, T1>(s, p, i, j);
            i += M1;
        }
    }
}

/// # Safety
/// Rows `i..i + MR` exist, and columns from `j` on for `NV` vectors or, if `NV`
/// is 1, at least one column.
#[inline(always)]
unsafe fn outer_tile<S: Simd, const MR: usize, const NV: usize, const KU: usize, const T: usize>(
    s: S,
    p: &Product,
    i: usize,
    j: usize,
) {
    // acc[(u * MR + r) * NV + v]
    let mut acc = [s.splat(0.0); T];
    let left = p.n - j;
    // SAFETY: q < k; columns as promised.
    unsafe {
        let a: [*const f32; MR] = std::array::from_fn(|r| p.a_at(i + r));
        let b = p.b.add(j);
        let mut from = 0usize;
        let mut total = acc;
        while from < p.k {
            let to = p.k.min(from.wrapping_add(chain::<S>(MR == 1) * KU));
            let mut q = from;
            for _ in 0..(to - from) / KU {
                for u in 0..KU {
                    let row = q.wrapping_add(u);
                    outer_step::<S, MR, NV, T>(s, p, &mut acc, &a, b, row, u, left);
                }
                q = q.wrapping_add(KU);
            }
            while q < to {
                outer_step::<S, MR, NV, T>(s, p, &mut acc, &a, b, q, 0, left);
                q = q.wrapping_add(1);
            }
            add_chain(s, &mut total, &acc, from == 0);
            acc = [s.splat(0.0); T];
            from = to;
        }
        let mut acc = total;
        let mut parts = KU;
        while parts > 1 {
            parts /= 2;
            for t in 0..parts * MR * NV {
                acc[t] = s.add(acc[t], acc[t + parts * MR * NV]);
            }
        }
        for r in 0..MR {
            let to = p.out.add((i + r) * p.n + j);
            for v in 0..NV {
                let at = v * S::LANES;
                let mut x = acc[r * NV + v];
                if let Some(bias) = p.bias {
                    x = s.add(x, s.load_some(bias.add(j + at), left - at));
                }
                s.store_some(to.add(at), x, left - at);
            }
        }
    }
}

/// Row `q` of `b` into sum `u` of each output.
///
/// # Safety
/// As for [`outer_tile`], and `q < k`.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // a part of `outer_tile`, not an interface
unsafe fn outer_step<S: Simd, const MR: usize, const NV: usize, const T: usize>(
    s: S,
    p: &Product,
    acc: &mut [S::V; T],
    a: &[*const f32; MR],
    b: *const f32,
    q: usize,
    u: usize,
    left: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let row = b.wrapping_offset(p.b_row.wrapping_mul(q as isize));
        let mut y = [s.splat(0.0); NV];
        if NV == 1 {
            y[0] = s.load_some(row, left);
        } else {
            for (v, y) in y.iter_mut().enumerate() {
                *y = s.load(row.add(v * S::LANES));
            }
        }
        let at = p.a_step.wrapping_mul(q as isize);
        for (r, a) in a.iter().enumerate() {
            let x = s.splat(*a.wrapping_offset(at));
            for (v, y) in y.iter().enumerate() {
                let t = (u * MR + r) * NV + v;
                acc[t] = s.mul_add(x, *y, acc[t]);
            }
        }
    }
}
