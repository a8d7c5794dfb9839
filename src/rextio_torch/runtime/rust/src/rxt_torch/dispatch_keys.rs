//! The dispatch keys of a tensor: what kind of tensor it is, all in one word.

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
