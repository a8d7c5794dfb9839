//! f64 references for the unary operations, and the distance from them in ULP.
#![allow(dead_code)] // shared by several targets, none of which uses all

use rextio_torch_runtime::rxt_kernels::elementwise::Unary;

/// erf by its all-positive series for small arguments (Abramowitz and Stegun
/// 7.1.6), through erfc beyond. Checked against torch's float64 and mpmath by
/// scripts/check_erf.py.
pub fn erf(x: f64) -> f64 {
    let z = x.abs();
    let y = if z < 2.0 { erf_series(z) } else { 1.0 - erfc_fraction(z) };
    y.copysign(x)
}

/// Relative error below 1e-13 on the whole line.
pub fn erfc(x: f64) -> f64 {
    if x < 0.0 {
        1.0 + erf(-x)
    } else if x < 2.0 {
        1.0 - erf_series(x)
    } else {
        erfc_fraction(x)
    }
}

/// 2/sqrt(pi) e^(-z^2) sum of 2^n z^(2n+1) / (1 * 3 * ... * (2n+1)): no
/// cancellation, for 0 <= z < 2.
fn erf_series(z: f64) -> f64 {
    let mut term = z;
    let mut sum = z;
    let mut n = 0.0;
    while term > sum * 1e-18 {
        n += 1.0;
        term *= 2.0 * z * z / (2.0 * n + 1.0);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-z * z).exp() * sum
}

/// e^(-z^2)/sqrt(pi) / (z + (1/2)/(z + 1/(z + (3/2)/(z + ...)))) (Abramowitz and
/// Stegun 7.1.14), from the 60th level up, for z >= 2.
fn erfc_fraction(z: f64) -> f64 {
    if z > 28.0 {
        return 0.0;
    }
    let mut f = z;
    let mut k = 60.0;
    while k > 0.0 {
        f = z + (k * 0.5) / f;
        k -= 1.0;
    }
    std::f64::consts::FRAC_2_SQRT_PI * 0.5 * (-z * z).exp() / f
}

/// The value before rounding to f32, with what eager gives at the edges.
pub fn reference(op: Unary, x: f32) -> f64 {
    let d = f64::from(x);
    match op {
        Unary::Relu => {
            // Not `if d < 0.0 { 0.0 } else { d }`: rustc 1.95 turns that, behind
            // the conversion to f64, into `x <= 0.0`, and -0 into +0.
            if d.is_sign_negative() && d != 0.0 && !d.is_nan() {
                0.0
            } else {
                d
            }
        }
        Unary::Abs => d.abs(),
        Unary::Neg => -d,
        Unary::Square => d * d,
        Unary::Exp => d.exp(),
        Unary::Log => d.ln(),
        Unary::Sqrt => d.sqrt(),
        Unary::Tanh => d.tanh(),
        Unary::Sigmoid => {
            // Not 1 / (1 + e^-x): e^110 is finite in f64, but the sum would be
            // fine only as long as e^-x is.
            if d < 0.0 {
                let e = d.exp();
                e / (1.0 + e)
            } else {
                1.0 / (1.0 + (-d).exp())
            }
        }
        Unary::Gelu => {
            if d == f64::NEG_INFINITY {
                f64::NAN // -inf * 0, as eager for one element
            } else if d.abs() < 1e-9 {
                d * 0.5 * (1.0 + d * 0.797_884_560_802_865_4)
            } else if d > 40.0 {
                d
            } else {
                d * 0.5 * erfc(-d * std::f64::consts::FRAC_1_SQRT_2)
            }
        }
    }
}

/// Spacing of f32 at a value: 2^-149 for denormals.
pub fn ulp(y: f64) -> f64 {
    let exponent = ((y.to_bits() >> 52) & 0x7ff) as i64 - 1023;
    let exponent = exponent.clamp(-126, 127);
    f64::from_bits(((exponent - 23 + 1023) as u64) << 52)
}

/// Distance in ULP of the true value, infinite where one is NaN and the other
/// is not, where an infinity or the sign of a zero differs.
pub fn distance(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got.to_bits() == rounded.to_bits() {
        if got.is_infinite() {
            return 0.0; // also where only the rounding overflows
        }
        let d = (f64::from(got) - want).abs() / ulp(want);
        return if d.is_nan() { 0.0 } else { d };
    }
    if got.is_nan() || rounded.is_nan() {
        return if got.is_nan() && rounded.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got.is_sign_negative() != want.is_sign_negative() || want.is_infinite() {
        return f64::INFINITY;
    }
    // An overflow where the true value is finite counts as 2^128.
    let got =
        if got.is_infinite() { 2f64.powi(128).copysign(f64::from(got)) } else { f64::from(got) };
    (got - want).abs() / ulp(want)
}

/// What the operation is allowed.
pub fn bound(op: Unary) -> f64 {
    match op {
        Unary::Relu | Unary::Abs | Unary::Neg => 0.0,
        Unary::Square | Unary::Sqrt => 0.5,
        Unary::Exp | Unary::Log => 1.5,
        Unary::Tanh | Unary::Sigmoid => 2.0,
        Unary::Gelu => 8.0,
    }
}
