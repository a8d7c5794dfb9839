//! The tensor of generated code.

use std::rc::Rc;

/// A tensor in a native function: a borrowed input or the result of an operation.
///
/// Cloning shares the tensor, as a second Python name for it does.
#[derive(Clone, Debug)]
pub struct Tensor(Rc<tch::Tensor>);

impl Tensor {
    pub fn from_libtorch(tensor: tch::Tensor) -> Self {
        Self(Rc::new(tensor))
    }

    pub fn libtorch(&self) -> &tch::Tensor {
        &self.0
    }

    pub fn sizes(&self) -> Vec<i64> {
        self.0.size()
    }
}
