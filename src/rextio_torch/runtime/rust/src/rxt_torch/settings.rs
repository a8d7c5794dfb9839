//! Which engine runs, and on what: decided once per process, told to whoever asks.

use std::ffi::{c_char, c_int, CStr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::OnceLock;

use super::super::rxt_kernels::simd::{Isa, Level};

/// Names the engine: `fused` (the default) or `libtorch`.
const ENGINE_VARIABLE: &str = "REXTIO_TORCH_ENGINE";
/// Names the instruction set: `avx512`, `avx2` or `portable`; the best one if it is not set.
const SIMD_VARIABLE: &str = "REXTIO_TORCH_SIMD";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Lazy, fused, own kernels.
    Fused,
    /// Each operation at once in libtorch.
    Libtorch,
}

static ENGINE: AtomicU8 = AtomicU8::new(0);

/// The engine; an error text if a variable names something that does not exist.
#[inline]
pub fn engine() -> Result<Engine, String> {
    match ENGINE.load(Ordering::Relaxed) {
        1 => Ok(Engine::Fused),
        2 => Ok(Engine::Libtorch),
        _ => from_environment(),
    }
}

#[cold]
fn from_environment() -> Result<Engine, String> {
    static CHOSEN: OnceLock<Result<(), String>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| {
        let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
        configure(
            variable(ENGINE_VARIABLE).as_deref().unwrap_or("fused"),
            variable(SIMD_VARIABLE).as_deref(),
        )
    });
    chosen.clone()?;
    match ENGINE.load(Ordering::Relaxed) {
        2 => Ok(Engine::Libtorch),
        _ => Ok(Engine::Fused),
    }
}

fn configure(engine: &str, simd: Option<&str>) -> Result<(), String> {
    let code = match engine {
        "fused" => 1,
        "libtorch" => 2,
        other => {
            return Err(format!(
                "{ENGINE_VARIABLE}={other:?} is not an engine; set it to \"fused\" or \
                 \"libtorch\", or unset it"
            ))
        }
    };
    if let Some(name) = simd {
        if Level::parse(name).and_then(Isa::choose).is_none() {
            let available: Vec<&str> = Isa::available().map(|isa| isa.level().name()).collect();
            return Err(format!(
                "{SIMD_VARIABLE}={name:?} is not an instruction set of this machine, which has {}; \
                 set another or unset it",
                available.join(", ")
            ));
        }
    }
    ENGINE.store(code, Ordering::Relaxed);
    Ok(())
}

/// What runs, as `engine;simd;available simd,…;threads`, or `error;text`. Read by
/// `rextio_torch.engine()`; the text lives until the next call on this thread.
#[no_mangle]
pub extern "C" fn rextio_torch_describe() -> *const c_char {
    let text = match engine() {
        Ok(engine) => format!(
            "{};{};{};{}",
            match engine {
                Engine::Fused => "fused",
                Engine::Libtorch => "libtorch",
            },
            Isa::active().level().name(),
            Isa::available().map(|isa| isa.level().name()).collect::<Vec<_>>().join(","),
            tch::get_num_threads(),
        ),
        Err(text) => format!("error;{text}"),
    };
    keep(text)
}

/// Switch engine and instruction set of this process: for tests and benchmarks, which compare
/// them in one run. Returns 0, or 1 if a name does not exist.
///
/// # Safety
/// Both are zero-terminated strings.
#[no_mangle]
pub unsafe extern "C" fn rextio_torch_configure(
    engine: *const c_char,
    simd: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    let (engine, simd) = unsafe { (CStr::from_ptr(engine), CStr::from_ptr(simd)) };
    let (engine, simd) = (engine.to_string_lossy(), simd.to_string_lossy());
    c_int::from(configure(&engine, Some(&*simd)).is_err())
}

fn keep(text: String) -> *const c_char {
    use std::cell::RefCell;
    use std::ffi::CString;
    thread_local! {
        static KEPT: RefCell<CString> = RefCell::new(CString::default());
    }
    KEPT.with(|kept| {
        *kept.borrow_mut() = CString::new(text.replace('\0', " ")).unwrap_or_default();
        kept.borrow().as_ptr()
    })
}
