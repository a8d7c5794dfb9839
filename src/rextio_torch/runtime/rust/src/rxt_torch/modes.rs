//! Modes of a thread in which an operation means something else than its values.
//!
//! A tracer (`torch.jit.trace`, `make_fx`) would record a native result as a constant; a
//! `__torch_dispatch__` mode (`FakeTensorMode`) decides itself what an operation does, and would not
//! be asked. Both show in the dispatch keys that PyTorch adds to every operation of the thread.

/// `c10::DispatchKey`.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct DispatchKey(u16);

const PYTHON: DispatchKey = DispatchKey(12);
const TRACER: DispatchKey = DispatchKey(24);
const PRE_DISPATCH: DispatchKey = DispatchKey(46);

extern "C" {
    // `c10::impl::tls_is_dispatch_key_included(DispatchKey)`, exported by libc10
    // (c10/core/impl/LocalDispatchKeySet.h); the name is Itanium-mangled.
    #[link_name = "_ZN3c104impl28tls_is_dispatch_key_includedENS_11DispatchKeyE"]
    fn is_included(key: DispatchKey) -> bool;
}

/// Whether operations of this thread are traced or go to a `__torch_dispatch__` mode.
pub fn intercepted() -> bool {
    // SAFETY: the declared signature is that of torch 2.11.0, the only version the build accepts;
    // the function reads a thread-local set and does not throw.
    [PYTHON, TRACER, PRE_DISPATCH].into_iter().any(|key| unsafe { is_included(key) })
}
