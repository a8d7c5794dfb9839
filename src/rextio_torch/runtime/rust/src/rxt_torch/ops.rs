//! The operations that generated code calls, one function for each row of the operator table.
//!
//! Each checks shapes first, so that an error comes from the operation that causes it and with
//! eager's exception class.

use std::rc::Rc;

use super::super::rxt_core::error::{Error, Result};
use super::super::rxt_core::shape::{self, Shape};
use super::super::rxt_engine::node::{Node, Operation, Product};
use super::super::rxt_kernels::elementwise::{Binary, Unary};
use super::super::rxt_kernels::reduce::Reduce;
use super::libtorch::run;
use super::scope::Scope;
use super::tensor::Tensor;

type Called = std::result::Result<tch::Tensor, tch::TchError>;

fn eager(scope: Scope, op: &str, call: impl FnOnce() -> Called) -> Result<Tensor> {
    run(scope, op, call).map(|tensor| Tensor::Libtorch(Rc::new(tensor)))
}

/// Two operands of one engine: a function's arguments all come in for the same one.
enum Pair<'a> {
    Lazy(&'a Node, &'a Node),
    Libtorch(&'a tch::Tensor, &'a tch::Tensor),
}

fn pair<'a>(op: &str, left: &'a Tensor, right: &'a Tensor) -> Result<Pair<'a>> {
    match (left, right) {
        (Tensor::Lazy(left), Tensor::Lazy(right)) => Ok(Pair::Lazy(left, right)),
        (Tensor::Libtorch(left), Tensor::Libtorch(right)) => Ok(Pair::Libtorch(left, right)),
        _ => Err(Error::runtime(format!("{op}: the engine was switched during the call"))),
    }
}

fn unary(
    scope: Scope,
    op: &str,
    fused: Unary,
    input: &Tensor,
    libtorch: impl FnOnce(&tch::Tensor) -> Called,
) -> Result<Tensor> {
    match input {
        Tensor::Lazy(node) => {
            Tensor::lazy(scope, *node.shape(), Operation::Unary(fused, node.clone()))
        }
        Tensor::Libtorch(tensor) => eager(scope, op, || libtorch(tensor)),
    }
}

macro_rules! unary {
    ($($name:ident => $fused:ident, $call:ident($($argument:expr),*);)*) => {$(
        pub fn $name(scope: Scope, input: &Tensor) -> Result<Tensor> {
            unary(scope, stringify!($name), Unary::$fused, input, |x| x.$call($($argument),*))
        }
    )*};
}

unary! {
    relu => Relu, f_relu();
    sigmoid => Sigmoid, f_sigmoid();
    tanh => Tanh, f_tanh();
    abs => Abs, f_abs();
    neg => Neg, f_neg();
    square => Square, f_square();
    exp => Exp, f_exp();
    log => Log, f_log();
    sqrt => Sqrt, f_sqrt();
    gelu => Gelu, f_gelu("none");
}

fn binary(
    scope: Scope,
    op: &str,
    fused: Binary,
    rule: fn(&str, &Shape, &Shape) -> Result<Shape>,
    (input, other): (&Tensor, &Tensor),
    libtorch: impl FnOnce(&tch::Tensor, &tch::Tensor) -> Called,
) -> Result<Tensor> {
    let shape = rule(op, &input.shape(), &other.shape())?;
    match pair(op, input, other)? {
        Pair::Lazy(left, right) => {
            Tensor::lazy(scope, shape, Operation::Binary(fused, left.clone(), right.clone()))
        }
        Pair::Libtorch(left, right) => eager(scope, op, || libtorch(left, right)),
    }
}

macro_rules! arithmetic {
    ($($name:ident => $fused:ident, $call:ident, $rule:ident;)*) => {$(
        pub fn $name(scope: Scope, input: &Tensor, other: &Tensor) -> Result<Tensor> {
            let (op, operands) = (stringify!($name), (input, other));
            binary(scope, op, Binary::$fused, shape::$rule, operands, |a, b| a.$call(b))
        }
    )*};
}

// An in-place operation gives a new tensor too: nothing else has the one whose place it takes.
arithmetic! {
    add => Add, f_add, broadcast;
    sub => Sub, f_sub, broadcast;
    mul => Mul, f_mul, broadcast;
    div => Div, f_div, broadcast;
    add_ => Add, f_add, broadcast_in_place;
    sub_ => Sub, f_sub, broadcast_in_place;
    mul_ => Mul, f_mul, broadcast_in_place;
    div_ => Div, f_div, broadcast_in_place;
}

pub fn linear(
    scope: Scope,
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let op = "linear";
    let bias_shape = bias.map(Tensor::shape);
    let shape = shape::linear(op, &input.shape(), &weight.shape(), bias_shape.as_ref())?;
    // Without a bias the weight stands in for it, so that both cases read the same.
    match (pair(op, input, weight)?, pair(op, input, bias.unwrap_or(weight))?) {
        (Pair::Lazy(left, right), Pair::Lazy(_, bias_node)) => {
            let product = Product {
                left: left.clone(),
                right: right.clone(),
                right_transposed: true,
                right_is_column: false,
                bias: bias.is_some().then(|| bias_node.clone()),
            };
            Tensor::lazy(scope, shape, Operation::Product(product))
        }
        (Pair::Libtorch(input, weight), Pair::Libtorch(_, bias_tensor)) => {
            eager(scope, op, || input.f_linear(weight, bias.map(|_| bias_tensor)))
        }
        _ => Err(Error::runtime(format!("{op}: the engine was switched during the call"))),
    }
}

pub fn matmul(scope: Scope, input: &Tensor, other: &Tensor) -> Result<Tensor> {
    let op = "matmul";
    let shape = shape::matmul(op, &input.shape(), &other.shape())?;
    match pair(op, input, other)? {
        Pair::Lazy(left, right) => {
            let product = Product {
                left: left.clone(),
                right: right.clone(),
                right_transposed: false,
                right_is_column: right.shape().len() == 1,
                bias: None,
            };
            Tensor::lazy(scope, shape, Operation::Product(product))
        }
        Pair::Libtorch(left, right) => eager(scope, op, || left.f_matmul(right)),
    }
}

fn along(
    scope: Scope,
    op: &str,
    input: &Tensor,
    shape: Shape,
    fused: impl FnOnce(Node) -> Operation,
    libtorch: impl FnOnce(&tch::Tensor) -> Called,
) -> Result<Tensor> {
    match input {
        Tensor::Lazy(node) => Tensor::lazy(scope, shape, fused(node.clone())),
        Tensor::Libtorch(tensor) => eager(scope, op, || libtorch(tensor)),
    }
}

pub fn mean(scope: Scope, input: &Tensor, dim: usize, keepdim: bool) -> Result<Tensor> {
    let shape = shape::reduce(&input.shape(), dim, keepdim);
    let fused = |input| Operation::Reduce { op: Reduce::Mean, dim, input };
    let dims = [dim as i64];
    along(scope, "mean", input, shape, fused, |x| x.f_mean_dim(&dims[..], keepdim, None))
}

pub fn sum(scope: Scope, input: &Tensor, dim: usize, keepdim: bool) -> Result<Tensor> {
    let shape = shape::reduce(&input.shape(), dim, keepdim);
    let fused = |input| Operation::Reduce { op: Reduce::Sum, dim, input };
    let dims = [dim as i64];
    along(scope, "sum", input, shape, fused, |x| x.f_sum_dim_intlist(&dims[..], keepdim, None))
}

pub fn softmax(scope: Scope, input: &Tensor, dim: usize) -> Result<Tensor> {
    let fused = |input| Operation::Softmax { dim, input };
    along(scope, "softmax", input, input.shape(), fused, |x| x.f_softmax(dim as i64, None))
}

pub fn argmax(scope: Scope, input: &Tensor, dim: usize, keepdim: bool) -> Result<Tensor> {
    let op = "argmax";
    let shape = shape::reduce_nonempty(op, &input.shape(), dim, keepdim)?;
    let fused = |input| Operation::Argmax { dim, input };
    along(scope, op, input, shape, fused, |x| x.f_argmax(dim as i64, keepdim))
}
