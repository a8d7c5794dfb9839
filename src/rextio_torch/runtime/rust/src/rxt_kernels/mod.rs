//! Numeric kernels on plain memory: no tensor, no libtorch, no threads.
//!
//! Everything takes an [`simd::Isa`] first, normally [`simd::Isa::active`].

pub mod argmax;
pub mod elementwise;
pub mod math;
pub mod matmul;
pub mod matvec;
mod packed;
pub mod reduce;
pub mod simd;
#[cfg(target_arch = "x86_64")]
mod simd_avx2;
#[cfg(target_arch = "x86_64")]
mod simd_avx512;
mod simd_portable;
pub mod softmax;
mod sweep;
mod tiles;
pub mod view;
