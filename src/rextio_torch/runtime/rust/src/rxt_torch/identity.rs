//! What a module is built from: a libtorch that was checked, and a source whose id it carries.

const _: () = assert!(
    option_env!("LIBTORCH_BYPASS_VERSION_CHECK").is_none(),
    "LIBTORCH_BYPASS_VERSION_CHECK is set: this code links one exact libtorch; unset the variable"
);

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
