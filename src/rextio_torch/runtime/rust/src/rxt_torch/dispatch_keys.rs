//! The dispatch keys of a tensor: what kind of tensor it is, all in one word.

/// A `BackendComponent` and the functionality `Dense`: every ordinary tensor has both.
const CPU: u64 = 1 << 0;
const CUDA: u64 = 1 << 1;
const DENSE: u64 = 1 << 16;
/// A view whose values are the negatives of what is stored.
pub const NEGATIVE: u64 = 1 << 33;
/// A tensor of zeros without storage.
pub const ZERO_TENSOR: u64 = 1 << 34;
const AD_INPLACE_OR_VIEW: u64 = 1 << 35;
const AUTOGRAD: u64 = 1 << 37;
const AUTOCAST_CPU: u64 = 1 << 40;
const AUTOCAST_CUDA: u64 = 1 << 48;

/// Whether a tensor with these keys is a dense tensor on this kind of device that stands for
/// nothing but its values.
///
/// What is not listed is refused: sparse, mkldnn, meta, quantised, nested and named tensors, other
/// devices, functorch wrappers, functionalised tensors, tensors that dispatch to Python.
pub fn accepted(keys: u64, device: tch::Device) -> bool {
    let (backend, autocast) = match device {
        tch::Device::Cpu => (CPU, AUTOCAST_CPU),
        tch::Device::Cuda(_) => (CUDA, AUTOCAST_CUDA),
        _ => return false,
    };
    let required = backend | DENSE;
    let optional = NEGATIVE | ZERO_TENSOR | AD_INPLACE_OR_VIEW | AUTOGRAD | autocast;
    keys & required == required && keys & !(required | optional) == 0
}
