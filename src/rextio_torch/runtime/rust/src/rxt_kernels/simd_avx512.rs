//! Sixteen lanes, AVX-512 F, VL and DQ. Three instructions have no counterpart
//! elsewhere and shorten the mathematics: `scalef` (2^n with gradual underflow),
//! `getexp` and `getmant` (a logarithm's parts, denormals and edges included).

#![allow(clippy::incompatible_msrv)] // stable since 1.89; the product needs 1.91

use super::simd::Simd;
use super::simd_avx2::transpose8;
use std::arch::x86_64::*;

/// Proof of AVX-512 F, VL, DQ, AVX2 and FMA.
#[derive(Clone, Copy)]
pub struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The machine has AVX-512 F, VL and DQ, AVX2 and FMA.
    #[inline(always)]
    pub unsafe fn new() -> Avx512 {
        Avx512(())
    }
}

#[inline(always)]
fn head(n: usize) -> __mmask16 {
    (1u32.wrapping_shl(n as u32)).wrapping_sub(1) as __mmask16
}

/// Lanes in [2^-100, 2^127): neither they nor what `sqrt_of_ordinary` computes
/// from them leaves the normal numbers.
/// # Safety
/// The machine has AVX-512 F.
#[inline(always)]
unsafe fn ordinary(a: __m512) -> __mmask16 {
    // SAFETY: register arithmetic. One unsigned comparison for both ends.
    unsafe {
        let low = _mm512_set1_epi32(27 << 23);
        let range = _mm512_set1_epi32(227 << 23);
        _mm512_cmplt_epu32_mask(_mm512_sub_epi32(_mm512_castps_si512(a), low), range)
    }
}

/// The correctly rounded square root by Markstein's iteration: g approaches the
/// root and h half its inverse, the last step adds the exact residue a - g^2. It
/// is the processor's own bit for bit on every input of `ordinary`, which the
/// exhaustive test shows.
/// # Safety
/// The machine has AVX-512 F.
#[inline(always)]
unsafe fn sqrt_of_ordinary(a: __m512) -> __m512 {
    // SAFETY: register arithmetic.
    unsafe {
        let half = _mm512_set1_ps(0.5);
        let y = _mm512_rsqrt14_ps(a);
        let g = _mm512_mul_ps(a, y);
        let h = _mm512_mul_ps(y, half);
        let r = _mm512_fnmadd_ps(g, h, half);
        let g = _mm512_fmadd_ps(g, r, g);
        let h = _mm512_fmadd_ps(h, r, h);
        let d = _mm512_fnmadd_ps(g, g, a);
        _mm512_fmadd_ps(d, h, g)
    }
}

// SAFETY of every block below: `self` exists only where the features do; the
// memory operations have their caller's promise about the pointer.
impl Simd for Avx512 {
    const LANES: usize = 16;
    const FMA: bool = true;

    type V = __m512;
    type M = __mmask16;
    type D = [__m512d; 2];

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> __m512 {
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: __m512) {
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn load_head(self, p: *const f32, n: usize) -> __m512 {
        unsafe { _mm512_maskz_loadu_ps(head(n), p) }
    }
    #[inline(always)]
    unsafe fn store_head(self, p: *mut f32, v: __m512, n: usize) {
        unsafe { _mm512_mask_storeu_ps(p, head(n), v) }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    fn sqrt(self, a: __m512) -> __m512 {
        unsafe { _mm512_sqrt_ps(a) }
    }
    #[inline(always)]
    fn sqrt4(self, a: [__m512; 4]) -> [__m512; 4] {
        // The divider alone takes a root every twelve cycles. Meanwhile the
        // multipliers take the others, unless one of those needs its edges.
        unsafe {
            let ordinary = ordinary(a[1]) & ordinary(a[2]) & ordinary(a[3]);
            if ordinary == 0xffff {
                [
                    _mm512_sqrt_ps(a[0]),
                    sqrt_of_ordinary(a[1]),
                    sqrt_of_ordinary(a[2]),
                    sqrt_of_ordinary(a[3]),
                ]
            } else {
                [
                    _mm512_sqrt_ps(a[0]),
                    _mm512_sqrt_ps(a[1]),
                    _mm512_sqrt_ps(a[2]),
                    _mm512_sqrt_ps(a[3]),
                ]
            }
        }
    }
    #[inline(always)]
    fn reciprocal(self, a: __m512) -> __m512 {
        unsafe { _mm512_rcp14_ps(a) }
    }
    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn mul_sub(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmsub_ps(a, b, c) }
    }
    #[inline(always)]
    fn neg_mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fnmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    fn abs(self, a: __m512) -> __m512 {
        unsafe { _mm512_abs_ps(a) }
    }
    #[inline(always)]
    fn neg(self, a: __m512) -> __m512 {
        unsafe { _mm512_xor_ps(_mm512_set1_ps(-0.0), a) }
    }
    #[inline(always)]
    fn copysign(self, magnitude: __m512, sign: __m512) -> __m512 {
        unsafe {
            let bit = _mm512_set1_ps(-0.0);
            _mm512_or_ps(_mm512_andnot_ps(bit, magnitude), _mm512_and_ps(bit, sign))
        }
    }

    #[inline(always)]
    fn lt(self, a: __m512, b: __m512) -> __mmask16 {
        unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b) }
    }
    #[inline(always)]
    fn eq(self, a: __m512, b: __m512) -> __mmask16 {
        unsafe { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b) }
    }
    #[inline(always)]
    fn not_le(self, a: __m512, b: __m512) -> __mmask16 {
        unsafe { _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(a, b) }
    }
    #[inline(always)]
    fn unordered(self, a: __m512, b: __m512) -> __mmask16 {
        unsafe { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, b) }
    }
    #[inline(always)]
    fn and(self, a: __mmask16, b: __mmask16) -> __mmask16 {
        a & b
    }
    #[inline(always)]
    fn or(self, a: __mmask16, b: __mmask16) -> __mmask16 {
        a | b
    }
    #[inline(always)]
    fn any(self, m: __mmask16) -> bool {
        m != 0
    }
    #[inline(always)]
    fn bits(self, m: __mmask16) -> u32 {
        u32::from(m)
    }
    #[inline(always)]
    fn select(self, m: __mmask16, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mask_blend_ps(m, b, a) }
    }

    #[inline(always)]
    fn ldexp(self, y: __m512, n: __m512, _: __m512) -> __m512 {
        unsafe { _mm512_scalef_ps(y, n) }
    }
    #[inline(always)]
    fn ldexp_normal(self, y: __m512, n: __m512, _: __m512) -> __m512 {
        unsafe { _mm512_scalef_ps(y, n) }
    }
    #[inline(always)]
    fn log_split(self, x: __m512) -> (__m512, __m512) {
        unsafe {
            let m = _mm512_getmant_ps::<_MM_MANT_NORM_P75_1P5, _MM_MANT_SIGN_NAN>(x);
            // getexp is floor(log2 x); m < 1 says that one more was taken out.
            let e = _mm512_sub_ps(_mm512_getexp_ps(x), _mm512_getexp_ps(m));
            (m, e)
        }
    }
    #[inline(always)]
    fn log_edges(self, _: __m512, y: __m512) -> __m512 {
        // Nothing to mend: getmant gives NaN for negative numbers and 1 for
        // zero and infinity, whose getexp is -inf and +inf.
        y
    }

    #[inline(always)]
    fn lane_sum(self, v: __m512) -> f32 {
        unsafe { _mm512_reduce_add_ps(v) }
    }
    #[inline(always)]
    fn lane_max(self, v: __m512) -> f32 {
        unsafe { _mm512_reduce_max_ps(v) }
    }
    #[inline(always)]
    fn lane_sums(self, v: [__m512; 8]) -> [f32; 8] {
        let mut out = [0.0; 8];
        unsafe {
            // [a's halves added | b's halves added]
            let halves = |a, b| {
                _mm512_add_ps(
                    _mm512_mask_blend_ps(0xFF00, a, b),
                    _mm512_shuffle_f32x4::<0b01_00_11_10>(a, b),
                )
            };
            // Quarters: [a0+a1, a2+a3, b0+b1, b2+b3]
            let quarters = |a, b| {
                _mm512_add_ps(
                    _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b),
                    _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b),
                )
            };
            // The quarters of `x` belong to 0, 4, 2, 6 and those of `y` to
            // 1, 5, 3, 7, which the last two steps bring into order.
            let x = quarters(halves(v[0], v[4]), halves(v[2], v[6]));
            let y = quarters(halves(v[1], v[5]), halves(v[3], v[7]));
            let z = _mm512_add_ps(_mm512_shuffle_ps::<0x44>(x, y), _mm512_shuffle_ps::<0xEE>(x, y));
            let (low, high) = (_mm512_castps512_ps256(z), _mm512_extractf32x8_ps::<1>(z));
            let sums = _mm256_add_ps(
                _mm256_shuffle_ps::<0x88>(low, high),
                _mm256_shuffle_ps::<0xDD>(low, high),
            );
            _mm256_storeu_ps(out.as_mut_ptr(), sums);
        }
        out
    }

    #[inline(always)]
    unsafe fn transpose8(self, from: &[*const f32; 8], to: *mut f32, step: usize) {
        unsafe { transpose8(from, to, step) }
    }

    #[inline(always)]
    fn d_zero(self) -> [__m512d; 2] {
        unsafe { [_mm512_setzero_pd(); 2] }
    }
    #[inline(always)]
    fn d_add(self, acc: [__m512d; 2], v: __m512) -> [__m512d; 2] {
        unsafe {
            let low = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
            let high = _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(v));
            [_mm512_add_pd(acc[0], low), _mm512_add_pd(acc[1], high)]
        }
    }
    #[inline(always)]
    unsafe fn d_add_at(self, acc: [__m512d; 2], p: *const f32) -> [__m512d; 2] {
        unsafe {
            let low = _mm512_cvtps_pd(_mm256_loadu_ps(p));
            let high = _mm512_cvtps_pd(_mm256_loadu_ps(p.add(8)));
            [_mm512_add_pd(acc[0], low), _mm512_add_pd(acc[1], high)]
        }
    }
    #[inline(always)]
    fn d_merge(self, a: [__m512d; 2], b: [__m512d; 2]) -> [__m512d; 2] {
        unsafe { [_mm512_add_pd(a[0], b[0]), _mm512_add_pd(a[1], b[1])] }
    }
    #[inline(always)]
    fn d_sum(self, acc: [__m512d; 2]) -> f64 {
        unsafe { _mm512_reduce_add_pd(_mm512_add_pd(acc[0], acc[1])) }
    }
    #[inline(always)]
    unsafe fn d_load(self, p: *const f64) -> [__m512d; 2] {
        unsafe { [_mm512_loadu_pd(p), _mm512_loadu_pd(p.add(8))] }
    }
    #[inline(always)]
    unsafe fn d_store(self, p: *mut f64, acc: [__m512d; 2]) {
        unsafe {
            _mm512_storeu_pd(p, acc[0]);
            _mm512_storeu_pd(p.add(8), acc[1]);
        }
    }
}
