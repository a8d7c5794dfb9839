"""Mistakes in the code that needs libtorch and Python, each with the pytest tests that must fail.

One project is built from a copy of the package that holds them all, which takes minutes, so
`make test` leaves them out.
"""

from __future__ import annotations

from tools.mutation.model import Mutation

_TESTS = "tests/native/test_boundary.py::test_"


def _row(path: str, mistake: str, test: str, text: str, wrong: str) -> Mutation:
    return Mutation("native", mistake, f"rxt_torch/{path}.rs", text, wrong, _TESTS + test)


NATIVE = (
    _row(
        "boundary", "a subclass is accepted", "a_subclass_is_a_type_error_naming_it",
        "if «class.cast() != torch.tensor.as_ptr() && class.cast() != torch.parameter.as_ptr()» {",
        "!value.is_instance(torch.tensor.bind(py))?",
    ),
    _row(
        "boundary", "traced operations are computed",
        "intercepted_operations_are_an_error_not_constants",
        "if «modes::intercepted()» {", "false",
    ),
    _row(
        "boundary", "a tangent is lost", "a_dual_tensor_is_an_error_not_a_lost_tangent",
        "if «torch.forward_ad_is_active(py)?» {", "false",
    ),
    _row(
        "boundary", "a level of forward AD is overlooked once it was inactive",
        "a_dual_tensor_is_an_error_not_a_lost_tangent",
        "if «version == self.inactive_version.load(Ordering::Relaxed)» {",
        "self.inactive_version.load(Ordering::Relaxed) != 0",
    ),
    _row(
        "boundary", "a storage that is too small is read",
        "a_storage_that_was_freed_or_shrunk_is_an_error",
        "if view.data.is_null() || «!fields.is_stored(size_of::<f32>() as i64)» {", "false",
    ),
    _row(
        "boundary", "another rank is accepted", "the_wrong_tensor_is_a_value_error_with_advice",
        ".filter(|_| «fields.rank() == expected.rank»)", "true",
    ),
    _row(
        "boundary", "memory that a callback replaced is read",
        "a_callback_that_replaces_an_arguments_memory",
        "if «unchanged() == Some(true)» {", "true",
    ),
    _row(
        "boundary", "a lazy view is read as it is stored",
        "lazy_and_grad_inputs_give_eagers_values",
        "(fused, fields, «keys & (NEGATIVE | ZERO_TENSOR)»)", "keys & ZERO_TENSOR",
    ),
    _row(
        "boundary", "the dtype is not looked at", "the_wrong_tensor_is_a_value_error_with_advice",
        "if «!torch.reader.is_float32(fields)» {", "false",
    ),
    _row(
        "dispatch_keys", "a key that is not listed is accepted",
        "the_wrong_tensor_is_a_value_error_with_advice",
        "&& «keys & !(required | optional) == 0»", "true",
    ),
    _row(
        "tensor_impl", "a storage must be one element longer",
        "a_storage_that_just_holds_the_elements_is_enough",
        "«end <= storage.bytes»", "end < storage.bytes",
    ),
    _row(
        "tensor_impl", "a view begins where its storage does",
        "a_storage_that_just_holds_the_elements_is_enough",
        "data.wrapping_offset(«self.storage_offset as isize»)", "0",
    ),
    _row(
        "tensor_impl", "the last element is one stride further",
        "a_storage_that_just_holds_the_elements_is_enough",
        "«(size - 1)».checked_mul(stride)", "size",
    ),
    _row(
        "scope", "the caller's autocast stays off", "autocast_does_not_change_the_annotated_dtype",
        "if self.cpu_autocast {\n            «set_autocast(CPU, true);»", "();",
    ),
    _row(
        "scope", "autocast stays on", "autocast_does_not_change_the_annotated_dtype",
        "if «cpu_autocast» {\n            set_autocast(CPU, false)", "false",
    ),
    _row(
        "scope", "the caller's autocast on CUDA stays off",
        "the_callers_autocast_on_cuda_is_restored",
        "if self.cuda_autocast {\n            «set_autocast(CUDA, true);»", "();",
    ),
    _row(
        "dlpack", "the strides of a vector are those of a matrix", "memory_at_any_address_is_read",
        "(&raw const (*header.as_ptr()).strides).cast::<i64>().add(«first»)", "0",
    ),
    _row(
        "dlpack", "a result is not aligned", "results_are_ordinary_tensors",
        "byte_offset: «0»,", "4",
    ),
)  # fmt: skip
