//! What the kernels are written in: a vector of f32 lanes, and the choice, once
//! per process, of the instruction set behind it.
//!
//! A kernel is a type that implements [`Kernel`]: its body is generic over
//! [`Simd`] and `#[inline(always)]`, and [`Isa::run`] compiles it once for each
//! instruction set under `#[target_feature]`. An [`Isa`] can only be made after
//! the processor was asked, and the tokens that implement [`Simd`] only inside
//! the function that carries the features, so safe code cannot execute an
//! instruction the machine does not have.

use std::sync::atomic::{AtomicU8, Ordering};

#[cfg(target_arch = "x86_64")]
use super::simd_avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::simd_avx512::Avx512;
use super::simd_portable::Portable;

/// 1.5 * 2^23: adding it to a small float rounds that float to an integer, and
/// leaves the integer in the low bits of the sum. Float-to-int casts saturate
/// in Rust and cost more than everything else in `exp`.
pub const ROUND: f32 = 12_582_912.0;

/// A name for an instruction set; no proof that the machine has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Avx512,
    Avx2,
    Portable,
}

impl Level {
    /// Best first.
    pub const ALL: [Level; 3] = [Level::Avx512, Level::Avx2, Level::Portable];

    pub fn name(self) -> &'static str {
        match self {
            Level::Avx512 => "avx512",
            Level::Avx2 => "avx2",
            Level::Portable => "portable",
        }
    }

    pub fn parse(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }

    fn supported(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && Level::Avx2.supported()
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(not(target_arch = "x86_64"))]
            Level::Avx512 | Level::Avx2 => false,
            Level::Portable => true,
        }
    }
}

/// An instruction set that this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(Level);

/// 0: not chosen yet; otherwise 1 + index into [`Level::ALL`].
static ACTIVE: AtomicU8 = AtomicU8::new(0);

impl Isa {
    /// The instruction set of that name, if the machine has it.
    pub fn at(level: Level) -> Option<Isa> {
        level.supported().then_some(Isa(level))
    }

    /// All that this machine has, best first.
    pub fn available() -> impl Iterator<Item = Isa> {
        Level::ALL.into_iter().filter_map(Isa::at)
    }

    /// The one every caller uses: the best, unless [`Isa::choose`] said otherwise.
    #[inline]
    pub fn active() -> Isa {
        match ACTIVE.load(Ordering::Relaxed) {
            1 => Isa(Level::Avx512),
            2 => Isa(Level::Avx2),
            3 => Isa(Level::Portable),
            _ => Isa::detect(),
        }
    }

    /// Makes `level` the active one (tests, an environment variable). Only a
    /// level that [`Isa::at`] vouches for is ever stored, which is what
    /// [`Isa::active`] relies on.
    pub fn choose(level: Level) -> Option<Isa> {
        let isa = Isa::at(level)?;
        ACTIVE.store(isa.0 as u8 + 1, Ordering::Relaxed);
        Some(isa)
    }

    #[cold]
    fn detect() -> Isa {
        // `Portable` is always supported, so the default is never taken. A race
        // here is harmless: every thread finds the same answer.
        let isa = Isa::available().next().unwrap_or(Isa(Level::Portable));
        ACTIVE.store(isa.0 as u8 + 1, Ordering::Relaxed);
        isa
    }

    pub fn level(self) -> Level {
        self.0
    }

    /// Runs the copy of the kernel that was compiled for this instruction set.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Out {
        match self.0 {
            // SAFETY: an `Isa` of this level exists only if the machine has
            // the features `Level::supported` lists, which are those of the callee.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { run_avx512(kernel) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { run_avx2(kernel) },
            _ => run_portable(kernel),
        }
    }
}

/// A computation to be compiled once per instruction set. `run` must be
/// `#[inline(always)]`, and so must everything generic over [`Simd`] that it
/// calls: what is not inlined is compiled without the features.
pub trait Kernel {
    type Out;
    fn run<S: Simd>(self, s: S) -> Self::Out;
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx2,fma")]
unsafe fn run_avx512<K: Kernel>(kernel: K) -> K::Out {
    // SAFETY: this function's own features are the ones the token stands for.
    kernel.run(unsafe { Avx512::new() })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn run_avx2<K: Kernel>(kernel: K) -> K::Out {
    // SAFETY: this function's own features are the ones the token stands for.
    kernel.run(unsafe { Avx2::new() })
}

#[inline(never)]
fn run_portable<K: Kernel>(kernel: K) -> K::Out {
    kernel.run(Portable)
}

/// A vector of f32 lanes. `self` is a zero-sized token that proves the features.
///
/// All arithmetic is IEEE, round to nearest, denormals kept.
pub trait Simd: Copy {
    const LANES: usize;
    /// Whether [`Simd::mul_add`] rounds once. Where it does not, formulas that
    /// need the exact product take another form.
    const FMA: bool;

    /// f32 lanes.
    type V: Copy;
    /// One truth value per lane.
    type M: Copy;
    /// The same number of f64 lanes.
    type D: Copy;

    fn splat(self, x: f32) -> Self::V;
    /// # Safety
    /// `p` is valid for reading `LANES` elements.
    unsafe fn load(self, p: *const f32) -> Self::V;
    /// # Safety
    /// `p` is valid for writing `LANES` elements.
    unsafe fn store(self, p: *mut f32, v: Self::V);
    /// The first `n < LANES` elements, then zeros.
    /// # Safety
    /// `p` is valid for reading `n` elements.
    unsafe fn load_head(self, p: *const f32, n: usize) -> Self::V;
    /// Stores the first `n < LANES` lanes.
    /// # Safety
    /// `p` is valid for writing `n` elements.
    unsafe fn store_head(self, p: *mut f32, v: Self::V, n: usize);
    /// A whole vector, or what is left of it where `left < LANES`.
    /// # Safety
    /// `p` is valid for reading `min(left, LANES)` elements.
    #[inline(always)]
    unsafe fn load_some(self, p: *const f32, left: usize) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe {
            if left >= Self::LANES {
                self.load(p)
            } else {
                self.load_head(p, left)
            }
        }
    }
    /// # Safety
    /// `p` is valid for writing `min(left, LANES)` elements.
    #[inline(always)]
    unsafe fn store_some(self, p: *mut f32, v: Self::V, left: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if left >= Self::LANES {
                self.store(p, v)
            } else {
                self.store_head(p, v, left)
            }
        }
    }

    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    fn sqrt(self, a: Self::V) -> Self::V;
    /// Four square roots, the same bits as one by one.
    #[inline(always)]
    fn sqrt4(self, a: [Self::V; 4]) -> [Self::V; 4] {
        [self.sqrt(a[0]), self.sqrt(a[1]), self.sqrt(a[2]), self.sqrt(a[3])]
    }
    /// 1 / a to 14 bits or better, for normal a and 1 / a.
    fn reciprocal(self, a: Self::V) -> Self::V;
    /// `a * b + c`, rounded once where `FMA`.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a * b - c`, rounded once where `FMA`.
    fn mul_sub(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `c - a * b`, rounded once where `FMA`.
    fn neg_mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The larger; `b` where either is NaN or both are zero.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// The smaller; `b` where either is NaN or both are zero.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    fn abs(self, a: Self::V) -> Self::V;
    fn neg(self, a: Self::V) -> Self::V;
    fn copysign(self, magnitude: Self::V, sign: Self::V) -> Self::V;

    /// False where unordered.
    fn lt(self, a: Self::V, b: Self::V) -> Self::M;
    /// False where unordered.
    fn eq(self, a: Self::V, b: Self::V) -> Self::M;
    /// Not (a <= b): true where unordered.
    fn not_le(self, a: Self::V, b: Self::V) -> Self::M;
    /// Whether either is NaN.
    fn unordered(self, a: Self::V, b: Self::V) -> Self::M;
    fn and(self, a: Self::M, b: Self::M) -> Self::M;
    fn or(self, a: Self::M, b: Self::M) -> Self::M;
    fn any(self, m: Self::M) -> bool;
    /// Bit `i` is lane `i`.
    fn bits(self, m: Self::M) -> u32;
    /// `a` where `m`, else `b`; moves bits, does no arithmetic.
    fn select(self, m: Self::M, a: Self::V, b: Self::V) -> Self::V;

    /// `y * 2^n` with one rounding, for an integer -152 <= n <= 129 and y whose
    /// product with 2^(n/2) is normal (any y if n is 0); `t` is `n + ROUND`.
    fn ldexp(self, y: Self::V, n: Self::V, t: Self::V) -> Self::V;
    /// The same for y and y * 2^n both normal: exact.
    fn ldexp_normal(self, y: Self::V, n: Self::V, t: Self::V) -> Self::V;
    /// `x = m * 2^e` with 0.75 <= m < 1.5, for positive finite x, denormals
    /// included. What comes for other x is mended by [`Simd::log_edges`].
    fn log_split(self, x: Self::V) -> (Self::V, Self::V);
    /// `y`, a logarithm computed from [`Simd::log_split`], with the values for
    /// zeros, negative numbers, infinity and NaN put in.
    fn log_edges(self, x: Self::V, y: Self::V) -> Self::V;

    /// Sum of the lanes, pairwise.
    fn lane_sum(self, v: Self::V) -> f32;
    /// Largest lane. Which one, where there are NaNs, is not said.
    fn lane_max(self, v: Self::V) -> f32;
    /// The lane sums of eight vectors, each pairwise.
    fn lane_sums(self, v: [Self::V; 8]) -> [f32; 8];

    /// Eight elements from each of eight places, transposed: element `c` of place
    /// `r` goes to `to + c * step + r`.
    /// # Safety
    /// Each place is valid for reading eight elements, `to` for writing eight
    /// lines of eight, `step` apart.
    #[inline(always)]
    unsafe fn transpose8(self, from: &[*const f32; 8], to: *mut f32, step: usize) {
        for c in 0..8 {
            for (r, from) in from.iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe { *to.add(c * step + r) = *from.add(c) };
            }
        }
    }

    fn d_zero(self) -> Self::D;
    /// `acc + v` in f64.
    fn d_add(self, acc: Self::D, v: Self::V) -> Self::D;
    /// `d_add` of what lies at `p`: converting from memory is cheaper than
    /// converting a loaded vector.
    /// # Safety
    /// `p` is valid for reading `LANES` elements.
    unsafe fn d_add_at(self, acc: Self::D, p: *const f32) -> Self::D;
    fn d_merge(self, a: Self::D, b: Self::D) -> Self::D;
    fn d_sum(self, acc: Self::D) -> f64;
    /// # Safety
    /// `p` is valid for reading `LANES` elements.
    unsafe fn d_load(self, p: *const f64) -> Self::D;
    /// # Safety
    /// `p` is valid for writing `LANES` elements.
    unsafe fn d_store(self, p: *mut f64, acc: Self::D);
}
