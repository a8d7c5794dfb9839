//! What the fused engine ran as one: for the tests that hold `explain` against it.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

static OBSERVING: AtomicBool = AtomicBool::new(false);
static GROUPS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

#[inline]
pub fn observer() -> Option<fn(usize)> {
    OBSERVING.load(Ordering::Relaxed).then_some(record)
}

fn record(operations: usize) {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner).push(operations);
}

/// Begin to observe, with nothing recorded, or end it.
#[no_mangle]
pub extern "C" fn rextio_torch_observe(on: c_int) {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner).clear();
    OBSERVING.store(on != 0, Ordering::Relaxed);
}

/// How many operations ran as one at the `index`th time; 0 after the last.
#[no_mangle]
pub extern "C" fn rextio_torch_observed(index: usize) -> usize {
    let groups = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
    groups.get(index).copied().unwrap_or(0)
}
