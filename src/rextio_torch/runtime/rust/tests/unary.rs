mod common;

use common::reference::{bound, distance, reference};
use common::strategies::{float, length, lying};
use common::{same, Random, LENGTHS};
use proptest::collection::vec;
use proptest::prelude::*;
use rextio_torch_runtime::rxt_kernels::elementwise::*;
use rextio_torch_runtime::rxt_kernels::simd::Isa;

/// 2^22 inputs: every exponent and sign evenly, mantissas spread, ends included.
fn sample() -> Vec<f32> {
    let mut x = Vec::new();
    let mut random = Random(1);
    for high in 0..512u32 {
        for k in 0..8192u32 {
            let mantissa = match k {
                0 => 0,
                1 => 1,
                2 => 0x7f_ffff,
                3 => 0x40_0000,
                _ => (random.next() & 0x7f_ffff) as u32,
            };
            x.push(f32::from_bits((high << 23) | mantissa));
        }
    }
    for v in [-104.0, -103.97, -103.0, 88.72284, 88.7229, 89.0, 0.625, 9.02, 14.5, 13.2, 1.0, 2.0] {
        for step in -8i32..=8 {
            let bits = f32::to_bits(v).wrapping_add_signed(step);
            x.extend([f32::from_bits(bits), -f32::from_bits(bits)]);
        }
    }
    x
}

#[test]
fn within_bounds() {
    let x = sample();
    let mut got = vec![0.0; x.len()];
    for op in Unary::ALL {
        let want: Vec<f64> = x.iter().map(|&x| reference(op, x)).collect();
        for isa in Isa::available() {
            unary(isa, op, &mut got, &x);
            for ((&x, &got), &want) in x.iter().zip(&got).zip(&want) {
                let d = distance(got, want);
                assert!(
                    d <= bound(op),
                    "{} {:?}: {x:e} ({:#x}) -> {got:e}, {want:e}: {d} ulp",
                    op.name(),
                    isa,
                    x.to_bits()
                );
            }
        }
    }
}

#[test]
fn gelu_absolute_bound() {
    // The bound that math.rs states, where the result is not the input itself.
    let x = sample();
    let mut got = vec![0.0; x.len()];
    for isa in Isa::available() {
        unary(isa, Unary::Gelu, &mut got, &x);
        for (&x, &got) in x.iter().zip(&got) {
            if reference(Unary::Gelu, x).abs() <= 1.0 {
                assert!((f64::from(got) - reference(Unary::Gelu, x)).abs() <= 1e-7, "{x}");
            }
        }
    }
}

#[test]
fn edges_as_eager() {
    use Unary::*;
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let cases = [
        (Relu, nan, nan),
        (Relu, -nan, nan),
        (Relu, -0.0, -0.0),
        (Relu, 0.0, 0.0),
        (Relu, -inf, 0.0),
        (Relu, inf, inf),
        (Relu, 1e-45, 1e-45),
        (Relu, -1e-45, 0.0),
        (Exp, -103.0, 1.4e-45),
        (Exp, -104.0, 0.0),
        (Exp, -inf, 0.0),
        (Exp, inf, inf),
        (Exp, 0.0, 1.0),
        (Exp, 88.72284, inf),
        (Exp, nan, nan),
        (Log, 0.0, -inf),
        (Log, -0.0, -inf),
        (Log, -1.0, nan),
        (Log, -inf, nan),
        (Log, inf, inf),
        (Log, 1.0, 0.0),
        (Log, 1e-45, -103.278_93),
        (Log, -1e-45, nan),
        (Log, nan, nan),
        (Sqrt, -0.0, -0.0),
        (Sqrt, -1.0, nan),
        (Sqrt, inf, inf),
        (Sqrt, nan, nan),
        (Tanh, -0.0, -0.0),
        (Tanh, inf, 1.0),
        (Tanh, -inf, -1.0),
        (Tanh, 1e-45, 1e-45),
        (Tanh, nan, nan),
        (Sigmoid, inf, 1.0),
        (Sigmoid, -inf, 0.0),
        (Sigmoid, -0.0, 0.5),
        (Sigmoid, nan, nan),
        (Gelu, inf, inf),
        (Gelu, -inf, nan),
        (Gelu, -0.0, -0.0),
        (Gelu, 0.0, 0.0),
        (Gelu, nan, nan),
        (Gelu, 3e38, 3e38),
        (Gelu, -3e38, -0.0),
        (Gelu, -20.0, -0.0),
        (Gelu, 1e-45, 0.0),
        (Gelu, -1e-45, -0.0),
        (Gelu, 1e-38, 5e-39),
        (Abs, -0.0, 0.0),
        (Abs, -inf, inf),
        (Abs, -nan, nan),
        (Neg, 0.0, -0.0),
        (Neg, nan, nan),
        (Square, -inf, inf),
        (Square, 1e-30, 0.0),
        (Square, nan, nan),
    ];
    for isa in Isa::available() {
        for (op, x, want) in cases {
            // Alone, in a whole vector, in a tail.
            for n in [1, 7, 8, 16, 17, 64, 65] {
                let mut got = vec![0.0; n];
                unary(isa, op, &mut got, &vec![x; n]);
                assert!(
                    got.iter().all(|&y| same(y, want)),
                    "{} {isa:?} {x:e} x{n}: {got:?}",
                    op.name()
                );
            }
        }
    }
}

#[test]
fn nan_at_the_ends_of_every_length() {
    for isa in Isa::available() {
        for op in Unary::ALL {
            for &n in LENGTHS.iter().filter(|&&n| n > 0) {
                let mut a = vec![2.0; n];
                (a[0], a[n - 1]) = (f32::NAN, f32::NAN);
                let mut out = vec![7.0; n + 2];
                unary(isa, op, &mut out[1..=n], &a);
                assert_eq!((out[0], out[n + 1]), (7.0, 7.0), "wrote outside");
                for (i, y) in out[1..=n].iter().enumerate() {
                    assert_eq!(y.is_nan(), i == 0 || i == n - 1, "{} {isa:?} {n} {i}", op.name());
                }
            }
        }
    }
}

proptest! {
    /// The place of an element, and whether it is done in place, change no bit.
    #[test]
    fn the_same_everywhere(a in length().prop_flat_map(|n| vec(float(), n))) {
        for isa in Isa::available() {
            for op in Unary::ALL {
                let mut out = vec![0.0; a.len()];
                unary(isa, op, &mut out, &a);
                let mut x = a.clone();
                unary_in_place(isa, op, &mut x);
                for i in 0..a.len() {
                    let mut alone = [0.0];
                    unary(isa, op, &mut alone, &a[i..=i]);
                    prop_assert!(
                        same(out[i], alone[0]) && same(out[i], x[i]),
                        "{} {isa:?} {:e}",
                        op.name(),
                        a[i]
                    );
                }
            }
        }
    }

    #[test]
    fn binary_is_exact(
        (a, b) in length().prop_flat_map(|n| (vec(float(), n), vec(float(), n))),
        k in float(),
    ) {
        for isa in Isa::available() {
            for op in Binary::ALL {
                check_binary(isa, op, &a, &b, k);
            }
        }
    }

    #[test]
    fn any_view_is_copied_row_by_row(a in lying(0..20, 0..70, float())) {
        let (rows, columns) = (a.view().rows(), a.view().cols());
        let mut out = vec![7.0; rows * columns];
        a.view().copy_to(&mut out);
        let want = (0..rows).flat_map(|row| a.row(row));
        prop_assert!(out.into_iter().zip(want).all(|(got, want)| same(got, want)));
    }
}

fn check_binary(isa: Isa, op: Binary, a: &[f32], b: &[f32], k: f32) {
    let plain = |a: f32, b: f32| match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
    };
    let n = a.len();
    let both: Vec<f32> = a.iter().zip(b).map(|(&a, &b)| plain(a, b)).collect();
    let right: Vec<f32> = a.iter().map(|&a| plain(a, k)).collect();
    let left: Vec<f32> = b.iter().map(|&b| plain(k, b)).collect();
    let check = |got: &[f32], want: &[f32], what: &str| {
        assert!(
            got.iter().zip(want).all(|(&x, &y)| same(x, y)),
            "{} {isa:?} {n} {what}",
            op.name()
        );
    };
    let mut out = vec![7.0; n + 2];
    binary(isa, op, &mut out[1..=n], a, b);
    assert_eq!((out[0], out[n + 1]), (7.0, 7.0), "wrote outside");
    check(&out[1..=n], &both, "both");
    binary_scalar(isa, op, &mut out[1..=n], a, k);
    check(&out[1..=n], &right, "scalar on the right");
    scalar_binary(isa, op, &mut out[1..=n], k, b);
    check(&out[1..=n], &left, "scalar on the left");
    let mut x = a.to_vec();
    binary_in_place_left(isa, op, &mut x, b);
    check(&x, &both, "in place, left");
    let mut x = b.to_vec();
    binary_in_place_right(isa, op, a, &mut x);
    check(&x, &both, "in place, right");
    let mut x = a.to_vec();
    binary_scalar_in_place(isa, op, &mut x, k);
    check(&x, &right, "in place, scalar on the right");
    let mut x = b.to_vec();
    scalar_binary_in_place(isa, op, k, &mut x);
    check(&x, &left, "in place, scalar on the left");
}

#[test]
fn gather_reads_any_stride() {
    let a: Vec<f32> = (0..400).map(|i| i as f32).collect();
    for stride in [-3isize, -1, 0, 1, 2, 5] {
        for n in [0usize, 1, 2, 17, 60] {
            let mut out = vec![0.0; n];
            // SAFETY: 200 +- 5 * 59 is inside 400 for the strides above where it matters.
            let base = if stride < 0 { 399 } else { 0 };
            unsafe { gather(&mut out, a.as_ptr().add(base), stride) };
            for (i, x) in out.iter().enumerate() {
                assert_eq!(*x, a[(base as isize + stride * i as isize) as usize]);
            }
        }
    }
}
