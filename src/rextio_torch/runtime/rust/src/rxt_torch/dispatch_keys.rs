//! The dispatch keys of a tensor: what kind of tensor it is, all in one word.
//!
//! PyTorch tells them to Python only (`torch._C._dispatch_keys`), which takes longer than a small
//! operation. They are a field of every `c10::TensorImpl`; where it lies is found once per process
//! by comparing with what Python is told, for tensors of different kinds. Where that does not give
//! exactly one place, Python is asked each time.

use std::ffi::c_void;

use pyo3::ffi;
use pyo3::prelude::*;

/// `BackendComponent` CPU and the functionality `Dense`: every ordinary CPU tensor has both.
const CPU: u64 = 1 << 0;
const DENSE: u64 = 1 << 16;
/// A view whose values are the negatives of what is stored.
pub const NEGATIVE: u64 = 1 << 33;
/// A tensor of zeros without storage.
pub const ZERO_TENSOR: u64 = 1 << 34;
const AD_INPLACE_OR_VIEW: u64 = 1 << 35;
const AUTOGRAD: u64 = 1 << 37;
const AUTOCAST: u64 = 1 << 40;

const REQUIRED: u64 = CPU | DENSE;
/// What is not listed is refused: sparse, mkldnn, meta, quantised, nested and named tensors, other
/// devices, functorch wrappers, functionalised tensors, tensors that dispatch to Python.
const ACCEPTED: u64 = REQUIRED | NEGATIVE | ZERO_TENSOR | AD_INPLACE_OR_VIEW | AUTOGRAD | AUTOCAST;

/// Whether a tensor with these keys is a dense CPU tensor that stands for nothing but its values.
pub fn accepted(keys: u64) -> bool {
    keys & REQUIRED == REQUIRED && keys & !ACCEPTED == 0
}

pub struct DispatchKeys {
    ask_python: Py<PyAny>,
    /// Byte offset of `key_set_` in a `TensorImpl`, if it was found.
    offset: Option<usize>,
}

/// `THPVariable` (torch/csrc/autograd/python_variable.h) begins with `PyObject_HEAD` and an
/// `at::Tensor`, which is a pointer to its `TensorImpl`.
#[repr(C)]
struct PythonTensor {
    _head: ffi::PyObject,
    implementation: *const u8,
}

/// The last place looked at. c10/core/TensorImpl.h checks the layout when it is compiled: the
/// fields before the keys take 168 to 176 bytes, and the keys are the last field but flags.
const LAST_OFFSET: usize = 176;

impl DispatchKeys {
    pub fn new(torch: &Bound<'_, PyModule>) -> PyResult<Self> {
        let ask_python = torch.getattr("_C")?.getattr("_dispatch_keys")?.unbind();
        let mut keys = Self { ask_python, offset: None };
        let ones = torch.call_method1("ones", (2,))?;
        let zeros = torch.call_method1("_efficientzerotensor", ((2,),))?;
        let inference = {
            let guard = torch.call_method0("inference_mode")?;
            guard.call_method0("__enter__")?;
            let made = torch.call_method1("ones", (2,));
            guard.call_method1(
                "__exit__",
                (torch.py().None(), torch.py().None(), torch.py().None()),
            )?;
            made?
        };
        let samples = [
            torch.call_method1("_neg_view", (&ones,))?,
            torch.call_method1("ones", (2, 3))?,
            ones,
            zeros,
            inference,
        ];
        let told = samples.iter().map(|sample| keys.ask(sample)).collect::<PyResult<Vec<u64>>>()?;
        let mut places = (8..=LAST_OFFSET).step_by(8).filter(|&offset| {
            samples.iter().zip(&told).all(|(sample, &keys)| {
                // SAFETY: `offset` lies inside the TensorImpl, see `LAST_OFFSET`.
                keys == unsafe { read(sample, offset) }
            })
        });
        keys.offset = places.next().filter(|_| places.next().is_none());
        Ok(keys)
    }

    /// The keys of a tensor; `tensor` is a `torch.Tensor` or a subclass.
    #[inline]
    pub fn of(&self, tensor: &Bound<'_, PyAny>) -> PyResult<u64> {
        match self.offset {
            // SAFETY: the offset was found inside the TensorImpl.
            Some(offset) => Ok(unsafe { read(tensor, offset) }),
            None => self.ask(tensor),
        }
    }

    /// The `at::Tensor` of a Python tensor, where its place is known.
    pub fn handle(&self, tensor: &Bound<'_, PyAny>) -> Option<*const c_void> {
        // That the keys were found behind it shows that the field is what it is taken for.
        self.offset?;
        // SAFETY: every object of `torch.Tensor` has this layout, as above.
        Some(unsafe { &raw const (*tensor.as_ptr().cast::<PythonTensor>()).implementation }.cast())
    }

    fn ask(&self, tensor: &Bound<'_, PyAny>) -> PyResult<u64> {
        let py = tensor.py();
        let set = self.ask_python.bind(py).call1((tensor,))?;
        set.call_method0(pyo3::intern!(py, "raw_repr"))?.extract()
    }
}

/// # Safety
/// `tensor` is a `torch.Tensor`, and a word at `offset` lies inside its `TensorImpl`.
#[inline]
unsafe fn read(tensor: &Bound<'_, PyAny>, offset: usize) -> u64 {
    // SAFETY: a live Python tensor holds its TensorImpl; the caller vouches for the offset.
    unsafe {
        let object = tensor.as_ptr().cast::<PythonTensor>();
        (*object).implementation.add(offset).cast::<u64>().read_unaligned()
    }
}
