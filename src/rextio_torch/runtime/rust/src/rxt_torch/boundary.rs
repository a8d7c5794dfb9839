//! The boundary to Python: which objects come in, how results go out, how errors are raised.

use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

use super::super::rxt_core::error::{Class, Error};
use super::tensor::Tensor;

/// What an annotation promises: dtype and rank of a strided CPU tensor.
#[derive(Clone, Copy, Debug)]
pub struct TensorType {
    marker: &'static str,
    kind: tch::Kind,
    rank: usize,
}

impl TensorType {
    pub const fn new(marker: &'static str, kind: tch::Kind, rank: usize) -> Self {
        Self { marker, kind, rank }
    }
}

impl std::fmt::Display for TensorType {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dtype = dtype_name(self.kind);
        write!(formatter, "a CPU tensor of dtype {dtype} and rank {} ({})", self.rank, self.marker)
    }
}

fn dtype_name(kind: tch::Kind) -> &'static str {
    match kind {
        tch::Kind::Float => "float32",
        tch::Kind::Int64 => "int64",
        _ => "other",
    }
}

/// The Python objects that the boundary needs, looked up once.
struct Torch {
    tensor: Py<PyType>,
    parameter: Py<PyType>,
    dispatch_keys: Py<PyAny>,
    /// Globals of `torch.autograd.forward_ad`, where the current level of forward AD stands.
    forward_ad: Py<PyDict>,
}

impl Torch {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static TORCH: PyOnceLock<Torch> = PyOnceLock::new();
        TORCH.get_or_try_init(py, || {
            let torch = py.import("torch")?;
            Ok(Self {
                tensor: torch.getattr("Tensor")?.cast_into::<PyType>()?.unbind(),
                parameter: torch.getattr("nn")?.getattr("Parameter")?.cast_into()?.unbind(),
                dispatch_keys: torch.getattr("_C")?.getattr("_dispatch_keys")?.unbind(),
                forward_ad: py.import("torch.autograd.forward_ad")?.dict().unbind(),
            })
        })
    }
}

impl Torch {
    /// Whether any tensor can be dual: outside a level of forward AD none carries a tangent.
    fn forward_ad_is_active(&self, py: Python<'_>) -> PyResult<bool> {
        let level = self.forward_ad.bind(py).get_item(pyo3::intern!(py, "_current_level"))?;
        level.map_or(Ok(true), |level| Ok(level.extract::<i64>()? >= 0))
    }
}

/// Dispatch keys of an ordinary strided CPU tensor: the backend CPU and the functionality Dense.
const DENSE_CPU: u64 = 0x1_0001;
/// Keys that an accepted tensor may have besides: Negative, ZeroTensor, ADInplaceOrView, the CPU's
/// autograd and autocast. What is not listed is refused: sparse, mkldnn, meta, quantised, nested
/// and named tensors, other devices, functorch wrappers, functionalised tensors, tensors that
/// dispatch to Python.
const ACCEPTED: u64 = DENSE_CPU | 0x012e_0000_0000;

/// Borrow a Python argument as a tensor of the annotated type, without copying its storage.
///
/// Errors: `TypeError` for anything but a `torch.Tensor` or `torch.nn.Parameter` (subclasses
/// change what operations mean), `ValueError` for another device, dtype, rank or layout and for
/// tensors that stand for a computation in progress (fake, functorch, forward AD).
pub fn input(value: &Bound<'_, PyAny>, name: &str, expected: TensorType) -> PyResult<Tensor> {
    // A parameter named like a Rust keyword arrives as a raw identifier.
    let name = name.strip_prefix("r#").unwrap_or(name);
    let py = value.py();
    let torch = Torch::get(py)?;
    let class = value.get_type();
    if !class.is(&torch.tensor) && !class.is(&torch.parameter) {
        return Err(wrong_class(value, &torch.tensor, name, expected));
    }
    let keys = torch
        .dispatch_keys
        .bind(py)
        .call1((value,))?
        .call_method0(pyo3::intern!(py, "raw_repr"))?
        .extract::<u64>()?;
    if keys & DENSE_CPU != DENSE_CPU || keys & !ACCEPTED != 0 {
        return Err(wrong_tensor(value, name, expected));
    }
    // SAFETY: `value` is a live Python object for the whole call.
    let tensor = unsafe { tch::Tensor::pyobject_unpack(value.as_ptr().cast()) }
        .map_err(|error| unreadable(name, &error))?
        .ok_or_else(|| wrong_tensor(value, name, expected))?;
    if tensor.f_kind().ok() != Some(expected.kind) || tensor.dim() != expected.rank {
        return Err(wrong_tensor(value, name, expected));
    }
    if torch.forward_ad_is_active(py)? {
        refuse_tangent(&tensor, name)?;
    }
    Ok(Tensor::from_libtorch(tensor))
}

/// Refuse a dual tensor: its tangent would be lost.
#[cold]
fn refuse_tangent(tensor: &tch::Tensor, name: &str) -> PyResult<()> {
    let (_, tangent) =
        tch::Tensor::f_internal_unpack_dual(tensor, 0).map_err(|error| unreadable(name, &error))?;
    if !tangent.defined() {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "parameter '{name}' carries a forward-mode AD tangent, which a native function would lose; \
         pass torch.autograd.forward_ad.unpack_dual(...).primal or call the Python function"
    )))
}

fn unreadable(name: &str, error: &tch::TchError) -> PyErr {
    let error = Error::libtorch(&format!("parameter '{name}'"), &error.to_string());
    PyValueError::new_err(error.message)
}

#[cold]
fn wrong_class(
    value: &Bound<'_, PyAny>,
    tensor: &Py<PyType>,
    name: &str,
    expected: TensorType,
) -> PyErr {
    let class = value.get_type();
    let got = class.fully_qualified_name().map_or_else(|_| "?".into(), |name| name.to_string());
    if value.is_instance(tensor.bind(value.py())).unwrap_or(false) {
        return PyTypeError::new_err(format!(
            "parameter '{name}' is the tensor subclass {got}, which may override operations; \
             expected {expected}: pass a plain torch.Tensor (for example x.as_subclass(\
             torch.Tensor)) or call the Python function"
        ));
    }
    PyTypeError::new_err(format!("parameter '{name}' must be {expected}, got {got}"))
}

/// Describe a tensor that is not what was promised, and how to get one that is.
#[cold]
fn wrong_tensor(value: &Bound<'_, PyAny>, name: &str, expected: TensorType) -> PyErr {
    let text = |attribute: &str| {
        value
            .getattr(attribute)
            .and_then(|found| found.str())
            .map_or_else(|_| "?".to_owned(), |found| found.to_string())
    };
    let (dtype, device, layout) = (text("dtype"), text("device"), text("layout"));
    let rank = value.call_method0("dim").and_then(|rank| rank.extract::<usize>()).ok();
    let expected_dtype = dtype_name(expected.kind);
    let (got, advice) = if device != "cpu" {
        (format!("a tensor on {device}"), "move it with .cpu()".to_owned())
    } else if layout != "torch.strided" {
        (format!("layout {layout}"), "convert it with .to_dense()".to_owned())
    } else if dtype != format!("torch.{expected_dtype}") {
        (dtype, format!("convert it with .to(torch.{expected_dtype})"))
    } else if rank.is_some_and(|rank| rank != expected.rank) {
        let rank = rank.unwrap_or_default();
        (format!("rank {rank}"), "reshape it".to_owned())
    } else {
        (
            "a tensor inside a function transform, functionalization or another dispatch mode"
                .to_owned(),
            "call the Python function there".to_owned(),
        )
    };
    PyValueError::new_err(format!("parameter '{name}' must be {expected}, got {got}; {advice}"))
}

/// The result of a native function; the default is `None`, which Python returns from a function
/// that ends without `return`.
#[derive(Default)]
pub struct Output<'py>(Option<Bound<'py, PyAny>>);

impl<'py> IntoPyObject<'py> for Output<'py> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = std::convert::Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        Ok(self.0.unwrap_or_else(|| py.None().into_bound(py)))
    }
}

/// Hand a result to Python as a `torch.Tensor`.
pub fn output(py: Python<'_>, tensor: Tensor) -> PyResult<Output<'_>> {
    let object = tensor
        .libtorch()
        .pyobject_wrap()
        .map_err(|error| PyErr::from(Error::libtorch("result", &error.to_string())))?;
    // SAFETY: `pyobject_wrap` returns a new reference to a live tensor object.
    let object = unsafe { Bound::from_owned_ptr(py, object.cast()) };
    Ok(Output(Some(object)))
}

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        match error.class {
            Class::Runtime => PyRuntimeError::new_err(error.message),
            Class::Index => PyIndexError::new_err(error.message),
        }
    }
}
