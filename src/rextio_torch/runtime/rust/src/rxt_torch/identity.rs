//! What a built module says of itself: for which libtorch it is built, and from which source.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

const _: () = assert!(
    option_env!("LIBTORCH_BYPASS_VERSION_CHECK").is_none(),
    "LIBTORCH_BYPASS_VERSION_CHECK is set: this code links one exact libtorch; unset the variable"
);

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

const PREFIX: &[u8] = b"rextio-torch-source-id:";
const DIGITS: usize = 64;
const UNKNOWN: &str = "0000000000000000000000000000000000000000000000000000000000000000";

const fn source_id() -> [u8; PREFIX.len() + DIGITS] {
    let digits = match option_env!("REXTIO_TORCH_SOURCE_ID") {
        Some(id) => id.as_bytes(),
        None => UNKNOWN.as_bytes(),
    };
    assert!(digits.len() == DIGITS, "REXTIO_TORCH_SOURCE_ID must be 64 hexadecimal digits");
    let mut bytes = [0; PREFIX.len() + DIGITS];
    let mut index = 0;
    while index < bytes.len() {
        bytes[index] =
            if index < PREFIX.len() { PREFIX[index] } else { digits[index - PREFIX.len()] };
        index += 1;
    }
    bytes
}

/// Readable in the built file without loading it: two builds that got into each other's way give
/// a module with another id than its source.
#[used]
static SOURCE_ID: [u8; PREFIX.len() + DIGITS] = source_id();
