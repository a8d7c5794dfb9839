//! Large products: both operands copied, block by block, into the order in which
//! the register tiles read them (Goto and van de Geijn, 2008).
//!
//! A block of `b`, `KC` by `NC`, becomes panels of whole vectors of columns, a
//! block of `a`, `MC` by `KC`, panels of `MR` rows; both stay in the second-level
//! cache while every tile of theirs is computed. Sums over k are kept per block
//! of `KC` and added up in `out`.

use std::cell::RefCell;

use super::simd::Simd;
use super::tiles::{add_chain, chain, Product};

const KC: usize = 256;
const NC: usize = 1024;
const MC: usize = 192;
/// Rows of a tile.
const MR: usize = 6;
/// What one thread keeps for its next product: 1.2 MiB.
const SCRATCH: usize = KC * (NC + MC) + 2 * ALIGN;
/// Floats in a cache line.
const ALIGN: usize = 16;

thread_local! {
    static SCRATCH_OF_THREAD: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` with room for both packed blocks, at the start of a cache line.
pub(super) fn with_scratch<R>(f: impl FnOnce(*mut f32) -> R) -> R {
    SCRATCH_OF_THREAD.with(|scratch| {
        let mut scratch = scratch.borrow_mut();
        if scratch.is_empty() {
            scratch.resize(SCRATCH, 0.0);
        }
        let offset = scratch.as_ptr().align_offset(64).min(ALIGN);
        f(scratch.as_mut_ptr().wrapping_add(offset))
    })
}

/// `out[i, j] = sum over q of a[i, q] b[q, j], + bias[j]`, any strides: those of
/// `b` are `b_row` and `b_step`.
///
/// # Safety
/// All that `Product` describes is valid, with `b[q, j]` in place of its rule;
/// `scratch` comes from [`with_scratch`].
#[inline(always)]
pub(super) unsafe fn by_packing<S: Simd>(s: S, p: &Product, b_step: isize, scratch: *mut f32) {
    // SAFETY: the caller's promise, handed on.
    unsafe {
        if S::LANES == 1 {
            blocks::<S, 8, 48>(s, p, b_step, scratch);
        } else if S::LANES == 16 {
            blocks::<S, 4, 24>(s, p, b_step, scratch);
        } else {
            blocks::<S, 2, 12>(s, p, b_step, scratch);
        }
    }
}

/// # Safety
/// As for [`by_packing`].
#[inline(always)]
unsafe fn blocks<S: Simd, const NV: usize, const T: usize>(
    s: S,
    p: &Product,
    b_step: isize,
    scratch: *mut f32,
) {
    let width = NV * S::LANES;
    let (b_pack, a_pack) = (scratch, scratch.wrapping_add(KC * NC));
    // SAFETY: blocks are clamped to the matrices, packed blocks to the scratch:
    // NC is a multiple of every width and MC of MR.
    unsafe {
        for j0 in (0..p.n).step_by(NC) {
            let nc = NC.min(p.n - j0);
            for q0 in (0..p.k).step_by(KC) {
                let kc = KC.min(p.k - q0);
                let b = offset(p.b, q0, p.b_row, j0, b_step);
                pack_columns(s, b_pack, b, p.b_row, b_step, kc, nc, width);
                for i0 in (0..p.m).step_by(MC) {
                    let mc = MC.min(p.m - i0);
                    let a = offset(p.a, i0, p.a_row, q0, p.a_step);
                    pack_rows(a_pack, a, p.a_row, p.a_step, mc, kc);
                    for j in (0..nc).step_by(width) {
                        for i in (0..mc).step_by(MR) {
                            let acc =
                                tile::<S, NV, T>(s, a_pack.add(i * kc), b_pack.add(j * kc), kc);
                            let place =
                                Place { i: i0 + i, j: j0 + j, add: q0 > 0, bias: q0 + kc == p.k };
                            store_tile::<S, NV, T>(s, p, &acc, place);
                        }
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn offset(p: *const f32, i: usize, i_step: isize, j: usize, j_step: isize) -> *const f32 {
    p.wrapping_offset(i_step.wrapping_mul(i as isize))
        .wrapping_offset(j_step.wrapping_mul(j as isize))
}

/// Panels of `width` columns, row by row; the last is filled up with zeros.
///
/// # Safety
/// `b` is valid for `kc` rows and `nc` columns, `to` for `kc` times `nc` rounded
/// up to `width`.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // one loop of `blocks`, not an interface
unsafe fn pack_columns<S: Simd>(
    s: S,
    to: *mut f32,
    b: *const f32,
    row: isize,
    step: isize,
    kc: usize,
    nc: usize,
    width: usize,
) {
    // SAFETY: q < kc and j < nc where `b` is read; writes fill the panels.
    unsafe {
        if step == 1 {
            // A few rows at a time along their whole length: memory in order.
            const ROWS: usize = 8;
            for q0 in (0..kc).step_by(ROWS) {
                for j0 in (0..nc).step_by(width) {
                    let here = width.min(nc - j0);
                    for q in q0..kc.min(q0 + ROWS) {
                        let from = offset(b, q, row, j0, 1);
                        let line = to.add(j0 * kc + q * width);
                        for j in (0..width).step_by(S::LANES) {
                            let left = here.saturating_sub(j);
                            let x = s.load_some(from.wrapping_add(j), left);
                            s.store(line.add(j), x);
                        }
                    }
                }
            }
            return;
        }
        for j0 in (0..nc).step_by(width) {
            let here = width.min(nc - j0);
            let panel = to.add(j0 * kc);
            if here < width {
                std::slice::from_raw_parts_mut(panel, width * kc).fill(0.0);
            }
            // Eight columns at a time, each read in order.
            for j in (0..here).step_by(8) {
                let group = 8.min(here - j);
                let mut from = [b; 8];
                for (c, from) in from.iter_mut().enumerate() {
                    *from = offset(b, 0, row, j0 + j + c.min(group - 1), step);
                }
                let mut place = panel.add(j);
                let mut q = 0;
                if group == 8 && row == 1 {
                    while kc - q >= 8 {
                        s.transpose8(&from, place, width);
                        from.iter_mut().for_each(|p| *p = p.wrapping_add(8));
                        place = place.wrapping_add(8 * width);
                        q += 8;
                    }
                }
                while q < kc {
                    for (c, from) in from.iter_mut().take(group).enumerate() {
                        *place.add(c) = **from;
                        *from = from.wrapping_offset(row);
                    }
                    place = place.wrapping_add(width);
                    q += 1;
                }
            }
        }
    }
}

/// Panels of `MR` rows, column by column. Rows beyond the last are the last
/// again: what they give is not stored.
///
/// # Safety
/// `a` is valid for `mc` rows and `kc` columns, `to` for `kc` times `mc` rounded
/// up to `MR`.
#[inline(always)]
unsafe fn pack_rows(to: *mut f32, a: *const f32, row: isize, step: isize, mc: usize, kc: usize) {
    // SAFETY: rows are clamped to `mc`, columns are below `kc`.
    unsafe {
        for i0 in (0..mc).step_by(MR) {
            let mut from = [a; MR];
            for (r, from) in from.iter_mut().enumerate() {
                *from = offset(a, (i0 + r).min(mc - 1), row, 0, step);
            }
            let mut place = to.add(i0 * kc);
            for _ in 0..kc {
                for (r, from) in from.iter_mut().enumerate() {
                    *place.add(r) = **from;
                    *from = from.wrapping_offset(step);
                }
                place = place.wrapping_add(MR);
            }
        }
    }
}

/// # Safety
/// `a` is valid for `MR * kc` elements, `b` for `NV * LANES * kc`.
#[inline(always)]
unsafe fn tile<S: Simd, const NV: usize, const T: usize>(
    s: S,
    a: *const f32,
    b: *const f32,
    kc: usize,
) -> [S::V; T] {
    let mut total = [s.splat(0.0); T];
    let (mut a, mut b) = (a, b);
    let mut from = 0usize;
    while from < kc {
        let to = kc.min(from.wrapping_add(chain::<S>(false)));
        let mut acc = [s.splat(0.0); T];
        for _ in from..to {
            // SAFETY: the caller's promise.
            unsafe {
                let mut y = [s.splat(0.0); NV];
                for (v, y) in y.iter_mut().enumerate() {
                    *y = s.load(b.add(v * S::LANES));
                }
                for r in 0..MR {
                    let x = s.splat(*a.add(r));
                    for (v, y) in y.iter().enumerate() {
                        acc[r * NV + v] = s.mul_add(x, *y, acc[r * NV + v]);
                    }
                }
            }
            a = a.wrapping_add(MR);
            b = b.wrapping_add(NV * S::LANES);
        }
        add_chain(s, &mut total, &acc, from == 0);
        from = to;
    }
    total
}

/// Where a tile goes, whether there is something already, and whether the bias
/// is due.
struct Place {
    i: usize,
    j: usize,
    add: bool,
    bias: bool,
}

/// # Safety
/// As for [`by_packing`]; (i, j) lies inside `out`.
#[inline(always)]
unsafe fn store_tile<S: Simd, const NV: usize, const T: usize>(
    s: S,
    p: &Product,
    acc: &[S::V; T],
    at: Place,
) {
    let bias = if at.bias { p.bias } else { None };
    for r in 0..MR.min(p.m - at.i) {
        for v in 0..NV {
            let j = at.j + v * S::LANES;
            if j >= p.n {
                break;
            }
            let left = p.n - j;
            // SAFETY: row and columns are inside `out`, columns inside the bias.
            unsafe {
                let to = p.out.add((at.i + r) * p.n + j);
                let mut x = acc[r * NV + v];
                if at.add {
                    x = s.add(x, s.load_some(to, left));
                }
                if let Some(bias) = bias {
                    x = s.add(x, s.load_some(bias.add(j), left));
                }
                s.store_some(to, x, left);
            }
        }
    }
}
