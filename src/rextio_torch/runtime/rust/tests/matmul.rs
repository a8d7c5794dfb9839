mod common;

use common::strategies::{factor, lying, Lying};
use common::{same, Random, Stored, LAYOUTS};
use proptest::collection::vec;
use proptest::prelude::*;
use rextio_torch_runtime::rxt_kernels::elementwise::Unary;
use rextio_torch_runtime::rxt_kernels::matmul::*;
use rextio_torch_runtime::rxt_kernels::matvec::{dot, matvec, vecmat};
use rextio_torch_runtime::rxt_kernels::simd::Isa;
use rextio_torch_runtime::rxt_kernels::view::Matrix;

const PATHS: [Path; 4] = [Path::Rows, Path::Columns, Path::Sweep, Path::Packed];

/// Every path, layout pair and instruction set against a plain product in f64.
fn check(m: usize, k: usize, n: usize, layouts: (usize, usize), seed: u64, isa: Isa) {
    let mut random = Random(seed);
    let (a, b, bias) = (random.vec(m * k), random.vec(k * n), random.vec(n));
    let sa = Stored::new(m, k, layouts.0, |r, c| a[r * k + c]);
    let sb = Stored::new(k, n, layouts.1, |r, c| b[r * n + c]);
    let run = |path: Option<Path>, epilogue: Epilogue<'_>| {
        let mut out = vec![7.0; m * n + 1];
        match path {
            Some(path) => matmul_by(isa, path, &mut out[..m * n], sa.view(), sb.view(), epilogue),
            None => matmul(isa, &mut out[..m * n], sa.view(), sb.view(), epilogue),
        }
        assert_eq!(out.pop(), Some(7.0), "wrote outside");
        out
    };
    for path in PATHS.into_iter().map(Some).chain([None]) {
        let plain = run(path, Epilogue::default());
        let biased = run(path, Epilogue { bias: Some(&bias), op: None });
        let both = run(path, Epilogue { bias: Some(&bias), op: Some(Unary::Relu) });
        for i in 0..m {
            for j in 0..n {
                let terms = || (0..k).map(|q| f64::from(a[i * k + q]) * f64::from(b[q * n + j]));
                let (want, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
                let allowed = 1e-12 + size * 6e-8 * (2.0 + (k as f64).sqrt());
                let (x, y, z) = (plain[i * n + j], biased[i * n + j], both[i * n + j]);
                let what = (path, isa, m, k, n, layouts, i, j);
                assert!((f64::from(x) - want).abs() <= allowed, "{what:?}: {x} {want}");
                assert!(
                    (f64::from(y) - want - f64::from(bias[j])).abs() <= allowed + 2e-7,
                    "{what:?} bias"
                );
                assert!(same(z, if y < 0.0 { 0.0 } else { y }), "{what:?} relu");
            }
        }
    }
}

#[test]
fn awkward_sizes_and_layouts() {
    let sizes = [1usize, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 65];
    let mut random = Random(7);
    for isa in Isa::available() {
        for la in 0..LAYOUTS {
            for lb in 0..LAYOUTS {
                for _ in 0..30 {
                    let (m, k, n) = (
                        sizes[random.below(sizes.len())],
                        sizes[random.below(sizes.len())],
                        sizes[random.below(sizes.len())],
                    );
                    check(m, k, n, (la, lb), random.next(), isa);
                }
            }
        }
        for n in 1..70 {
            check(1, 64, n, (0, 1), 8, isa);
            check(1, n, 32, (0, 0), 8, isa);
            check(2, n, 9, (0, 1), 8, isa);
            check(5, 9, n, (0, 0), 8, isa);
        }
        check(1, 300, 2100, (0, 0), 9, isa);
        check(1, 1000, 130, (0, 1), 9, isa);
        check(70, 70, 70, (0, 1), 9, isa);
        check(200, 20, 30, (0, 0), 9, isa);
    }
}

#[test]
fn empty_products() {
    for isa in Isa::available() {
        for path in PATHS {
            let bias = [1.0, 2.0, 3.0];
            let mut out = [7.0; 6];
            let (a, b) = (Matrix::from_slice(&[], 2, 0), Matrix::from_slice(&[], 0, 3));
            matmul_by(isa, path, &mut out, a, b, Epilogue::default());
            assert_eq!(out, [0.0; 6]);
            matmul_by(isa, path, &mut out, a, b, Epilogue { bias: Some(&bias), op: None });
            assert_eq!(out, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
            let w = [0.0; 12];
            matmul_by(
                isa,
                path,
                &mut [],
                Matrix::from_slice(&[], 0, 4),
                Matrix::from_slice(&w, 4, 3),
                Epilogue::default(),
            );
        }
    }
}

/// NaN times zero is NaN, in every place of a tile.
#[test]
fn nan_and_infinity_go_through() {
    for isa in Isa::available() {
        for path in PATHS {
            for (m, k, n) in [(1, 2, 1), (1, 64, 10), (3, 17, 5), (4, 16, 64), (5, 33, 17)] {
                for (bad, place) in [(f32::NAN, 0), (f32::INFINITY, k - 1)] {
                    let mut a = vec![1.0; m * k];
                    a[(m - 1) * k + place] = bad;
                    let b = vec![0.0; k * n];
                    let mut out = vec![7.0; m * n];
                    let (va, vb) = (Matrix::from_slice(&a, m, k), Matrix::from_slice(&b, k, n));
                    matmul_by(isa, path, &mut out, va, vb, Epilogue::default());
                    for (i, x) in out.iter().enumerate() {
                        assert_eq!(x.is_nan(), i / n == m - 1, "{path:?} {isa:?} {m}x{k}x{n}");
                    }
                }
            }
        }
    }
}

#[test]
fn vectors() {
    let mut random = Random(10);
    for isa in Isa::available() {
        for k in [0usize, 1, 2, 7, 16, 33, 130, 1000] {
            let (a, b) = (random.vec(k), random.vec(k));
            let want: f64 = a.iter().zip(&b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
            assert!((f64::from(dot(isa, &a, &b)) - want).abs() <= 1e-6 * (1.0 + (k as f64).sqrt()));
            let w = random.vec(k * 3);
            let mut by_rows = [7.0; 3];
            matvec(isa, &mut by_rows, Matrix::from_slice(&w, 3, k), &a, Epilogue::default());
            let turned: Vec<f32> = (0..3 * k).map(|i| w[(i % 3) * k + i / 3]).collect();
            let mut by_columns = [7.0; 3];
            vecmat(
                isa,
                &mut by_columns,
                &a,
                Matrix::from_slice(&turned, k, 3),
                Epilogue::default(),
            );
            for (x, y) in by_rows.iter().zip(by_columns) {
                assert!((x - y).abs() <= 1e-6 * (1.0 + (k as f32).sqrt()));
            }
        }
    }
}

/// Whether a sum of products is as near as f32 lets it be; infinities and NaN exactly.
fn near(got: f32, terms: impl Iterator<Item = (f32, f32)>, extra: f32) -> bool {
    let products: Vec<f64> = terms.map(|(a, b)| f64::from(a) * f64::from(b)).collect();
    let want = products.iter().sum::<f64>() + f64::from(extra);
    if !want.is_finite() {
        return same(got, want as f32);
    }
    let size = products.iter().map(|x| x.abs()).sum::<f64>() + f64::from(extra).abs();
    let allowed = 1e-12 + size * 6e-8 * (2.0 + (products.len() as f64).sqrt());
    (f64::from(got) - want).abs() <= allowed
}

fn factors() -> impl Strategy<Value = (Lying, Lying, Vec<f32>)> {
    (1usize..20, 1usize..80, 1usize..80).prop_flat_map(|(m, k, n)| {
        let matrix = |rows, columns| lying(rows..rows + 1, columns..columns + 1, factor());
        (matrix(m, k), matrix(k, n), vec(factor(), n))
    })
}

proptest! {
    #[test]
    fn any_product((a, b, bias) in factors()) {
        let (m, n) = (a.view().rows(), b.view().cols());
        for isa in Isa::available() {
            for path in PATHS {
                let mut out = vec![7.0; m * n];
                let epilogue = Epilogue { bias: Some(&bias), op: Some(Unary::Neg) };
                matmul_by(isa, path, &mut out, a.view(), b.view(), epilogue);
                for (place, &got) in out.iter().enumerate() {
                    let (i, j) = (place / n, place % n);
                    let terms = a.row(i).enumerate().map(|(q, x)| (x, b.at(q, j)));
                    prop_assert!(near(-got, terms, bias[j]), "{path:?} {isa:?} {i} {j}: {got}");
                }
            }
        }
    }
}
