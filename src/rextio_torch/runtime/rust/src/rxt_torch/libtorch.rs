//! What the engines leave to libtorch: whole operations, and the fused engine's large products.

use std::panic::{catch_unwind, AssertUnwindSafe};

use super::super::rxt_core::error::{Error, Result};
use super::super::rxt_engine::evaluate::Products;
use super::super::rxt_engine::node::View;
use super::super::rxt_kernels::simd::{Isa, Level};
use super::scope::{FunctionScope, Scope};
use super::threads::is_forked;

/// Run one libtorch call in its scope; whatever goes wrong inside becomes an error.
pub fn run(
    scope: Scope,
    op: &str,
    call: impl FnOnce() -> std::result::Result<tch::Tensor, tch::TchError>,
) -> Result<tch::Tensor> {
    let _scope = scope.enter();
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(tensor)) => Ok(tensor),
        Ok(Err(error)) => Err(Error::libtorch(op, &error.to_string())),
        Err(_) => Err(Error::runtime(format!(
            "{op}: the native operation panicked; please report this as a bug of rextio-torch"
        ))),
    }
}

/// Products large enough that libtorch's packing pays off.
pub struct LargeProducts;

impl Products for LargeProducts {
    /// By measurement (benchmarks): libtorch packs both operands, which pays off from some size
    /// on. Few rows times a large transposed weight are a matter of reading the weight once.
    fn takes(&self, left: &View, right: &View) -> bool {
        let (m, k, n) = (left.rows, left.columns, right.columns);
        let work = m.saturating_mul(k).saturating_mul(n);
        let weight_is_transposed = right.row_stride == 1;
        let large = match Isa::active().level() {
            Level::Portable => work > 32 * 32 * 32,
            _ if weight_is_transposed => work > 300_000 && (m > 64 || k * n <= 300_000),
            _ => work > 600_000,
        };
        m > 1 && n > 1 && large && !is_forked()
    }

    unsafe fn product(
        &self,
        out: *mut f32,
        left: View,
        right: View,
        bias: Option<View>,
    ) -> Result<()> {
        let _scope = FunctionScope::enter();
        let result = View::contiguous(out, left.rows, right.columns);
        run(Scope::Function, "matmul", || {
            let (left, right) = (tensor(left)?, tensor(right)?);
            let out = tensor(result)?;
            match bias {
                Some(bias) => tensor(bias)?.f_addmm_out(&out, &left, &right),
                None => left.f_mm_out(&out, &right),
            }
        })
        .map(drop)
    }
}

/// A view as a tensor that does not own its memory.
fn tensor(view: View) -> std::result::Result<tch::Tensor, tch::TchError> {
    let sizes = [view.rows as i64, view.columns as i64];
    let strides = [view.row_stride as i64, view.column_stride as i64];
    // SAFETY: the view is valid while its node lives, which is longer than the tensor.
    unsafe {
        tch::Tensor::f_from_blob(
            view.data.cast(),
            &sizes,
            &strides,
            tch::Kind::Float,
            tch::Device::Cpu,
        )
    }
}
