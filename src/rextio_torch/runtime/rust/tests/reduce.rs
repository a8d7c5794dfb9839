mod common;

use common::strategies::{float, lying};
use common::{same, Random, Stored, LAYOUTS, LENGTHS};
use proptest::prelude::*;
use rextio_torch_runtime::rxt_kernels::argmax::argmax_rows;
use rextio_torch_runtime::rxt_kernels::reduce::*;
use rextio_torch_runtime::rxt_kernels::simd::Isa;
use rextio_torch_runtime::rxt_kernels::softmax::{softmax, softmax_in_place};
use rextio_torch_runtime::rxt_kernels::view::Matrix;

/// Exact sums: neither order nor f32 rounding may show in what the kernels give.
fn exact(values: impl Iterator<Item = f32>) -> f64 {
    // Neumaier's compensated sum in f64.
    let values: Vec<f64> = values.map(f64::from).collect();
    if values.iter().any(|v| !v.is_finite()) {
        return values.into_iter().sum();
    }
    let (mut sum, mut lost) = (0.0f64, 0.0f64);
    for v in values {
        let t = sum + v;
        lost += if sum.abs() >= v.abs() { (sum - t) + v } else { (v - t) + sum };
        sum = t;
    }
    sum + lost
}

fn check_reduce(a: Matrix<'_>, values: &dyn Fn(usize, usize) -> f32) {
    for isa in Isa::available() {
        for op in [Reduce::Sum, Reduce::Mean] {
            let mut out = vec![7.0; a.rows()];
            reduce_rows(isa, op, &mut out, a);
            for (r, &got) in out.iter().enumerate() {
                let row = || (0..a.cols()).map(|c| values(r, c));
                let total = exact(row());
                let size: f64 = row().map(|v| f64::from(v).abs()).sum();
                let n = a.cols() as f64;
                let (want, size) = match op {
                    Reduce::Sum => (total, size),
                    Reduce::Mean => (total / n, size / n),
                };
                // One rounding of the sum, one of the quotient, each of a denormal perhaps, and f64's
                // own. A sum that overflows is infinite, and so is its mean.
                let allowed = want.abs() * 1.2e-7 + 1.5e-45 + size * n * 1.2e-16;
                let overflows = total.abs() >= f64::from(f32::MAX) * (1.0 - 1e-7);
                let want = if overflows && got.is_infinite() { total * 2.0 } else { want };
                assert!(
                    same(got, want as f32) || (f64::from(got) - want).abs() <= allowed,
                    "{isa:?} {op:?} row {r}: {got} {want}"
                );
            }
        }
    }
}

#[test]
fn sums_of_every_length_and_layout() {
    let mut random = Random(4);
    for &n in LENGTHS.iter().filter(|&&n| n > 0) {
        for layout in 0..LAYOUTS {
            for rows in [1usize, 3, 17] {
                let v = random.wild(rows * n);
                let at = |r: usize, c: usize| v[r * n + c];
                check_reduce(Stored::new(rows, n, layout, at).view(), &at);
                if n < 1100 {
                    // Many rows, few columns.
                    let at = |r: usize, c: usize| v[c * n + r];
                    check_reduce(Stored::new(n, rows, layout, at).view(), &at);
                }
            }
        }
    }
}

#[test]
fn sums_that_cancel() {
    for isa in Isa::available() {
        let a = [1e8f32, 1.0, -1e8, 3.0, 1e30, -1e30, 0.5];
        for n in [7, 70, 700] {
            let v: Vec<f32> = (0..n).map(|i| if i < 7 { a[i] } else { 0.0 }).collect();
            let mut out = [0.0];
            reduce_rows(isa, Reduce::Sum, &mut out, Matrix::from_slice(&v[..4], 1, 4));
            assert_eq!(out[0], 4.0);
        }
        // Overflow on the way only: the sum is finite, the mean of an infinite sum is not.
        let big = [3e38f32, 3e38, -3e38];
        assert_eq!(sum(isa, &big) as f32, 3e38);
        let mut out = [0.0];
        reduce_rows(isa, Reduce::Mean, &mut out, Matrix::from_slice(&big[..2], 1, 2));
        assert_eq!(out[0], f32::INFINITY);
    }
}

#[test]
fn empty_and_special_sums() {
    for isa in Isa::available() {
        let none = Matrix::from_slice(&[], 2, 0);
        let mut out = [7.0; 2];
        reduce_rows(isa, Reduce::Sum, &mut out, none);
        assert_eq!(out, [0.0; 2]);
        reduce_rows(isa, Reduce::Mean, &mut out, none);
        assert!(out.iter().all(|x| x.is_nan()));
        reduce_rows(isa, Reduce::Sum, &mut [], Matrix::from_slice(&[], 0, 3));
        for n in [1usize, 2, 16, 17, 64, 65] {
            for (value, want) in
                [(-0.0, 0.0f32), (f32::INFINITY, f32::INFINITY), (f32::NAN, f32::NAN)]
            {
                let v = vec![value; n];
                for m in [Matrix::from_slice(&v, 1, n), Matrix::from_slice(&v, n, 1).transposed()] {
                    let mut out = [7.0];
                    reduce_rows(isa, Reduce::Sum, &mut out, m);
                    assert!(same(out[0], want), "{isa:?} {n} {value} {}", out[0]);
                    // eager starts from +0
                }
            }
            let mut v = vec![f32::INFINITY; n + 1];
            v[n] = f32::NEG_INFINITY;
            assert!(sum(isa, &v).is_nan());
        }
    }
}

#[test]
fn maximum_keeps_nan() {
    for isa in Isa::available() {
        assert_eq!(max(isa, &[]), f32::NEG_INFINITY);
        for &n in LENGTHS.iter().filter(|&&n| n > 0) {
            for at in [0, n / 2, n - 1] {
                let mut v = vec![-3.0; n];
                v[at] = -1.0;
                assert_eq!(max(isa, &v), -1.0);
                v[at] = f32::NAN;
                assert!(max(isa, &v).is_nan(), "{isa:?} {n} {at}");
            }
        }
    }
}

fn plain_argmax(values: impl Iterator<Item = f32>) -> i64 {
    let (mut best, mut index) = (f32::NEG_INFINITY, 0);
    for (i, v) in values.enumerate() {
        if v.is_nan() {
            return i as i64;
        }
        if v > best {
            (best, index) = (v, i as i64);
        }
    }
    index
}

#[test]
fn argmax_cases() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let cases: &[(&[f32], i64)] = &[
        (&[nan, 4.6151], 0),
        (&[1.0, nan], 1),
        (&[3.0, 2.0], 0),
        (&[1.0, 2.0, 2.0], 1),
        (&[0.0; 3], 0),
        (&[-0.0, 0.0], 0),
        (&[0.0, -0.0], 0),
        (&[-inf; 4], 0),
        (&[-inf, -1.0], 1),
        (&[inf, nan, nan], 1),
        (&[5.0], 0),
        (&[nan], 0),
    ];
    for isa in Isa::available() {
        for &(v, want) in cases {
            let mut out = [7];
            argmax_rows(isa, &mut out, Matrix::from_slice(v, 1, v.len()));
            assert_eq!(out, [want], "{isa:?} {v:?}");
            for copies in [1usize, 16, 40, 300] {
                let wide: Vec<f32> = v.iter().flat_map(|&x| vec![x; copies]).collect();
                let mut out = vec![7; copies];
                argmax_rows(isa, &mut out, Matrix::from_slice(&wide, v.len(), copies).transposed());
                assert!(out.iter().all(|&x| x == want), "{isa:?} {v:?} in columns");
            }
        }
    }
}

#[test]
fn argmax_of_every_length_and_layout() {
    let mut random = Random(5);
    for &n in LENGTHS.iter().filter(|&&n| n > 0) {
        for layout in 0..LAYOUTS {
            for rows in [1usize, 5, 33, 300] {
                if rows == 300 && n > 65 {
                    continue;
                }
                // Few values, so that ties are common; sometimes a NaN.
                let v: Vec<f32> = (0..rows * n)
                    .map(|_| match random.below(3 * n + 5) {
                        0 => f32::NAN,
                        x => (x % 7) as f32 - 3.0,
                    })
                    .collect();
                let stored = Stored::new(rows, n, layout, |r, c| v[r * n + c]);
                for isa in Isa::available() {
                    let mut out = vec![7; rows];
                    argmax_rows(isa, &mut out, stored.view());
                    for (r, &got) in out.iter().enumerate() {
                        assert_eq!(
                            got,
                            plain_argmax(v[r * n..(r + 1) * n].iter().copied()),
                            "{isa:?} {n} {layout}"
                        );
                    }
                }
            }
        }
    }
}

/// Softmax of one line in f64.
fn plain_softmax(v: &[f32]) -> Vec<f64> {
    let max = v.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(f64::from(x)));
    let e: Vec<f64> = v.iter().map(|&x| (f64::from(x) - max).exp()).collect();
    let total: f64 = e.iter().sum();
    e.iter().map(|e| e / total).collect()
}

#[test]
fn softmax_of_every_length_and_layout() {
    let mut random = Random(6);
    for &n in LENGTHS.iter().filter(|&&n| n > 0) {
        for (rows, scale, offset) in [(1usize, 1.0, 0.0), (3, 30.0, 500.0), (20, 5.0, -500.0)] {
            let v: Vec<f32> = (0..rows * n).map(|_| random.unit() * scale + offset).collect();
            for layout in 0..LAYOUTS {
                for (shape, axis) in [((rows, n), 1), ((n, rows), 0)] {
                    let at = |r: usize, c: usize| {
                        if axis == 1 {
                            v[r * n + c]
                        } else {
                            v[c * n + r]
                        }
                    };
                    let stored = Stored::new(shape.0, shape.1, layout, at);
                    for isa in Isa::available() {
                        let mut out = vec![7.0; rows * n + 1];
                        softmax(isa, &mut out[..rows * n], stored.view(), axis);
                        assert_eq!(out[rows * n], 7.0);
                        let mut again: Vec<f32> =
                            (0..rows * n).map(|i| at(i / shape.1, i % shape.1)).collect();
                        softmax_in_place(isa, &mut again, shape.0, shape.1, axis);
                        assert!(again.iter().zip(&out).all(|(&a, &b)| same(a, b)));
                        for line in 0..rows {
                            let want = plain_softmax(&v[line * n..(line + 1) * n]);
                            for (i, want) in want.iter().enumerate() {
                                let got =
                                    out[if axis == 1 { line * n + i } else { i * rows + line }];
                                // The rounding of x - max is in the exponent, as in eager.
                                let allowed = want * (3e-7 + f64::from(scale) * 2.4e-7) + 1e-44;
                                assert!(
                                    (f64::from(got) - want).abs() <= allowed,
                                    "{isa:?} {n} {layout} {axis}: {got} {want}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn softmax_cases() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let cases: &[(&[f32], &[f32])] = &[
        (&[-inf, -inf], &[nan, nan]),
        (&[0.0, inf], &[nan, nan]),
        (&[1.0, nan], &[nan, nan]),
        (&[0.0, -inf], &[1.0, 0.0]),
        (&[-inf, 0.0], &[0.0, 1.0]),
        (&[nan], &[nan]),
        (&[3e38], &[1.0]),
        (&[3e38, -3e38], &[1.0, 0.0]),
        (&[5.0, 5.0], &[0.5, 0.5]),
    ];
    for isa in Isa::available() {
        for &(v, want) in cases {
            let mut out = vec![7.0; v.len()];
            softmax(isa, &mut out, Matrix::from_slice(v, 1, v.len()), 1);
            assert!(out.iter().zip(want).all(|(&a, &b)| same(a, b)), "{isa:?} {v:?} {out:?}");
            for copies in [1usize, 17, 300] {
                let wide: Vec<f32> = v.iter().flat_map(|&x| vec![x; copies]).collect();
                let mut out = vec![7.0; wide.len()];
                softmax(isa, &mut out, Matrix::from_slice(&wide, v.len(), copies), 0);
                for (i, x) in out.iter().enumerate() {
                    assert!(same(*x, want[i / copies]), "{isa:?} {v:?} columns");
                }
            }
        }
        softmax(isa, &mut [], Matrix::from_slice(&[], 2, 0), 1);
        softmax(isa, &mut [], Matrix::from_slice(&[], 0, 2), 0);
        // A NaN or -inf at the end of every length.
        for &n in LENGTHS.iter().filter(|&&n| n > 1) {
            for place in [0, n - 1] {
                let mut v = vec![0.5; n];
                v[place] = nan;
                softmax_in_place(isa, &mut v, 1, n, 1);
                assert!(v.iter().all(|x| x.is_nan()), "{isa:?} {n}");
                let mut v = vec![0.5; n];
                v[place] = -inf;
                softmax_in_place(isa, &mut v, 1, n, 1);
                assert_eq!(v[place], 0.0);
                assert!(!v.iter().any(|x| x.is_nan()), "{isa:?} {n}");
            }
        }
    }
}

/// Whether a softmax of one line is as near as rounding `x - max` in f32 lets it be.
fn check_softmax(got: impl Iterator<Item = f32>, line: &[f32], what: &str) {
    let max = line.iter().fold(f64::NEG_INFINITY, |max, &x| max.max(f64::from(x)));
    for ((got, want), &x) in got.zip(plain_softmax(line)).zip(line) {
        let below = (max - f64::from(x)).min(110.0);
        // The last terms: of the sum, and of a result that is denormal.
        let allowed = want * (2e-7 + below * 1.2e-7 + 1e-6) + 1e-44;
        let near = (f64::from(got) - want).abs() <= allowed;
        assert!(near || (got.is_nan() && want.is_nan()), "{what} {x}: {got} {want}");
    }
}

proptest! {
    #[test]
    fn any_view(a in lying(1..40, 1..300, float())) {
        check_reduce(a.view(), &|r, c| a.at(r, c));
        check_reduce(a.view().transposed(), &|r, c| a.at(c, r));
        let (rows, columns) = (a.view().rows(), a.view().cols());
        for isa in Isa::available() {
            let mut out = vec![0; rows];
            argmax_rows(isa, &mut out, a.view());
            for (r, &got) in out.iter().enumerate() {
                prop_assert_eq!(got, plain_argmax(a.row(r)));
            }
            let mut out = vec![7.0; rows * columns];
            softmax(isa, &mut out, a.view(), 1);
            for (r, got) in out.chunks(columns).enumerate() {
                let line: Vec<f32> = a.row(r).collect();
                check_softmax(got.iter().copied(), &line, &format!("{isa:?} row {r}"));
            }
            softmax(isa, &mut out, a.view(), 0);
            for c in 0..columns {
                let line: Vec<f32> = (0..rows).map(|r| a.at(r, c)).collect();
                let got = out[c..].iter().step_by(columns).copied();
                check_softmax(got, &line, &format!("{isa:?} column {c}"));
            }
        }
    }
}
