//! Runtime of rextio-torch.
//!
//! Each directory module is a group that travels as text into generated crates, where it is a
//! module of the crate root under the same name. Nothing in a group may use a `crate::` path.

pub mod rxt_core;
pub mod rxt_kernels;

pub mod rxt_engine;

#[cfg(feature = "libtorch")]
pub mod rxt_torch;
