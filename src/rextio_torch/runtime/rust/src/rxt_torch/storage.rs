//! The size of a tensor's storage. Python can free or shrink a storage under the tensors on it
//! (`untyped_storage().resize_`), which keep their sizes: reading them would end the process.

use std::ffi::c_void;

use super::super::rxt_engine::node::View;

extern "C" {
    // The C interface of libtorch (torch/csrc/inductor/aoti_torch/c/shim.h); a handle is a pointer
    // to an `at::Tensor`, and 0 is success.
    fn aoti_torch_get_storage_size(tensor: *const c_void, bytes: *mut i64) -> i32;
    fn aoti_torch_get_storage_offset(tensor: *const c_void, elements: *mut i64) -> i32;
}

/// Whether the storage of a tensor holds every element of its view, `size` bytes each.
///
/// # Safety
/// `tensor` points to a live `at::Tensor` with a storage, of non-negative strides.
pub unsafe fn holds(tensor: *const c_void, view: &View, size: i64) -> bool {
    if view.rows == 0 || view.columns == 0 {
        return true;
    }
    let (mut bytes, mut offset) = (0, 0);
    // SAFETY: the caller's promise; both write their one result.
    let told = unsafe {
        aoti_torch_get_storage_size(tensor, &raw mut bytes) == 0
            && aoti_torch_get_storage_offset(tensor, &raw mut offset) == 0
    };
    let last = |size: usize, stride: isize| (size as i64 - 1).checked_mul(stride as i64);
    let end = || {
        let last = last(view.rows, view.row_stride)?
            .checked_add(last(view.columns, view.column_stride)?)?
            .checked_add(offset)?;
        last.checked_add(1)?.checked_mul(size)
    };
    told && end().is_some_and(|end| end <= bytes)
}
