//! The boundary to Python: which objects come in, how results go out, how errors are raised.

use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

use super::super::rxt_core::error::{Class, Error};
use super::super::rxt_core::shape::Shape;
use super::super::rxt_engine::buffer::Buffer;
use super::super::rxt_engine::node::{Node, NodeData, Owner, View};
use super::dispatch_keys::{self, NEGATIVE, ZERO_TENSOR};
use super::dlpack::{ExchangeApi, FLOAT32, INT64};
use super::modes;
use super::release::require_torch;
use super::scope::FunctionScope;
use super::settings::{self, Engine};
use super::tensor::{compute, Tensor};
use super::tensor_impl::{Reader, TensorImpl};

/// What an annotation promises: dtype, device and rank of a strided tensor.
#[derive(Clone, Copy, Debug)]
pub struct TensorType {
    marker: &'static str,
    kind: tch::Kind,
    device: tch::Device,
    rank: usize,
}

impl TensorType {
    pub const fn new(marker: &'static str, kind: tch::Kind, rank: usize) -> Self {
        Self { marker, kind, device: tch::Device::Cpu, rank }
    }

    /// Of the build-only CUDA candidate.
    pub const fn on_cuda0(marker: &'static str, kind: tch::Kind, rank: usize) -> Self {
        Self { marker, kind, device: tch::Device::Cuda(0), rank }
    }

    /// The device as Python writes it.
    fn device_name(&self) -> &'static str {
        match self.device {
            tch::Device::Cuda(_) => "cuda:0",
            _ => "cpu",
        }
    }
}

impl std::fmt::Display for TensorType {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dtype = dtype_name(self.kind);
        let device = match self.device {
            tch::Device::Cpu => "CPU",
            _ => self.device_name(),
        };
        let (rank, marker) = (self.rank, self.marker);
        write!(formatter, "a {device} tensor of dtype {dtype} and rank {rank} ({marker})")
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
    /// Globals of `torch.autograd.forward_ad`, where the current level of forward AD stands.
    forward_ad: Py<PyDict>,
    /// The version of those globals at which there was no level.
    inactive_version: AtomicU64,
    reader: Reader,
    exchange: Option<&'static ExchangeApi>,
}

impl Torch {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static TORCH: PyOnceLock<Torch> = PyOnceLock::new();
        TORCH.get_or_try_init(py, || {
            let torch = py.import("torch")?;
            require_torch(&torch)?;
            let tensor = torch.getattr("Tensor")?;
            Ok(Self {
                exchange: ExchangeApi::of(&tensor),
                tensor: tensor.cast_into::<PyType>()?.unbind(),
                parameter: torch.getattr("nn")?.getattr("Parameter")?.cast_into()?.unbind(),
                forward_ad: py.import("torch.autograd.forward_ad")?.dict().unbind(),
                inactive_version: AtomicU64::new(0),
                reader: Reader::new(&torch)?,
            })
        })
    }

    /// Whether any tensor can be dual: outside a level of forward AD none carries a tangent.
    fn forward_ad_is_active(&self, py: Python<'_>) -> PyResult<bool> {
        // The module's globals change with the level only; CPython numbers each change.
        // SAFETY: `forward_ad` is a dict, whose version field every CPython 3.11 has.
        let version =
            unsafe { (*self.forward_ad.as_ptr().cast::<ffi::PyDictObject>()).ma_version_tag };
        if version == self.inactive_version.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let level = self.forward_ad.bind(py).get_item(pyo3::intern!(py, "_current_level"))?;
        let active = level.map_or(Ok(true), |level| level.extract::<i64>().map(|it| it >= 0))?;
        if !active {
            self.inactive_version.store(version, Ordering::Relaxed);
        }
        Ok(active)
    }
}

/// Borrow a Python argument as a tensor of the annotated type, without copying its storage.
///
/// Errors: `TypeError` for anything but a `torch.Tensor` or `torch.nn.Parameter` (subclasses,
/// fake tensors among them, change what operations mean), `ValueError` for another device, dtype,
/// rank or layout, for tensors that stand for a computation in progress (functorch wrappers,
/// functionalised tensors, dual tensors), for any tensor while operations are traced or go to a
/// dispatch mode, for a storage that was freed or shrunk, and for a setting that names no engine.
pub fn input(value: &Bound<'_, PyAny>, name: &str, expected: TensorType) -> PyResult<Tensor> {
    // A parameter named like a Rust keyword arrives as a raw identifier.
    let name = name.strip_prefix("r#").unwrap_or(name);
    let py = value.py();
    let torch = Torch::get(py)?;
    // SAFETY: every Python object has a type.
    let class = unsafe { ffi::Py_TYPE(value.as_ptr()) };
    if class.cast() != torch.tensor.as_ptr() && class.cast() != torch.parameter.as_ptr() {
        return Err(wrong_class(value, &torch.tensor, name, expected));
    }
    let keys = torch.reader.keys(value)?;
    if !dispatch_keys::accepted(keys, expected.device) {
        return Err(wrong_tensor(value, name, expected));
    }
    if modes::intercepted() {
        return Err(wrong_mode(name));
    }
    if torch.forward_ad_is_active(py)? {
        refuse_tangent(&unpack(value, name)?, name)?;
    }
    let engine = settings::engine().map_err(PyValueError::new_err)?;
    // What is on another device stays there, in libtorch.
    let on_cpu = expected.device == tch::Device::Cpu;
    let fused = on_cpu && engine == Engine::Fused && expected.kind == tch::Kind::Float;
    let fields = torch.reader.fields(value);
    if let (true, Some(fields), 0) = (fused, fields, keys & (NEGATIVE | ZERO_TENSOR)) {
        if !torch.reader.is_float32(fields) {
            return Err(wrong_tensor(value, name, expected));
        }
        if let Some(tensor) = borrow(fields, value, name, expected)? {
            return Ok(tensor);
        }
    }
    let tensor = check(unpack(value, name)?, value, name, expected)?;
    let size = if expected.kind == tch::Kind::Int64 { 8 } else { 4 };
    if keys & ZERO_TENSOR == 0 && fields.is_some_and(|fields| !fields.is_stored(size)) {
        return Err(no_storage(name, expected));
    }
    if fused {
        return materialise(tensor).map_err(|error| unreadable(name, &error));
    }
    Ok(Tensor::Libtorch(Rc::new(tensor)))
}

/// The memory of an ordinary tensor, in place; `None` if no kernel can read it there.
fn borrow(
    fields: &TensorImpl,
    value: &Bound<'_, PyAny>,
    name: &str,
    expected: TensorType,
) -> PyResult<Option<Tensor>> {
    let mut view = fields
        .view()
        .filter(|_| fields.rank() == expected.rank)
        .ok_or_else(|| wrong_tensor(value, name, expected))?;
    let shape = matrix_shape(&view, expected.rank);
    if !shape.is_addressable() {
        return Err(PyValueError::new_err(format!(
            "parameter '{name}' has too many elements: shape {shape:?}; pass a smaller tensor"
        )));
    }
    if shape.elements() == 0 {
        // Without elements there may be no address, which no slice may have.
        view.data = NonNull::dangling().as_ptr();
    }
    if view.data.is_null() || !fields.is_stored(size_of::<f32>() as i64) {
        return Err(no_storage(name, expected));
    }
    if !view.data.is_aligned() {
        return Ok(None);
    }
    // SAFETY: no Python object lies at null.
    let owner = Owner::Caller(unsafe { NonNull::new_unchecked(value.as_ptr()) }.cast());
    // SAFETY: Python holds the argument for the whole call, and with it the memory of the view.
    // Another thread that writes to it meanwhile races with eager PyTorch just as well; where the
    // function itself calls Python, `check_lent` looks again.
    Ok(Some(Tensor::Lazy(unsafe { NodeData::borrowed(shape, view, owner) })))
}

/// Whether an argument still lies where it was when it came in: Python code that a function calls
/// may have given it other memory.
pub fn check_lent(node: &Node) -> Result<(), Error> {
    let Some((object, view)) = node.lent() else { return Ok(()) };
    // SAFETY: operations are called with the GIL held, and the caller of the native function holds
    // its arguments until it returns.
    let value = unsafe {
        let py = Python::assume_attached();
        Bound::from_borrowed_ptr(py, object.as_ptr().cast())
    };
    let unchanged = || {
        let reader = &Torch::get(value.py()).ok()?.reader;
        let fields = reader.fields(&value).filter(|fields| reader.is_float32(fields))?;
        let now = fields.view()?;
        if fields.is_empty() {
            return Some((now.rows, now.columns) == (view.rows, view.columns));
        }
        Some(fields.is_stored(size_of::<f32>() as i64) && now == view)
    };
    if unchanged() == Some(true) {
        return Ok(());
    }
    Err(Error::runtime(
        "a parameter was given other memory, sizes or strides by Python code that the native \
         function called; change its values in place, or call the Python function"
            .to_owned(),
    ))
}

fn matrix_shape(view: &View, rank: usize) -> Shape {
    Shape::new(&[view.rows, view.columns][2 - rank..])
}

fn unpack(value: &Bound<'_, PyAny>, name: &str) -> PyResult<tch::Tensor> {
    // SAFETY: `value` is a live torch.Tensor for the whole call.
    unsafe { tch::Tensor::pyobject_unpack(value.as_ptr().cast()) }
        .map_err(|error| unreadable(name, &error))?
        .ok_or_else(|| PyValueError::new_err(format!("parameter '{name}' is not a tensor")))
}

fn check(
    tensor: tch::Tensor,
    value: &Bound<'_, PyAny>,
    name: &str,
    expected: TensorType,
) -> PyResult<tch::Tensor> {
    if tensor.f_kind().ok() != Some(expected.kind)
        || tensor.device() != expected.device
        || tensor.dim() != expected.rank
    {
        return Err(wrong_tensor(value, name, expected));
    }
    Ok(tensor)
}

/// The values of a lazy tensor (a negative view, zeros without storage) in memory.
fn materialise(tensor: tch::Tensor) -> Result<Tensor, tch::TchError> {
    let _scope = FunctionScope::enter();
    let sizes = tensor.size();
    let mut plain = tch::Tensor::f_empty(&sizes, (tch::Kind::Float, tch::Device::Cpu))?;
    // Copying reads values, whatever is stored.
    plain.f_copy_(&tensor)?;
    let shape = Shape::new(&sizes.iter().map(|&size| size as usize).collect::<Vec<_>>());
    let (rows, columns) = shape.as_matrix();
    let view = View::contiguous(plain.data_ptr().cast(), rows, columns);
    // SAFETY: the node owns the tensor whose memory the view is.
    Ok(Tensor::Lazy(unsafe { NodeData::borrowed(shape, view, Owner::Node(Box::new(plain))) }))
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

fn no_storage(name: &str, expected: TensorType) -> PyErr {
    PyValueError::new_err(format!(
        "parameter '{name}' has more elements than its storage holds (it was freed, resized or \
         never allocated); expected {expected}"
    ))
}

#[cold]
fn wrong_mode(name: &str) -> PyErr {
    PyValueError::new_err(format!(
        "parameter '{name}' came in while operations are traced or go to a __torch_dispatch__ mode \
         (torch.jit.trace, make_fx, FakeTensorMode), which a native function does not take part \
         in; call the Python function there"
    ))
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
    let expected_device = expected.device_name();
    let (got, advice) = if device != expected_device {
        let call = if expected_device == "cpu" { ".cpu()" } else { ".to(\"cuda:0\")" };
        (format!("a tensor on {device}"), format!("move it with {call}"))
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

/// Hand a result to Python as a `torch.Tensor`: here a deferred result is computed.
pub fn output(py: Python<'_>, tensor: Tensor) -> PyResult<Output<'_>> {
    let object = match tensor {
        Tensor::Lazy(node) => hand_over(py, &node)?,
        Tensor::Libtorch(tensor) => wrap(py, &tensor)?,
    };
    Ok(Output(Some(object)))
}

fn wrap<'py>(py: Python<'py>, tensor: &tch::Tensor) -> PyResult<Bound<'py, PyAny>> {
    let object = tensor
        .pyobject_wrap()
        .map_err(|error| PyErr::from(Error::libtorch("result", &error.to_string())))?;
    // SAFETY: `pyobject_wrap` returns a new reference to a live tensor object.
    Ok(unsafe { Bound::from_owned_ptr(py, object.cast()) })
}

/// Give the memory of a computed node to a Python tensor.
fn hand_over<'py>(py: Python<'py>, node: &Node) -> PyResult<Bound<'py, PyAny>> {
    compute(node, true)?;
    let dtype = if node.is_index() { INT64 } else { FLOAT32 };
    let (buffer, view) = match node.take_buffer() {
        Some(owned) => owned,
        None => copy(node)?,
    };
    let exchange = Torch::get(py)?.exchange.ok_or_else(|| {
        PyRuntimeError::new_err(
            "torch.Tensor has no DLPack exchange API; is torch 2.11.0 installed?",
        )
    })?;
    exchange.wrap(py, buffer, view, node.shape().len(), dtype)
}

/// A result that is one of the arguments is a new tensor all the same.
fn copy(node: &Node) -> PyResult<(Buffer, View)> {
    check_lent(node)?;
    let view = compute(node, true)?;
    let buffer = Buffer::new(view.rows * view.columns, size_of::<f32>())?;
    let data = buffer.data().cast::<f32>();
    // SAFETY: the buffer is new and has as many elements; the view is valid while the node lives.
    unsafe {
        let out = std::slice::from_raw_parts_mut(data, view.rows * view.columns);
        view.copy_to(out);
    }
    Ok((buffer, View::contiguous(data, view.rows, view.columns)))
}

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        match error.class {
            Class::Runtime => PyRuntimeError::new_err(error.message),
            Class::Index => PyIndexError::new_err(error.message),
        }
    }
}
