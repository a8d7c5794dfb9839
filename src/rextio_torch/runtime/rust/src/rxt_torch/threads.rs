//! The threads that the fused engine shares with libtorch.
//!
//! On Linux libtorch runs its parallel loops on the OpenMP library that comes with it, whose
//! threads wait for the next loop in a busy loop for some milliseconds. A pool beside it would
//! fight with them for the cores after every operation of PyTorch's. So the engine's work runs on
//! the same threads; elsewhere, and in a forked child, which has none of them, threads are
//! started for it.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use super::super::rxt_engine::parallel::Threads;

/// Work that is worth waking a thread for, by measurement.
const PART_NANOSECONDS: f64 = 20_000.0;

static FORKED: AtomicBool = AtomicBool::new(false);

/// Whether this process was forked after the module was loaded. Libtorch's threads did not come
/// along, and waiting for them (as eager PyTorch does) would never end.
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

#[cfg(unix)]
mod on_load {
    use super::{c_int, Ordering, FORKED};

    type Handler = Option<extern "C" fn()>;

    extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }

    extern "C" fn child() {
        FORKED.store(true, Ordering::Relaxed);
    }

    extern "C" fn on_load() {
        // SAFETY: the handler only stores to a static, which is allowed between fork and return.
        // It fails only for want of memory, as the process starts to use the module.
        unsafe { pthread_atfork(None, None, Some(child)) };
    }

    /// Run by the loader, before anything else of this module.
    #[used]
    #[cfg_attr(target_os = "linux", link_section = ".init_array")]
    #[cfg_attr(target_os = "macos", link_section = "__DATA,__mod_init_func")]
    static ON_LOAD: extern "C" fn() = on_load;
}

/// As many threads as PyTorch uses.
pub fn threads() -> Threads {
    let count = tch::get_num_threads().max(1) as usize;
    if count == 1 || is_forked() || openmp().is_none() {
        return Threads::started(count);
    }
    Threads::new(count, PART_NANOSECONDS, run)
}

/// What the engine needs of OpenMP.
struct OpenMp {
    parallel: unsafe extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, c_uint, c_uint),
    thread_number: unsafe extern "C" fn() -> c_int,
    thread_count: unsafe extern "C" fn() -> c_int,
}

/// The OpenMP library that libtorch uses, if it is GNU's or answers to the same names.
fn openmp() -> Option<&'static OpenMp> {
    static OPENMP: OnceLock<Option<OpenMp>> = OnceLock::new();
    OPENMP.get_or_init(OpenMp::find).as_ref()
}

impl OpenMp {
    #[cfg(not(target_os = "linux"))]
    fn find() -> Option<Self> {
        None
    }

    #[cfg(target_os = "linux")]
    fn find() -> Option<Self> {
        extern "C" {
            fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
        }
        let find = |name: &CStr| {
            // SAFETY: a null handle asks for the first library in the order in which this
            // module's own symbols are found: libtorch and what it links are among them.
            let found = unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
            (!found.is_null()).then_some(found)
        };
        // SAFETY: the signatures are those of GNU's libgomp (libgomp_g.h and omp.h), which are
        // part of its stable interface; LLVM's and Intel's libraries repeat them.
        unsafe {
            use std::mem::transmute;
            Some(Self {
                parallel: transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, c_uint, c_uint),
                >(find(c"GOMP_parallel")?),
                thread_number: transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(find(
                    c"omp_get_thread_num",
                )?),
                thread_count: transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(find(
                    c"omp_get_num_threads",
                )?),
            })
        }
    }
}

struct Job<'a> {
    openmp: &'a OpenMp,
    parts: usize,
    part: &'a (dyn Fn(usize) + Sync),
    panicked: AtomicBool,
}

fn run(parts: usize, part: &(dyn Fn(usize) + Sync)) {
    let Some(openmp) = openmp() else { return (0..parts).for_each(part) };
    let job = Job { openmp, parts, part, panicked: AtomicBool::new(false) };
    // No number of threads: libgomp ends and starts threads when the number changes, so the team
    // is the one that PyTorch's loops use, also where there are fewer parts. Inside somebody's
    // parallel region the team is this thread alone.
    // SAFETY: `GOMP_parallel` calls `run_share` on each thread and returns after the last one, so
    // the job outlives its uses.
    unsafe { (openmp.parallel)(run_share, (&raw const job).cast_mut().cast(), 0, 0) };
    assert!(!job.panicked.load(Ordering::Relaxed), "a part of the work panicked");
}

/// The parts that fall to this thread.
extern "C" fn run_share(job: *mut c_void) {
    // SAFETY: `run` gives a job that lives until the last thread returns, and only shares it.
    let job = unsafe { &*job.cast_const().cast::<Job<'_>>() };
    // SAFETY: these have no requirement.
    let (number, count) = unsafe { ((job.openmp.thread_number)(), (job.openmp.thread_count)()) };
    for index in (number as usize..job.parts).step_by(count.max(1) as usize) {
        // C code cannot be unwound through.
        if catch_unwind(AssertUnwindSafe(|| (job.part)(index))).is_err() {
            job.panicked.store(true, Ordering::Relaxed);
        }
    }
}
