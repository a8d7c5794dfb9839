//! Eight lanes, AVX2 with FMA.

#![allow(clippy::incompatible_msrv)] // intrinsics become safe to call in 1.87; here each stands in `unsafe`

use super::simd::Simd;
use std::arch::x86_64::*;

/// Proof of AVX2 and FMA.
#[derive(Clone, Copy)]
pub struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The machine has AVX2 and FMA.
    #[inline(always)]
    pub unsafe fn new() -> Avx2 {
        Avx2(())
    }
}

/// A window of eight words over this, `8 - n` from its start, selects `n` lanes.
static HEAD: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn head(n: usize) -> __m256i {
    // SAFETY: n <= 8 keeps the window inside the table; `min` holds for any n.
    unsafe { _mm256_loadu_si256(HEAD.as_ptr().add(8 - n.min(8)).cast()) }
}

/// Lane sums of eight vectors of eight, as one vector: three levels, each
/// halving the vectors and the distance.
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn lane_sums(v: [__m256; 8]) -> __m256 {
    // SAFETY: register arithmetic; the caller vouches for AVX2.
    unsafe {
        // [a's halves added | b's halves added]
        let halves = |a, b| {
            _mm256_add_ps(
                _mm256_blend_ps::<0b1111_0000>(a, b),
                _mm256_permute2f128_ps::<0x21>(a, b),
            )
        };
        // Within each half: [a0+a2, a1+a3, b0+b2, b1+b3]
        let pairs =
            |a, b| _mm256_add_ps(_mm256_shuffle_ps::<0x44>(a, b), _mm256_shuffle_ps::<0xEE>(a, b));
        // Within each half: [a0+a1, a2+a3, b0+b1, b2+b3]
        let singles =
            |a, b| _mm256_add_ps(_mm256_shuffle_ps::<0x88>(a, b), _mm256_shuffle_ps::<0xDD>(a, b));
        // The lower half must hold 0..4 in order and the upper 4..8.
        let (p, q) = (halves(v[0], v[4]), halves(v[1], v[5]));
        let (r, t) = (halves(v[2], v[6]), halves(v[3], v[7]));
        singles(pairs(p, q), pairs(r, t))
    }
}

/// [`Simd::transpose8`]: by halves, pairs and single elements.
/// # Safety
/// The machine has AVX2; otherwise as for the method.
#[inline(always)]
pub(super) unsafe fn transpose8(from: &[*const f32; 8], to: *mut f32, step: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        // Row r's quarter next to row r + 4's: the halves cost no shuffle.
        let pair = |r: usize, at: usize| {
            _mm256_insertf128_ps::<1>(
                _mm256_castps128_ps256(_mm_loadu_ps(from[r].add(at))),
                _mm_loadu_ps(from[r + 4].add(at)),
            )
        };
        for at in [0, 4] {
            let (a, b, c, d) = (pair(0, at), pair(1, at), pair(2, at), pair(3, at));
            let (ab_low, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (cd_low, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            let lines = [
                _mm256_shuffle_ps::<0x44>(ab_low, cd_low),
                _mm256_shuffle_ps::<0xEE>(ab_low, cd_low),
                _mm256_shuffle_ps::<0x44>(ab_high, cd_high),
                _mm256_shuffle_ps::<0xEE>(ab_high, cd_high),
            ];
            for (c, line) in lines.into_iter().enumerate() {
                _mm256_storeu_ps(to.add((at + c) * step), line);
            }
        }
    }
}

// SAFETY of every block below: `self` exists only where AVX2 and FMA do; the
// memory operations have their caller's promise about the pointer.
impl Simd for Avx2 {
    const LANES: usize = 8;
    const FMA: bool = true;

    type V = __m256;
    type M = __m256;
    type D = [__m256d; 2];

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> __m256 {
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: __m256) {
        unsafe { _mm256_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn load_head(self, p: *const f32, n: usize) -> __m256 {
        unsafe { _mm256_maskload_ps(p, head(n)) }
    }
    #[inline(always)]
    unsafe fn store_head(self, p: *mut f32, v: __m256, n: usize) {
        unsafe { _mm256_maskstore_ps(p, head(n), v) }
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_div_ps(a, b) }
    }
    #[inline(always)]
    fn sqrt(self, a: __m256) -> __m256 {
        unsafe { _mm256_sqrt_ps(a) }
    }
    #[inline(always)]
    fn reciprocal(self, a: __m256) -> __m256 {
        // rcpps has 12 bits only, and a step to mend that costs what this does.
        unsafe { _mm256_div_ps(_mm256_set1_ps(1.0), a) }
    }
    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn mul_sub(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        unsafe { _mm256_fmsub_ps(a, b, c) }
    }
    #[inline(always)]
    fn neg_mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        unsafe { _mm256_fnmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_min_ps(a, b) }
    }
    #[inline(always)]
    fn abs(self, a: __m256) -> __m256 {
        unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), a) }
    }
    #[inline(always)]
    fn neg(self, a: __m256) -> __m256 {
        unsafe { _mm256_xor_ps(_mm256_set1_ps(-0.0), a) }
    }
    #[inline(always)]
    fn copysign(self, magnitude: __m256, sign: __m256) -> __m256 {
        unsafe {
            let bit = _mm256_set1_ps(-0.0);
            _mm256_or_ps(_mm256_andnot_ps(bit, magnitude), _mm256_and_ps(bit, sign))
        }
    }

    #[inline(always)]
    fn lt(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(a, b) }
    }
    #[inline(always)]
    fn eq(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b) }
    }
    #[inline(always)]
    fn not_le(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_cmp_ps::<_CMP_NLE_UQ>(a, b) }
    }
    #[inline(always)]
    fn unordered(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_cmp_ps::<_CMP_UNORD_Q>(a, b) }
    }
    #[inline(always)]
    fn and(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_and_ps(a, b) }
    }
    #[inline(always)]
    fn or(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_or_ps(a, b) }
    }
    #[inline(always)]
    fn any(self, m: __m256) -> bool {
        self.bits(m) != 0
    }
    #[inline(always)]
    fn bits(self, m: __m256) -> u32 {
        unsafe { _mm256_movemask_ps(m) as u32 }
    }
    #[inline(always)]
    fn select(self, m: __m256, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_blendv_ps(b, a, m) }
    }

    #[inline(always)]
    fn ldexp(self, y: __m256, _: __m256, t: __m256) -> __m256 {
        // As in `simd_portable`, where it is explained.
        unsafe {
            let t = _mm256_castps_si256(t);
            let one = _mm256_set1_epi32(0x3f80_0000);
            let whole = _mm256_slli_epi32::<23>(t);
            let half = _mm256_slli_epi32::<23>(_mm256_srli_epi32::<1>(t));
            let first = _mm256_castsi256_ps(_mm256_add_epi32(half, one));
            let second = _mm256_add_epi32(_mm256_sub_epi32(whole, half), one);
            _mm256_mul_ps(_mm256_mul_ps(y, first), _mm256_castsi256_ps(second))
        }
    }
    #[inline(always)]
    fn ldexp_normal(self, y: __m256, _: __m256, t: __m256) -> __m256 {
        unsafe {
            let whole = _mm256_slli_epi32::<23>(_mm256_castps_si256(t));
            let power = _mm256_add_epi32(whole, _mm256_set1_epi32(0x3f80_0000));
            _mm256_mul_ps(y, _mm256_castsi256_ps(power))
        }
    }
    #[inline(always)]
    fn log_split(self, x: __m256) -> (__m256, __m256) {
        unsafe {
            let tiny = self.lt(x, self.splat(f32::MIN_POSITIVE));
            let x = self.select(tiny, self.mul(x, self.splat(8_388_608.0)), x);
            let bias = _mm256_and_ps(tiny, self.splat(-23.0));
            let bits = _mm256_castps_si256(x);
            let e = _mm256_srai_epi32::<23>(_mm256_sub_epi32(bits, _mm256_set1_epi32(0x3f40_0000)));
            let m = _mm256_sub_epi32(bits, _mm256_slli_epi32::<23>(e));
            let e = self.add(_mm256_cvtepi32_ps(e), bias);
            (_mm256_castsi256_ps(m), e)
        }
    }
    #[inline(always)]
    fn log_edges(self, x: __m256, y: __m256) -> __m256 {
        let zero = self.splat(0.0);
        let finite = self.lt(x, self.splat(f32::INFINITY));
        let y = self.select(finite, y, x); // +inf and NaN
        let y = self.select(self.eq(x, zero), self.splat(f32::NEG_INFINITY), y);
        self.select(self.lt(x, zero), self.splat(f32::NAN), y)
    }

    #[inline(always)]
    fn lane_sum(self, v: __m256) -> f32 {
        unsafe {
            let x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)))
        }
    }
    #[inline(always)]
    fn lane_max(self, v: __m256) -> f32 {
        unsafe {
            let x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let x = _mm_max_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)))
        }
    }
    #[inline(always)]
    fn lane_sums(self, v: [__m256; 8]) -> [f32; 8] {
        let mut out = [0.0; 8];
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), lane_sums(v)) };
        out
    }

    #[inline(always)]
    unsafe fn transpose8(self, from: &[*const f32; 8], to: *mut f32, step: usize) {
        unsafe { transpose8(from, to, step) }
    }

    #[inline(always)]
    fn d_zero(self) -> [__m256d; 2] {
        unsafe { [_mm256_setzero_pd(); 2] }
    }
    #[inline(always)]
    fn d_add(self, acc: [__m256d; 2], v: __m256) -> [__m256d; 2] {
        unsafe {
            let low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
            let high = _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(v));
            [_mm256_add_pd(acc[0], low), _mm256_add_pd(acc[1], high)]
        }
    }
    #[inline(always)]
    unsafe fn d_add_at(self, acc: [__m256d; 2], p: *const f32) -> [__m256d; 2] {
        unsafe {
            let low = _mm256_cvtps_pd(_mm_loadu_ps(p));
            let high = _mm256_cvtps_pd(_mm_loadu_ps(p.add(4)));
            [_mm256_add_pd(acc[0], low), _mm256_add_pd(acc[1], high)]
        }
    }
    #[inline(always)]
    fn d_merge(self, a: [__m256d; 2], b: [__m256d; 2]) -> [__m256d; 2] {
        unsafe { [_mm256_add_pd(a[0], b[0]), _mm256_add_pd(a[1], b[1])] }
    }
    #[inline(always)]
    fn d_sum(self, acc: [__m256d; 2]) -> f64 {
        unsafe {
            let x = _mm256_add_pd(acc[0], acc[1]);
            let x = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd::<1>(x));
            _mm_cvtsd_f64(_mm_add_sd(x, _mm_unpackhi_pd(x, x)))
        }
    }
    #[inline(always)]
    unsafe fn d_load(self, p: *const f64) -> [__m256d; 2] {
        unsafe { [_mm256_loadu_pd(p), _mm256_loadu_pd(p.add(4))] }
    }
    #[inline(always)]
    unsafe fn d_store(self, p: *mut f64, acc: [__m256d; 2]) {
        unsafe {
            _mm256_storeu_pd(p, acc[0]);
            _mm256_storeu_pd(p.add(4), acc[1]);
        }
    }
}
