//! What needs neither libtorch nor Python: errors and shape rules.

pub mod error;
pub mod shape;
