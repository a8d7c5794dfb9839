//! The tensor of generated code, on either engine.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;

use super::super::rxt_core::error::{Error, Result};
use super::super::rxt_core::shape::Shape;
use super::super::rxt_engine::evaluate::Engine;
use super::super::rxt_engine::node::{Node, NodeData, Operation, View, MAX_PENDING};
use super::super::rxt_kernels::simd::Isa;
use super::boundary;
use super::libtorch::LargeProducts;
use super::observed::observer;
use super::scope::Scope;
use super::threads::threads;

/// A tensor in a native function: a borrowed input or the result of an operation.
///
/// Cloning shares the tensor, as a second Python name for it does.
#[derive(Clone)]
pub enum Tensor {
    /// Of the fused engine: computed when its value must exist.
    Lazy(Node),
    /// Of the libtorch engine.
    Libtorch(Rc<tch::Tensor>),
}

impl Tensor {
    /// An operation of the fused engine. Without a function scope nothing is deferred, since
    /// Python code may run between two operations; and a long loop is computed as it goes.
    pub fn lazy(scope: Scope, shape: Shape, operation: Operation) -> Result<Self> {
        if !shape.is_addressable() {
            return Err(Error::runtime(format!(
                "not enough memory for a result of shape {shape:?}"
            )));
        }
        if scope == Scope::Operation {
            for input in operation.inputs().into_iter().flatten() {
                boundary::check_lent(input)?;
            }
        }
        let node = NodeData::pending(shape, operation);
        if scope == Scope::Operation || node.pending_count() > MAX_PENDING {
            compute(&node, false)?;
        }
        Ok(Self::Lazy(node))
    }

    pub fn shape(&self) -> Shape {
        match self {
            Self::Lazy(node) => *node.shape(),
            Self::Libtorch(tensor) => {
                let sizes: Vec<usize> = tensor.size().iter().map(|&size| size as usize).collect();
                Shape::new(&sizes)
            }
        }
    }
}

/// Work in nanoseconds from which on other Python threads may run meanwhile.
const RELEASE_GIL_NANOSECONDS: f64 = 20_000.0;

/// Compute a node; with the GIL released if that takes long enough to be worth it. `last` where no
/// operation follows.
pub fn compute(node: &Node, last: bool) -> Result<View> {
    if let Some(view) = node.view() {
        return Ok(view);
    }
    let engine = Engine {
        isa: Isa::active(),
        threads: threads(),
        products: &LargeProducts,
        last,
        observer: observer(),
    };
    let _released = (engine.work(node) > RELEASE_GIL_NANOSECONDS).then(ReleasedGil::new);
    // A broken promise inside the engine must not unwind into Python.
    catch_unwind(AssertUnwindSafe(|| engine.value(node))).unwrap_or_else(|_| {
        Err(Error::runtime(
            "the native computation panicked; please report this as a bug of rextio-torch".into(),
        ))
    })
}

/// The GIL is not held while this lives. Nothing of Python is touched in that time.
struct ReleasedGil(*mut pyo3::ffi::PyThreadState);

impl ReleasedGil {
    fn new() -> Self {
        // SAFETY: native functions are called with the GIL held, on a thread that has a state.
        Self(unsafe { pyo3::ffi::PyEval_SaveThread() })
    }
}

impl Drop for ReleasedGil {
    fn drop(&mut self) {
        // SAFETY: the state is the one that `new` saved on this thread.
        unsafe { pyo3::ffi::PyEval_RestoreThread(self.0) }
    }
}
