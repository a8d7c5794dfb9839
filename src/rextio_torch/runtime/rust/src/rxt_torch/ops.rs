//! The operations that generated code calls, one function for each kernel of the operator table.
//!
//! Each checks shapes first, so that an error comes from the operation that causes it and with
//! eager's exception class, and then runs in libtorch.

use std::panic::{catch_unwind, AssertUnwindSafe};

use super::super::rxt_core::error::{Error, Result};
use super::super::rxt_core::shape;
use super::scope::Scope;
use super::tensor::Tensor;

/// Run one libtorch call in its scope; whatever goes wrong inside becomes an error.
fn run(
    scope: Scope,
    op: &str,
    call: impl FnOnce() -> std::result::Result<tch::Tensor, tch::TchError>,
) -> Result<Tensor> {
    let _scope = scope.enter();
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(tensor)) => Ok(Tensor::from_libtorch(tensor)),
        Ok(Err(error)) => Err(Error::libtorch(op, &error.to_string())),
        Err(_) => Err(Error::runtime(format!(
            "{op}: the native operation panicked; please report this as a bug of rextio-torch"
        ))),
    }
}

macro_rules! unary {
    ($($name:ident => $call:ident($($argument:expr),*);)*) => {$(
        pub fn $name(scope: Scope, input: &Tensor) -> Result<Tensor> {
            run(scope, stringify!($name), || input.libtorch().$call($($argument),*))
        }
    )*};
}

unary! {
    relu => f_relu();
    sigmoid => f_sigmoid();
    tanh => f_tanh();
    abs => f_abs();
    neg => f_neg();
    square => f_square();
    exp => f_exp();
    log => f_log();
    sqrt => f_sqrt();
    gelu => f_gelu("none");
}

macro_rules! arithmetic {
    ($($name:ident => $call:ident;)*) => {$(
        pub fn $name(scope: Scope, input: &Tensor, other: &Tensor) -> Result<Tensor> {
            let op = stringify!($name);
            shape::broadcast(op, &input.sizes(), &other.sizes())?;
            run(scope, op, || input.libtorch().$call(other.libtorch()))
        }
    )*};
}

arithmetic! {
    add => f_add;
    sub => f_sub;
    mul => f_mul;
    div => f_div;
}

pub fn linear(
    scope: Scope,
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let op = "linear";
    let bias_sizes = bias.map(Tensor::sizes);
    shape::linear(op, &input.sizes(), &weight.sizes(), bias_sizes.as_deref())?;
    run(scope, op, || input.libtorch().f_linear(weight.libtorch(), bias.map(Tensor::libtorch)))
}

pub fn matmul(scope: Scope, input: &Tensor, other: &Tensor) -> Result<Tensor> {
    let op = "matmul";
    shape::matmul(op, &input.sizes(), &other.sizes())?;
    run(scope, op, || input.libtorch().f_matmul(other.libtorch()))
}

pub fn mean(scope: Scope, input: &Tensor, dim: usize, keepdim: bool) -> Result<Tensor> {
    run(scope, "mean", || input.libtorch().f_mean_dim(&[dim as i64][..], keepdim, None))
}

pub fn sum(scope: Scope, input: &Tensor, dim: usize, keepdim: bool) -> Result<Tensor> {
    run(scope, "sum", || input.libtorch().f_sum_dim_intlist(&[dim as i64][..], keepdim, None))
}

pub fn softmax(scope: Scope, input: &Tensor, dim: usize) -> Result<Tensor> {
    run(scope, "softmax", || input.libtorch().f_softmax(dim as i64, None))
}

pub fn argmax(scope: Scope, input: &Tensor, dim: usize, keepdim: bool) -> Result<Tensor> {
    let op = "argmax";
    shape::reduce_nonempty(op, &input.sizes(), dim, keepdim)?;
    run(scope, op, || input.libtorch().f_argmax(dim as i64, keepdim))
}
