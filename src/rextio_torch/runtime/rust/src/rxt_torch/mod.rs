//! Tensors of generated code: the boundary to Python, the operations and the function scope.

pub mod boundary;
mod dispatch_keys;
mod dlpack;
mod identity;
mod libtorch;
mod modes;
mod observed;
pub mod ops;
mod release;
mod scope;
mod settings;
mod tensor;
mod tensor_impl;
mod threads;

pub use boundary::{Output, TensorType};
pub use scope::{FunctionScope, Scope};
pub use tch::Kind;
pub use tensor::Tensor;
