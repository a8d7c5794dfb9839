//! Time of every kernel in every instruction set this machine has.
//!
//!     cargo bench                    # everything, a line each
//!     cargo bench -- exp softmax     # what contains one of the words
//!
//! The least of several runs: the machine may be shared.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rextio_torch_runtime::rxt_kernels::argmax::argmax_rows;
use rextio_torch_runtime::rxt_kernels::elementwise::*;
use rextio_torch_runtime::rxt_kernels::matmul::*;
use rextio_torch_runtime::rxt_kernels::reduce::*;
use rextio_torch_runtime::rxt_kernels::simd::Isa;
use rextio_torch_runtime::rxt_kernels::softmax::softmax;
use rextio_torch_runtime::rxt_kernels::view::Matrix;

/// 64-byte aligned, as torch's and the engine's buffers are.
struct Buffer {
    data: Vec<f32>,
    skip: usize,
    n: usize,
}

impl Buffer {
    fn new(n: usize, f: impl Fn(usize) -> f32) -> Buffer {
        let mut data = vec![0.0; n + 16];
        let skip = data.as_ptr().align_offset(64);
        for i in 0..n {
            data[skip + i] = f(i);
        }
        Buffer { data, skip, n }
    }
    fn get(&self) -> &[f32] {
        &self.data[self.skip..self.skip + self.n]
    }
    fn get_mut(&mut self) -> &mut [f32] {
        &mut self.data[self.skip..self.skip + self.n]
    }
}

/// Nanoseconds per call.
fn time(mut f: impl FnMut()) -> f64 {
    let mut calls = 1u32;
    loop {
        let start = Instant::now();
        (0..calls).for_each(|_| f());
        if start.elapsed() > Duration::from_micros(500) {
            break;
        }
        calls *= 2;
    }
    let mut best = f64::INFINITY;
    let begin = Instant::now();
    for round in 0.. {
        let start = Instant::now();
        (0..calls).for_each(|_| f());
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(calls));
        if round >= 5 && begin.elapsed() > Duration::from_millis(30) {
            break;
        }
    }
    best
}

fn noise(i: usize) -> f32 {
    let z = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((z >> 40) as f32 / (1u64 << 23) as f32 - 1.0) * 3.0
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|w| name.contains(w.as_str()));
    for isa in Isa::available() {
        let level = isa.level().name();
        let line = |name: &str, n: usize, f: &mut dyn FnMut()| {
            let ns = time(f);
            println!("{level:9} {name:32} {n:8}  {:9.4} ns/element {:12.1} ns", ns / n as f64, ns);
        };
        for n in [64usize, 4096, 65536, 1 << 20] {
            let a = Buffer::new(n, noise);
            let positive = Buffer::new(n, |i| noise(i).abs() + 1e-3);
            let mut out = Buffer::new(n, |_| 0.0);
            for op in Unary::ALL {
                if wanted(op.name()) {
                    let a = if matches!(op, Unary::Log | Unary::Sqrt) { &positive } else { &a };
                    line(op.name(), n, &mut || {
                        unary(isa, op, black_box(out.get_mut()), black_box(a.get()))
                    });
                }
            }
            for op in Binary::ALL {
                if wanted(op.name()) {
                    line(op.name(), n, &mut || {
                        binary(
                            isa,
                            op,
                            black_box(out.get_mut()),
                            black_box(a.get()),
                            positive.get(),
                        )
                    });
                }
            }
            if wanted("copy") {
                line("copy", n, &mut || {
                    black_box(out.get_mut()).copy_from_slice(black_box(a.get()))
                });
            }
            let (rows, cols) = if n == 64 {
                (8, 8)
            } else {
                let r = 1usize << (n.trailing_zeros() / 2);
                (r, n / r)
            };
            let shape = format!("{rows}x{cols}");
            let one = Matrix::from_slice(a.get(), 1, n);
            let square = Matrix::from_slice(a.get(), rows, cols);
            for (what, m) in [("1 row", one), ("rows", square), ("columns", square.transposed())] {
                let name = |op: &str| {
                    format!(
                        "{op} {what} of {}",
                        if what == "1 row" { n.to_string() } else { shape.clone() }
                    )
                };
                if wanted("sum") {
                    line(&name("sum"), n, &mut || {
                        reduce_rows(
                            isa,
                            Reduce::Sum,
                            &mut black_box(out.get_mut())[..m.rows()],
                            black_box(m),
                        )
                    });
                }
                if wanted("argmax") {
                    let mut to = vec![0i64; m.rows()];
                    line(&name("argmax"), n, &mut || {
                        argmax_rows(isa, black_box(&mut to), black_box(m))
                    });
                }
                if wanted("softmax") {
                    let (m, axis) = if what == "columns" { (square, 0) } else { (m, 1) };
                    line(&name("softmax"), n, &mut || {
                        softmax(isa, black_box(out.get_mut()), black_box(m), axis)
                    });
                }
            }
        }
        // Products: (m, k, n), weight as [n, k] (a linear layer) or as [k, n].
        let shapes = [
            (1usize, 32usize, 32usize),
            (1, 64, 10),
            (1, 64, 32),
            (1, 128, 64),
            (1, 128, 256),
            (1, 256, 128),
            (1, 128, 10),
            (1, 512, 512),
            (1, 1024, 1024),
            (1, 4096, 1024),
            (2, 128, 256),
            (4, 128, 256),
            (8, 128, 256),
            (16, 128, 256),
            (16, 64, 64),
            (8, 8, 8),
            (16, 16, 16),
            (32, 32, 32),
            (64, 64, 64),
            (128, 128, 128),
            (256, 256, 256),
            (512, 512, 512),
            (1024, 1024, 1024),
            (8, 1024, 1024),
            (16, 1024, 1024),
            (32, 1024, 1024),
            (64, 1024, 1024),
            (128, 1024, 1024),
            (64, 128, 10),
            (64, 256, 256),
        ];
        for (m, k, n) in shapes {
            if !wanted("matmul") {
                break;
            }
            let a = Buffer::new(m * k, noise);
            let b = Buffer::new(k * n, noise);
            let mut out = Buffer::new(m * n, |_| 0.0);
            for (name, b) in [
                ("linear", Matrix::from_slice(b.get(), n, k).transposed()),
                ("matmul", Matrix::from_slice(b.get(), k, n)),
            ] {
                let a = Matrix::from_slice(a.get(), m, k);
                let chosen = path(a, b);
                for by in [Path::Rows, Path::Columns, Path::Sweep, Path::Packed] {
                    // Only what reads the operands as they lie.
                    let fits = match by {
                        Path::Rows => name == "linear",
                        Path::Columns => name == "matmul",
                        Path::Sweep => name == "matmul" && m <= 32,
                        Path::Packed => true,
                    };
                    if !fits || m * k * n > 256 * 256 * 256 * 8 && level == "portable" {
                        continue;
                    }
                    let ns = time(|| {
                        matmul_by(
                            isa,
                            by,
                            black_box(out.get_mut()),
                            black_box(a),
                            black_box(b),
                            Epilogue::default(),
                        )
                    });
                    let flops = 2.0 * (m * k * n) as f64 / ns;
                    let bytes = 4.0 * (k * n) as f64 / ns;
                    println!("{level:9} {name} {m}x{k}x{n:5} {:8}{} {:10.3} us {flops:7.1} GFLOP/s {bytes:6.1} GB/s of the weight",
                        format!("{by:?}"), if by == chosen { "*" } else { " " }, ns / 1000.0);
                }
            }
        }
    }
}
