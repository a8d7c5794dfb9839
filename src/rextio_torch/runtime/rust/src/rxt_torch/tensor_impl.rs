//! The fields of a tensor, read where they lie.
//!
//! PyTorch tells what the boundary must know (dispatch keys, sizes, memory) to Python and through C
//! functions that take a reference and the GIL, each of which takes longer than a small operation.
//! The structures below repeat c10/core/TensorImpl.h and c10/core/StorageImpl.h of torch 2.11.0.
//! Once per process they are compared with what Python is told about tensors of different kinds;
//! where anything differs, nothing is read in place and PyTorch is asked each time.

use pyo3::ffi;
use pyo3::prelude::*;

use super::super::rxt_engine::node::View;

/// `THPVariable` (torch/csrc/autograd/python_variable.h) begins with `PyObject_HEAD` and an
/// `at::Tensor`, which is a pointer to its `TensorImpl`.
#[repr(C)]
struct PythonTensor {
    _head: ffi::PyObject,
    tensor: *const TensorImpl,
}

/// Sizes and strides that a `c10::impl::SizesAndStrides` holds itself.
const INLINE: usize = 5;

/// `c10::TensorImpl`.
#[repr(C)]
pub struct TensorImpl {
    _virtual_table: *const u8,
    _references: u64,
    storage: *const StorageImpl,
    _autograd_meta: *const u8,
    _extra_meta: *const u8,
    _version_counter: *const u8,
    _python_object: [*const u8; 2],
    rank: usize,
    sizes: [i64; INLINE],
    strides: [i64; INLINE],
    storage_offset: i64,
    elements: i64,
    dtype: u16,
    _device_and_flags: [u8; 6],
    keys: u64,
}

/// `c10::StorageImpl`.
#[repr(C)]
struct StorageImpl {
    _virtual_table: *const u8,
    _references: u64,
    data: *const u8,
    _context: [*const u8; 2],
    _device: u64,
    /// A `c10::SymInt`: negative if it is not a number.
    bytes: i64,
}

/// Reads tensors; made once.
pub struct Reader {
    /// What `TensorImpl::dtype` is for float32; `None` where the structures are not as expected.
    float32: Option<u16>,
    ask_python: Py<PyAny>,
}

impl Reader {
    pub fn new(torch: &Bound<'_, PyModule>) -> PyResult<Self> {
        let ask_python = torch.getattr("_C")?.getattr("_dispatch_keys")?.unbind();
        let mut reader = Self { float32: None, ask_python };
        reader.float32 = reader.find(torch)?;
        Ok(reader)
    }

    /// The code of float32, if tensors are as expected.
    fn find(&self, torch: &Bound<'_, PyModule>) -> PyResult<Option<u16>> {
        let py = torch.py();
        let ones = torch.call_method1("ones", (120,))?;
        let inference = {
            let guard = torch.call_method0("inference_mode")?;
            guard.call_method0("__enter__")?;
            let made = torch.call_method1("ones", (2,));
            guard.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
            made?
        };
        let plain = [
            torch.call_method1("as_strided", (&ones, (3, 5), (7, 2), 11))?,
            torch.call_method1("as_strided", (&ones, (4,), (3,), 2))?,
            torch.call_method1("ones", (0, 3))?,
            inference,
            ones,
        ];
        let lazy = [
            torch.call_method1("_neg_view", (&plain[4],))?,
            torch.call_method1("_efficientzerotensor", ((2,),))?,
        ];
        for tensor in plain.iter().chain(&lazy) {
            // SAFETY: a tensor of torch 2.11.0, against which this crate is linked; a structure of
            // the declared size lies behind each.
            let fields = unsafe { fields(tensor) };
            if !self.describes(fields, tensor)? {
                return Ok(None);
            }
        }
        for tensor in &plain {
            // SAFETY: as above; a plain tensor has a storage.
            let fields = unsafe { fields(tensor) };
            let bytes: i64 =
                tensor.call_method0("untyped_storage")?.call_method0("nbytes")?.extract()?;
            let data: usize = tensor.call_method0("data_ptr")?.extract()?;
            let empty = fields.elements == 0;
            let Some(storage) = fields.storage() else { return Ok(None) };
            let place = storage.data as usize + 4 * fields.storage_offset as usize;
            if storage.bytes != bytes || (!empty && place != data) {
                return Ok(None);
            }
        }
        // SAFETY: as above.
        let code = |tensor: &Bound<'_, PyAny>| unsafe { fields(tensor) }.dtype;
        let float32 = code(&plain[0]);
        let mut same = plain.iter().chain(&lazy).all(|tensor| code(tensor) == float32);
        for name in ["float64", "float16", "bfloat16", "int64", "int32", "bool", "complex64"] {
            let other =
                torch.call_method1("ones", (2,))?.call_method1("to", (torch.getattr(name)?,))?;
            same &= code(&other) != float32;
        }
        Ok(same.then_some(float32))
    }

    fn describes(&self, fields: &TensorImpl, tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
        let sizes: Vec<i64> = tensor.getattr("shape")?.extract()?;
        let strides: Vec<i64> = tensor.call_method0("stride")?.extract()?;
        let offset: i64 = tensor.call_method0("storage_offset")?.extract()?;
        Ok(fields.rank == sizes.len()
            && fields.sizes[..sizes.len()] == sizes
            && fields.strides[..sizes.len()] == strides
            && fields.storage_offset == offset
            && fields.elements == sizes.iter().product::<i64>()
            && fields.keys == self.ask(tensor)?)
    }

    /// The fields of a `torch.Tensor` (or of a subclass), if they can be read in place.
    #[inline]
    pub fn fields<'a>(&self, tensor: &'a Bound<'_, PyAny>) -> Option<&'a TensorImpl> {
        self.float32?;
        // SAFETY: `find` saw that tensors are as declared.
        Some(unsafe { fields(tensor) })
    }

    /// Whether a tensor's elements are float32.
    #[inline]
    pub fn is_float32(&self, tensor: &TensorImpl) -> bool {
        self.float32 == Some(tensor.dtype)
    }

    /// The dispatch keys of a `torch.Tensor` (or of a subclass).
    #[inline]
    pub fn keys(&self, tensor: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.fields(tensor).map_or_else(|| self.ask(tensor), |fields| Ok(fields.keys))
    }

    fn ask(&self, tensor: &Bound<'_, PyAny>) -> PyResult<u64> {
        let py = tensor.py();
        let set = self.ask_python.bind(py).call1((tensor,))?;
        set.call_method0(pyo3::intern!(py, "raw_repr"))?.extract()
    }
}

impl TensorImpl {
    pub fn rank(&self) -> usize {
        self.rank
    }

    pub fn is_empty(&self) -> bool {
        self.elements == 0
    }

    fn storage(&self) -> Option<&StorageImpl> {
        // SAFETY: a tensor holds its storage, or none.
        unsafe { self.storage.as_ref() }
    }

    /// The elements as rows and columns; `None` for another rank than 1 and 2. `data` is where they
    /// lie if they are f32, and null without a storage.
    #[inline]
    pub fn view(&self) -> Option<View> {
        let data = self.storage().map_or(std::ptr::null(), |storage| storage.data.cast::<f32>());
        let data =
            if data.is_null() { data } else { data.wrapping_offset(self.storage_offset as isize) };
        let (size, stride) = (|at: usize| self.sizes[at] as usize, |at: usize| self.strides[at]);
        let (rows, row_stride, last) = match self.rank {
            1 => (1, 0, 0),
            2 => (size(0), stride(0) as isize, 1),
            _ => return None,
        };
        let column_stride = stride(last) as isize;
        Some(View { data, rows, columns: size(last), row_stride, column_stride })
    }

    /// Whether the storage holds every element, `size` bytes each. Python can free or shrink it
    /// under the tensors on it (`untyped_storage().resize_`), which keep their sizes: reading them
    /// would end the process.
    #[inline]
    pub fn is_stored(&self, size: i64) -> bool {
        if self.elements == 0 {
            return true;
        }
        let Some(storage) = self.storage() else { return false };
        let mut dims = self.sizes.iter().zip(&self.strides).take(self.rank.min(INLINE));
        let last = dims.try_fold(self.storage_offset, |end, (&size, &stride)| {
            end.checked_add((size - 1).checked_mul(stride)?)
        });
        let end = last.and_then(|last| last.checked_add(1)?.checked_mul(size));
        !storage.data.is_null() && end.is_some_and(|end| end <= storage.bytes)
    }
}

/// # Safety
/// `tensor` is a `torch.Tensor` or of a subclass, and its `TensorImpl` is as declared above or at
/// least as large.
#[inline]
unsafe fn fields<'a>(tensor: &'a Bound<'_, PyAny>) -> &'a TensorImpl {
    // SAFETY: a live Python tensor holds its TensorImpl; the caller vouches for the structure.
    unsafe { &*(*tensor.as_ptr().cast::<PythonTensor>()).tensor }
}
