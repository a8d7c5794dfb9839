//! The one release of PyTorch that a built module works with.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The release whose libtorch this code links and whose structures it reads.
const TORCH_VERSION: &str = "2.11.0";

/// Require that release. Its neighbours have most of the same symbols: a module may load beside
/// one of them, and must then not touch its tensors.
pub fn require_torch(torch: &Bound<'_, PyModule>) -> PyResult<()> {
    let found: String = torch.getattr("__version__")?.extract()?;
    if found.split('+').next() == Some(TORCH_VERSION) {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(format!(
        "this native module was built for torch {TORCH_VERSION}, and torch {found} is installed; \
         install torch=={TORCH_VERSION}, or set REXTIO_NATIVE_MODE=fallback to run Python"
    )))
}
