//! The scope that native operations run in: no autograd, no autocast.

/// `c10::DeviceType`.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct DeviceType(i8);

const CPU: DeviceType = DeviceType(0);
const CUDA: DeviceType = DeviceType(1);

extern "C" {
    // tch switches CUDA's autocast only. `at::autocast::{is,set}_autocast_enabled(DeviceType…)`
    // are exported by libtorch_cpu (ATen/autocast_mode.h); the names are Itanium-mangled.
    #[link_name = "_ZN2at8autocast19is_autocast_enabledEN3c1010DeviceTypeE"]
    fn is_autocast_enabled(device: DeviceType) -> bool;
    #[link_name = "_ZN2at8autocast20set_autocast_enabledEN3c1010DeviceTypeEb"]
    fn set_autocast_enabled(device: DeviceType, enabled: bool);
}

fn autocast_enabled(device: DeviceType) -> bool {
    // SAFETY: the declared signature is that of ATen/autocast_mode.h in torch 2.11.0, the only
    // version the build accepts; the function reads a thread-local flag and does not throw for
    // the CPU or CUDA, whether or not there is such a device.
    unsafe { is_autocast_enabled(device) }
}

fn set_autocast(device: DeviceType, enabled: bool) {
    // SAFETY: as for `autocast_enabled`; it writes the thread-local flag.
    unsafe { set_autocast_enabled(device, enabled) }
}

/// Restores the caller's autograd and autocast modes when dropped, on every way out.
pub struct FunctionScope {
    _no_grad: tch::NoGradGuard,
    cpu_autocast: bool,
    cuda_autocast: bool,
}

impl FunctionScope {
    pub fn enter() -> Self {
        // A function that promises float32 returns float32, also under autocast.
        let (cpu_autocast, cuda_autocast) = (autocast_enabled(CPU), autocast_enabled(CUDA));
        if cpu_autocast {
            set_autocast(CPU, false);
        }
        if cuda_autocast {
            set_autocast(CUDA, false);
        }
        Self { _no_grad: tch::no_grad_guard(), cpu_autocast, cuda_autocast }
    }
}

impl Drop for FunctionScope {
    fn drop(&mut self) {
        if self.cpu_autocast {
            set_autocast(CPU, true);
        }
        if self.cuda_autocast {
            set_autocast(CUDA, true);
        }
    }
}

/// Who guards an operation: the whole native function, or the operation itself, in functions
/// that call back into Python in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Function,
    Operation,
}

impl Scope {
    pub fn enter(self) -> Option<FunctionScope> {
        match self {
            Self::Function => None,
            Self::Operation => Some(FunctionScope::enter()),
        }
    }
}
