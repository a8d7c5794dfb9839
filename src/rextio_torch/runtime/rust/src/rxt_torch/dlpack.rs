//! DLPack's C exchange API, which `torch.Tensor` publishes: a tensor from memory of our own. Layouts
//! are those of ATen/dlpack.h (DLPack 1).

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null_mut, NonNull};

use pyo3::ffi;
use pyo3::prelude::*;

use super::super::rxt_engine::buffer::{Buffer, HEADER_BYTES};
use super::super::rxt_engine::node::View;

#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
struct Device {
    kind: i32,
    index: i32,
}

const CPU: Device = Device { kind: 1, index: 0 };

/// `DLDataType`: kind of number, bits, lanes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

pub const FLOAT32: DataType = DataType { code: 2, bits: 32, lanes: 1 };
pub const INT64: DataType = DataType { code: 0, bits: 64, lanes: 1 };

/// `DLTensor`: where a tensor's elements lie.
#[repr(C)]
struct Strided {
    data: *mut c_void,
    device: Device,
    rank: i32,
    dtype: DataType,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// `DLManagedTensorVersioned`: an owned tensor with its deleter.
#[repr(C)]
struct Managed {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    flags: u64,
    tensor: Strided,
}

type SetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

/// `DLPackExchangeAPI`.
#[repr(C)]
pub struct ExchangeApi {
    version: Version,
    _previous: *mut c_void,
    _allocate:
        unsafe extern "C" fn(*mut Strided, *mut *mut Managed, *mut c_void, SetError) -> c_int,
    _from_object: unsafe extern "C" fn(*mut c_void, *mut *mut Managed) -> c_int,
    to_object: unsafe extern "C" fn(*mut Managed, *mut *mut c_void) -> c_int,
    _borrow: Option<unsafe extern "C" fn(*mut c_void, *mut Strided) -> c_int>,
    _stream: *mut c_void,
}

// SAFETY: PyTorch's struct is static and never written.
unsafe impl Sync for ExchangeApi {}
// SAFETY: as above.
unsafe impl Send for ExchangeApi {}

impl ExchangeApi {
    /// The API of the installed torch; `None` if it is not there or not version 1.
    pub fn of(tensor_class: &Bound<'_, PyAny>) -> Option<&'static Self> {
        let capsule = tensor_class.getattr("__dlpack_c_exchange_api__").ok()?;
        // SAFETY: the name is the one that DLPack prescribes; PyTorch's struct is static.
        let api = unsafe {
            let pointer =
                ffi::PyCapsule_GetPointer(capsule.as_ptr(), c"dlpack_exchange_api".as_ptr());
            pointer.cast::<Self>().as_ref()
        };
        if api.is_none() {
            // A capsule of another name leaves an exception behind.
            drop(PyErr::take(tensor_class.py()));
        }
        api.filter(|api| api.version.major == 1)
    }

    /// A Python tensor that owns a buffer: rank 1 or 2, sizes and strides of `view`.
    pub fn wrap<'py>(
        &self,
        py: Python<'py>,
        buffer: Buffer,
        view: View,
        rank: usize,
        dtype: DataType,
    ) -> PyResult<Bound<'py, PyAny>> {
        let header = buffer.header().cast::<Header>();
        let data = buffer.data();
        let (_, bytes) = buffer.into_header();
        let sizes = [view.rows as i64, view.columns as i64];
        let strides = [view.row_stride as i64, view.column_stride as i64];
        let first = 2 - rank;
        let mut object = null_mut();
        // SAFETY: the header's memory is ours, aligned and large enough (checked below), and lives
        // until the deleter runs; shape and strides point into it.
        let status = unsafe {
            header.write(Header {
                managed: Managed {
                    version: self.version,
                    context: header.as_ptr().cast(),
                    deleter: Some(delete),
                    flags: 0,
                    tensor: Strided {
                        data: data.cast(),
                        device: CPU,
                        rank: rank as i32,
                        dtype,
                        shape: null_mut(),
                        strides: null_mut(),
                        byte_offset: 0,
                    },
                },
                sizes,
                strides,
                bytes,
            });
            let tensor = &raw mut (*header.as_ptr()).managed.tensor;
            (*tensor).shape = (&raw const (*header.as_ptr()).sizes).cast::<i64>().add(first);
            (*tensor).strides = (&raw const (*header.as_ptr()).strides).cast::<i64>().add(first);
            (self.to_object)(&raw mut (*header.as_ptr()).managed, &raw mut object)
        };
        if status != 0 || object.is_null() {
            // SAFETY: PyTorch did not take the tensor, so the buffer is still ours.
            unsafe { delete(header.as_ptr().cast()) };
            return Err(PyErr::fetch(py));
        }
        // SAFETY: on success the function returns a new reference.
        Ok(unsafe { Bound::from_owned_ptr(py, object.cast()) })
    }
}

/// What stands before the elements of a result.
#[repr(C)]
struct Header {
    managed: Managed,
    sizes: [i64; 2],
    strides: [i64; 2],
    /// Of the buffer's block.
    bytes: usize,
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES, "the header outgrew its place");

/// Called by PyTorch when the last tensor on the memory is gone, on any thread.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: `managed` is the first field of a header that `wrap` wrote, in a buffer that it gave
    // up; PyTorch calls this once.
    unsafe {
        let header = (*managed).context.cast::<Header>();
        let bytes = (*header).bytes;
        drop(Buffer::from_header(NonNull::new_unchecked(header.cast()), bytes));
    }
}
