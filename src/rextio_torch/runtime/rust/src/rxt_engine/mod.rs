//! The fused engine: a lazy graph of tensors, evaluated region by region.
//!
//! Needs neither libtorch nor Python. An operation checks shapes and makes a [`node::Node`]; the
//! work happens when a value must exist ([`evaluate::Engine::value`]). What only libtorch does well (large
//! matrix products) comes in through [`evaluate::Products`].

pub mod buffer;
mod counted;
pub mod evaluate;
pub mod node;
pub mod parallel;
mod region;
mod work;
