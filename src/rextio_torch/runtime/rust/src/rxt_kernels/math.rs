//! The unary functions on vectors of lanes, written once for every instruction
//! set. The bound of each, over all 2^32 inputs, is checked by
//! `cargo run --release --example accuracy`.
//!
//! Polynomials are minimax fits to the stated quantity, weighted by the relative
//! error of the function's result, their coefficients rounded to f32 one at a
//! time, lowest first, the rest refitted after each (so that a coefficient's
//! rounding is made up for by those above it).

use super::simd::{Simd, ROUND};

/// ln 2 in two parts: the first has 15 significant bits, so that its product
/// with an exponent (|n| < 256) is exact with or without a fused multiply-add.
const LN2_HIGH: f32 = 0.693_145_75; // 22713 / 32768
const LN2_LOW: f32 = 1.428_606_8e-6;

/// Below `EXP_LOW`, e^x rounds to zero (half of the least denormal is 2^-150 =
/// e^-103.97), and above `EXP_HIGH` to infinity (2^128 = e^88.72). `ldexp` needs
/// the range.
const EXP_LOW: f32 = -104.0;
const EXP_HIGH: f32 = 89.0;

#[inline(always)]
fn horner<S: Simd>(s: S, x: S::V, coefficients: &[f32]) -> S::V {
    let mut p = s.splat(coefficients[0]);
    for &c in &coefficients[1..] {
        p = s.mul_add(p, x, s.splat(c));
    }
    p
}

/// x = n ln 2 + r, |r| < 0.3467, for |x| < 2^21, as (r, n, n + ROUND).
///
/// r is exact but for the rounding of its last step: n LN2_HIGH has at most 23
/// bits, and its difference from x no more (Cody and Waite).
#[inline(always)]
fn exp_reduce<S: Simd>(s: S, x: S::V) -> (S::V, S::V, S::V) {
    let t = s.mul_add(x, s.splat(std::f32::consts::LOG2_E), s.splat(ROUND));
    let n = s.sub(t, s.splat(ROUND));
    let r = s.neg_mul_add(n, s.splat(LN2_HIGH), x);
    (s.neg_mul_add(n, s.splat(LN2_LOW), r), n, t)
}

/// (e^r - 1 - r) / r^2 on |r| < 0.3467, relative error of e^r 2^-28.2.
const EXP: [f32; 5] = [0.001_382_074_2, 0.008_368_676, 0.041_668_266, 0.166_665_21, 0.499_999_94];

/// e^r - 1, r standing alone in the last sum.
#[inline(always)]
fn exp_minus_one<S: Simd>(s: S, r: S::V) -> S::V {
    s.mul_add(horner(s, r, &EXP), s.mul(r, r), r)
}

/// e^x = y * 2^n with 0.7 < y < 1.42, as (y, n, n + ROUND), for |x| < 2^21.
#[inline(always)]
fn exp_parts<S: Simd>(s: S, x: S::V) -> (S::V, S::V, S::V) {
    let (r, n, t) = exp_reduce(s, x);
    let one = s.splat(1.0);
    let y = if S::FMA {
        let p = s.mul_add(horner(s, r, &EXP), r, one);
        s.mul_add(p, r, one)
    } else {
        // Rounding r through a product would add up to 0.35 ulp here.
        s.add(exp_minus_one(s, r), one)
    };
    (y, n, t)
}

/// e^x, denormal results included. NaN stays: `max` and `min` hand on their
/// second operand where they cannot compare.
#[inline(always)]
pub fn exp<S: Simd>(s: S, x: S::V) -> S::V {
    let x = s.min(s.splat(EXP_HIGH), s.max(s.splat(EXP_LOW), x));
    let (y, n, t) = exp_parts(s, x);
    s.ldexp(y, n, t)
}

/// ln x = e ln 2 + ln m, m in [0.75, 1.5), ln(1 + f) = f - f^2/2 + f^3 P(f).
#[inline(always)]
pub fn log<S: Simd>(s: S, x: S::V) -> S::V {
    let (m, e) = s.log_split(x);
    let f = s.sub(m, s.splat(1.0)); // exact
                                    // (ln(1 + f) - f + f^2/2) / f^3 on -0.25 <= f < 0.5, relative error of the
                                    // logarithm 2^-27.6
    const P: [f32; 8] = [
        -0.045_099_202,
        0.104_674_07,
        -0.131_636_2,
        0.144_785_45,
        -0.166_470_68,
        0.199_908_12,
        -0.250_001,
        0.333_334_5,
    ];
    let f2 = s.mul(f, f);
    let y = s.mul(horner(s, f, &P), s.mul(f, f2));
    let y = s.mul_add(e, s.splat(LN2_LOW), y);
    let y = s.neg_mul_add(s.splat(0.5), f2, y);
    // The large terms last: e LN2_HIGH is exact, and zero where m = x.
    let y = s.mul_add(e, s.splat(LN2_HIGH), s.add(f, y));
    s.log_edges(x, y)
}

/// tanh |x| = 1 - 2 / (e^2|x| + 1), and an odd polynomial below 0.625, where
/// that difference cancels; then the sign of x, which keeps -0.
#[inline(always)]
pub fn tanh<S: Simd>(s: S, x: S::V) -> S::V {
    let a = s.abs(x);
    let one = s.splat(1.0);
    // tanh rounds to 1 from 9.02 on.
    let top = s.min(s.splat(10.0), a);
    // e^2a with 2a = n ln 2 + 2r. One step of the reduction is enough: n is 29 at
    // most, and an error of e^2a counts by 2 e^2a / (e^2a + 1)^2, which falls
    // from 0.35.
    let t = s.mul_add(top, s.splat(2.0 * std::f32::consts::LOG2_E), s.splat(ROUND));
    let n = s.sub(t, s.splat(ROUND));
    let r = if S::FMA {
        s.neg_mul_add(n, s.splat(0.5 * std::f32::consts::LN_2), top)
    } else {
        let r = s.neg_mul_add(n, s.splat(0.5 * LN2_HIGH), top);
        s.neg_mul_add(n, s.splat(0.5 * LN2_LOW), r)
    };
    // EXP for twice the argument: each coefficient times its power of two.
    const EXP2: [f32; 5] =
        [64.0 * EXP[0], 32.0 * EXP[1], 16.0 * EXP[2], 8.0 * EXP[3], 4.0 * EXP[4]];
    let p = s.mul_add(horner(s, r, &EXP2), r, s.splat(2.0));
    let e = s.ldexp_normal(s.mul_add(p, r, one), n, t);
    let large = if S::FMA {
        let d = s.add(e, one);
        let inverse = s.reciprocal(d);
        let inverse = s.mul_add(inverse, s.neg_mul_add(d, inverse, one), inverse);
        s.neg_mul_add(s.splat(2.0), inverse, one)
    } else {
        s.sub(one, s.div(s.splat(2.0), s.add(e, one)))
    };
    // (tanh(a) / a - 1) / a^2 in a^2, relative error of tanh 2^-27.7
    const P: [f32; 5] = [-0.005_698_5, 0.020_632_78, -0.053_737_58, 0.133_314_13, -0.333_332_8];
    let z = s.mul(a, a);
    let small = s.mul_add(s.mul(horner(s, z, &P), z), a, a);
    s.copysign(s.select(s.lt(a, s.splat(0.625)), small, large), x)
}

/// 1 / (1 + e^-x) for x >= 0 and e^x / (1 + e^x) below: the exponential never
/// overflows, and the negative tail keeps its relative accuracy down to the last
/// denormal.
#[inline(always)]
pub fn sigmoid<S: Simd>(s: S, x: S::V) -> S::V {
    let low = s.max(s.splat(EXP_LOW), s.neg(s.abs(x)));
    let one = s.splat(1.0);
    let negative = s.lt(x, s.splat(0.0));
    // Plainly computed, the roundings of e^x, of the sum and of the quotient add
    // up to 2.3 ulp; those of the sum, and one of the others, are taken out again.
    if S::FMA {
        let (y, n, t) = exp_parts(s, low);
        let e = s.ldexp(y, n, t);
        let numerator = s.select(negative, e, one);
        let d = s.add(one, e);
        let lost = s.sub(e, s.sub(d, one)); // exact, since e <= 1
        let inverse = s.reciprocal(d);
        let q = s.mul(numerator, inverse);
        let rest = s.neg_mul_add(q, lost, s.neg_mul_add(q, d, numerator));
        s.mul_add(rest, inverse, q)
    } else {
        // No exact residue of the quotient without a fused multiply-add, but
        // that of e^x = (1 + q) 2^n.
        let (r, n, t) = exp_reduce(s, low);
        let q = exp_minus_one(s, r);
        let y = s.add(one, q);
        let lost_y = s.sub(q, s.sub(y, one));
        let e = s.ldexp(y, n, t);
        let numerator = s.select(negative, e, one);
        let d = s.add(one, e);
        let lost_d = s.sub(e, s.sub(d, one));
        let quotient = s.div(numerator, d);
        // Relative to the quotient: lost_y / y - lost_d / d. Two digits of the
        // inverses are enough: 1/y is about 2 - y (0.7 < y < 1.42), 1/d about
        // 1.457 - 0.486 d (1 <= d <= 2).
        let up = s.mul(lost_y, s.sub(s.splat(2.0), y));
        let up = s.select(negative, up, s.splat(0.0));
        let down = s.mul(lost_d, s.sub(s.splat(1.457), s.mul(d, s.splat(0.486))));
        s.add(quotient, s.mul(quotient, s.sub(up, down)))
    }
}

/// x Phi(x), the normal distribution function. With t = |x|,
///
/// Phi(-t) = e^(-t^2/2) R(t), R(t) = e^(t^2/2) erfc(t / sqrt 2) / 2,
///
/// gelu(-t) = -t Phi(-t), gelu(t) = t - t Phi(-t). R falls from 1/2 to 0.0275
/// without a sign change; R(t) (t + 3.5) is a polynomial in (t - 3.5) / (t + 3.5).
///
/// One element of eager gives +inf at +inf and NaN at -inf, and so does this.
///
/// At most 8 ULP of the result on every input, the negative tail down to the last
/// denormal included (found: 5.94 with a fused multiply-add, 6.96 without), and at
/// most 1e-7 from it where |result| <= 1.
#[inline(always)]
pub fn gelu<S: Simd>(s: S, x: S::V) -> S::V {
    let one = s.splat(1.0);
    let a = s.abs(x);
    // From 14.5 on the left tail rounds to -0.
    let t = s.min(s.splat(14.5), a);
    // t^2 = square + rest exactly: the rounding of t^2, up to 105 in the
    // exponent, would be the whole error otherwise.
    let square = s.mul(t, t);
    let rest = if S::FMA {
        s.mul_sub(t, t, square)
    } else {
        // Veltkamp's split and Dekker's product.
        let c = s.mul(t, s.splat(4097.0));
        let high = s.sub(c, s.sub(c, t));
        let low = s.sub(t, high);
        let cross = s.mul(high, low);
        let exact = s.sub(s.mul(high, high), square);
        s.add(s.add(exact, s.add(cross, cross)), s.mul(low, low))
    };
    // -t^2/2 = n ln 2 - w/2, so w = t^2 + 2 n ln 2, |w| < 0.7.
    let k = s.mul_add(square, s.splat(-0.5 * std::f32::consts::LOG2_E), s.splat(ROUND));
    let n = s.sub(k, s.splat(ROUND));
    let w = s.mul_add(n, s.splat(2.0 * LN2_HIGH), square); // exact
    let w = s.add(w, s.mul_add(n, s.splat(2.0 * LN2_LOW), rest));
    // e^(-w/2) - 1: EXP with each coefficient times its power of -1/2.
    const EXPW: [f32; 6] =
        [EXP[0] / 64.0, EXP[1] / -32.0, EXP[2] / 16.0, EXP[3] / -8.0, EXP[4] / 4.0, -0.5];
    let e = s.mul(horner(s, w, &EXPW), w);
    const K: f32 = 3.5;
    // R(t) (t + K) in v = (t - K) / (t + K), 0 <= t <= 14.6, relative error 2^-25.3
    const P: [f32; 10] = [
        9.425_636_4e-5,
        0.000_405_805_45,
        -0.000_473_485_65,
        -0.003_155_460_8,
        0.006_483_663,
        0.017_398_933,
        -0.116_051_376,
        0.315_425_93,
        -0.565_561_83,
        0.744_416_06,
    ];
    let shifted = s.add(t, s.splat(K));
    let u = s.reciprocal(shifted);
    let u = s.mul_add(u, s.neg_mul_add(shifted, u, one), u);
    let v = s.mul(s.sub(t, s.splat(K)), u);
    // t Phi(-t): the power of two comes last, so that a denormal rounds once.
    let q = s.mul(s.mul(horner(s, v, &P), u), t);
    let tail = s.ldexp(s.mul_add(q, e, q), n, k);
    // max(x, 0), but NaN for -inf. Halves of denormals round, to even as the tail
    // does, and the difference is the right one still (exhaustive test).
    let positive = s.mul_add(x, s.splat(0.5), s.mul(a, s.splat(0.5)));
    // The sign of x also for a result of zero.
    s.copysign(s.sub(positive, tail), x)
}

/// NaN and -0 stay: -0 < 0 is false, and so is every comparison with NaN.
#[inline(always)]
pub fn relu<S: Simd>(s: S, x: S::V) -> S::V {
    s.max(s.splat(0.0), x)
}
