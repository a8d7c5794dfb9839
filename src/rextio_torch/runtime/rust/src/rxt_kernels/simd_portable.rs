//! One lane of plain Rust. The compiler turns the loops over it into whatever
//! vectors the target has without being asked: SSE2 on x86-64, NEON on AArch64.
//!
//! x86-64 without `fma` makes `f32::mul_add` a library call, so there it is a
//! product and a sum, two roundings; `FMA` says so, and formulas that depend on
//! the exact product look at it.

use super::simd::{Simd, ROUND};

#[derive(Clone, Copy)]
pub struct Portable;

impl Simd for Portable {
    const LANES: usize = 1;
    const FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

    type V = f32;
    type M = bool;
    type D = f64;

    #[inline(always)]
    fn splat(self, x: f32) -> f32 {
        x
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { *p }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: f32) {
        // SAFETY: the caller's promise.
        unsafe { *p = v }
    }
    #[inline(always)]
    unsafe fn load_head(self, _: *const f32, _: usize) -> f32 {
        0.0 // fewer than one element
    }
    #[inline(always)]
    unsafe fn store_head(self, _: *mut f32, _: f32, _: usize) {}

    #[inline(always)]
    fn add(self, a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    fn sub(self, a: f32, b: f32) -> f32 {
        a - b
    }
    #[inline(always)]
    fn mul(self, a: f32, b: f32) -> f32 {
        a * b
    }
    #[inline(always)]
    fn div(self, a: f32, b: f32) -> f32 {
        a / b
    }
    #[inline(always)]
    fn sqrt(self, a: f32) -> f32 {
        a.sqrt()
    }
    #[inline(always)]
    fn reciprocal(self, a: f32) -> f32 {
        1.0 / a
    }
    #[inline(always)]
    fn mul_add(self, a: f32, b: f32, c: f32) -> f32 {
        if Self::FMA {
            a.mul_add(b, c)
        } else {
            a * b + c
        }
    }
    #[inline(always)]
    fn mul_sub(self, a: f32, b: f32, c: f32) -> f32 {
        if Self::FMA {
            a.mul_add(b, -c)
        } else {
            a * b - c
        }
    }
    #[inline(always)]
    fn neg_mul_add(self, a: f32, b: f32, c: f32) -> f32 {
        if Self::FMA {
            (-a).mul_add(b, c)
        } else {
            c - a * b
        }
    }
    #[inline(always)]
    fn max(self, a: f32, b: f32) -> f32 {
        if a > b {
            a
        } else {
            b
        }
    }
    #[inline(always)]
    fn min(self, a: f32, b: f32) -> f32 {
        if a < b {
            a
        } else {
            b
        }
    }
    #[inline(always)]
    fn abs(self, a: f32) -> f32 {
        a.abs()
    }
    #[inline(always)]
    fn neg(self, a: f32) -> f32 {
        -a
    }
    #[inline(always)]
    fn copysign(self, magnitude: f32, sign: f32) -> f32 {
        magnitude.copysign(sign)
    }

    #[inline(always)]
    fn lt(self, a: f32, b: f32) -> bool {
        a < b
    }
    #[inline(always)]
    fn eq(self, a: f32, b: f32) -> bool {
        a == b
    }
    #[inline(always)]
    #[allow(clippy::neg_cmp_op_on_partial_ord)] // true where unordered is the point
    fn not_le(self, a: f32, b: f32) -> bool {
        !(a <= b)
    }
    #[inline(always)]
    fn unordered(self, a: f32, b: f32) -> bool {
        a.is_nan() | b.is_nan()
    }
    #[inline(always)]
    fn and(self, a: bool, b: bool) -> bool {
        a & b
    }
    #[inline(always)]
    fn or(self, a: bool, b: bool) -> bool {
        a | b
    }
    #[inline(always)]
    fn any(self, m: bool) -> bool {
        m
    }
    #[inline(always)]
    fn bits(self, m: bool) -> u32 {
        m as u32
    }
    #[inline(always)]
    fn select(self, m: bool, a: f32, b: f32) -> f32 {
        if m {
            a
        } else {
            b
        }
    }

    #[inline(always)]
    fn ldexp(self, y: f32, _: f32, t: f32) -> f32 {
        // n = h + (n - h): the first product is normal, so only the second can
        // round. ROUND's own bits vanish in the shifts (asserted below).
        let whole = t.to_bits() << 23;
        let half = (t.to_bits() >> 1) << 23;
        let first = f32::from_bits(half.wrapping_add(0x3f80_0000));
        let second = f32::from_bits(whole.wrapping_sub(half).wrapping_add(0x3f80_0000));
        // A product, not a sum of exponents: it keeps a NaN in y.
        y * first * second
    }
    #[inline(always)]
    fn ldexp_normal(self, y: f32, _: f32, t: f32) -> f32 {
        y * f32::from_bits((t.to_bits() << 23).wrapping_add(0x3f80_0000))
    }
    #[inline(always)]
    fn log_split(self, x: f32) -> (f32, f32) {
        let tiny = x < f32::MIN_POSITIVE;
        let x = if tiny { x * 8_388_608.0 } else { x };
        let bias = if tiny { -23.0 } else { 0.0 };
        // 0x3f400000 is 0.75: whole steps of the exponent above it.
        let e = (x.to_bits().wrapping_sub(0x3f40_0000) as i32) >> 23;
        let m = f32::from_bits(x.to_bits().wrapping_sub((e as u32) << 23));
        (m, e as f32 + bias)
    }
    #[inline(always)]
    fn log_edges(self, x: f32, y: f32) -> f32 {
        let y = if x < f32::INFINITY { y } else { x }; // +inf and NaN
        let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
        if x < 0.0 {
            f32::NAN
        } else {
            y
        }
    }

    #[inline(always)]
    fn lane_sum(self, v: f32) -> f32 {
        v
    }
    #[inline(always)]
    fn lane_max(self, v: f32) -> f32 {
        v
    }
    #[inline(always)]
    fn lane_sums(self, v: [f32; 8]) -> [f32; 8] {
        v
    }

    #[inline(always)]
    fn d_zero(self) -> f64 {
        0.0
    }
    #[inline(always)]
    fn d_add(self, acc: f64, v: f32) -> f64 {
        acc + f64::from(v)
    }
    #[inline(always)]
    unsafe fn d_add_at(self, acc: f64, p: *const f32) -> f64 {
        // SAFETY: the caller's promise.
        acc + f64::from(unsafe { *p })
    }
    #[inline(always)]
    fn d_merge(self, a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn d_sum(self, acc: f64) -> f64 {
        acc
    }
    #[inline(always)]
    unsafe fn d_load(self, p: *const f64) -> f64 {
        // SAFETY: the caller's promise.
        unsafe { *p }
    }
    #[inline(always)]
    unsafe fn d_store(self, p: *mut f64, acc: f64) {
        // SAFETY: the caller's promise.
        unsafe { *p = acc }
    }
}

// `ldexp` needs these two shifts to lose every bit of ROUND.
const _: () = assert!(
    ROUND.to_bits() << 23 == 0 && ((ROUND.to_bits() >> 1) << 23) == 0 && ROUND.to_bits() & 1 == 0
);
