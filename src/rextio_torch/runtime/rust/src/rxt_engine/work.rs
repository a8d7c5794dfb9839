//! Estimated nanoseconds on one thread: whether work is worth other threads, or letting go of the
//! GIL.

use super::super::rxt_core::shape::Shape;
use super::node::{Node, Operation};

// For one element. A unary operation has its own number: `Unary::nanoseconds`.
pub const READ: f64 = 0.2;
pub const BINARY: f64 = 0.1;
pub const REDUCE: f64 = 0.2;
pub const ARGMAX: f64 = 0.3;
pub const COPY: f64 = 0.5;
pub const SOFTMAX_MAX: f64 = 0.2;
pub const SOFTMAX_EXP: f64 = 0.5;
pub const SOFTMAX_OVER: f64 = 0.3;
pub const SOFTMAX: f64 = SOFTMAX_MAX + SOFTMAX_EXP + SOFTMAX_OVER;

/// Of a product: arithmetic, or reading the operands.
pub fn product(m: usize, k: usize, n: usize) -> f64 {
    let (m, k, n) = (m as f64, k as f64, n as f64);
    (m * k * n / 25.0).max((k * n + m * k) * 0.1)
}

/// Of an operation alone, without what its inputs wait for.
pub fn own(operation: &Operation, shape: &Shape) -> f64 {
    let elements = |node: &Node| node.shape().elements() as f64;
    match operation {
        Operation::Unary(op, input) => (READ + op.nanoseconds()) * elements(input),
        Operation::Binary(..) => (READ + BINARY) * shape.elements() as f64,
        Operation::Product(operands) => {
            let k = operands.left.shape()[operands.left.shape().len() - 1];
            let m = operands.left.shape().elements() / k.max(1);
            product(m, k, operands.right.shape().elements() / k.max(1))
        }
        Operation::Reduce { input, .. } => REDUCE * elements(input),
        Operation::Softmax { input, .. } => SOFTMAX * elements(input),
        Operation::Argmax { input, .. } => ARGMAX * elements(input),
    }
}
