//! Largest error of every unary kernel, in every instruction set this machine
//! has, over all 2^32 inputs (or every `step`-th):
//!
//!     cargo run --release --example accuracy -- [--step N] [--threads N] [--only exp,log]
//!
//! Prints one JSON object per operation and instruction set.

#[path = "../tests/common/reference.rs"]
mod reference;

use reference::{bound, distance, reference};
use rextio_torch_runtime::rxt_kernels::elementwise::{unary, Unary};
use rextio_torch_runtime::rxt_kernels::simd::Isa;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy)]
struct Worst {
    ulp: f64,
    at: u32,
    got: f32,
    absolute: f64,
    absolute_at: u32,
    misrounded: u64,
}

const START: Worst =
    Worst { ulp: -1.0, at: 0, got: 0.0, absolute: -1.0, absolute_at: 0, misrounded: 0 };

impl Worst {
    fn see(&mut self, bits: u32, got: f32, want: f64) {
        if got.to_bits() != (want as f32).to_bits() && !(got.is_nan() && want.is_nan()) {
            self.misrounded += 1;
        }
        let d = distance(got, want);
        if d > self.ulp {
            (self.ulp, self.at, self.got) = (d, bits, got);
        }
        let a = (f64::from(got) - want).abs();
        // Only where the result is not the input's size (gelu's statement).
        if a > self.absolute && want.abs() <= 1.0 {
            (self.absolute, self.absolute_at) = (a, bits);
        }
    }
    fn join(&mut self, other: &Worst) {
        self.misrounded += other.misrounded;
        if other.ulp > self.ulp {
            (self.ulp, self.at, self.got) = (other.ulp, other.at, other.got);
        }
        if other.absolute > self.absolute {
            (self.absolute, self.absolute_at) = (other.absolute, other.absolute_at);
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let option =
        |name: &str| args.iter().position(|a| a == name).and_then(|i| args.get(i + 1)).cloned();
    let step: u64 = option("--step").map_or(1, |s| s.parse().unwrap());
    let threads: usize = option("--threads").map_or(2, |s| s.parse().unwrap());
    let only = option("--only");
    let isas: Vec<Isa> = Isa::available().collect();
    let mut failed = false;
    for op in Unary::ALL {
        if only.as_ref().is_some_and(|o| !o.split(',').any(|n| n == op.name())) {
            continue;
        }
        const BLOCK: u64 = 1 << 14;
        let total = (1u64 << 32).div_ceil(step);
        let next = AtomicU64::new(0);
        let work = || {
            let mut worst = vec![START; isas.len()];
            let mut x = vec![0f32; BLOCK as usize];
            let mut want = vec![0f64; BLOCK as usize];
            let mut got = vec![0f32; BLOCK as usize];
            loop {
                let first = next.fetch_add(BLOCK, Ordering::Relaxed);
                if first >= total {
                    return worst;
                }
                let n = BLOCK.min(total - first) as usize;
                for i in 0..n {
                    x[i] = f32::from_bits(((first + i as u64) * step) as u32);
                    want[i] = reference(op, x[i]);
                }
                for (w, &isa) in worst.iter_mut().zip(&isas) {
                    unary(isa, op, &mut got[..n], &x[..n]);
                    for i in 0..n {
                        w.see(x[i].to_bits(), got[i], want[i]);
                    }
                }
            }
        };
        let parts: Vec<Vec<Worst>> = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            handles.into_iter().map(|h| h.join().unwrap()).collect()
        });
        for (k, isa) in isas.iter().enumerate() {
            let mut w = START;
            parts.iter().for_each(|p| w.join(&p[k]));
            let x = f32::from_bits(w.at);
            failed |= w.ulp > bound(op);
            println!(
                "{{\"op\":\"{}\",\"isa\":\"{}\",\"inputs\":{},\"max_ulp\":{:.4},\"bound\":{},\"at\":\"{:#010x}\",\"x\":\"{:e}\",\"got\":\"{:e}\",\"want\":\"{:e}\",\"max_abs_where_abs_result_le_1\":\"{:.3e}\",\"abs_at\":\"{:e}\",\"not_nearest\":{}}}",
                op.name(), isa.level().name(), total, w.ulp, bound(op), w.at, x, w.got,
                reference(op, x), w.absolute, f32::from_bits(w.absolute_at), w.misrounded
            );
        }
    }
    std::process::exit(i32::from(failed));
}
