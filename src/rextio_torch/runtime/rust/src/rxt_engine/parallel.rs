//! Splitting work over threads: as many as PyTorch uses, never more.
//!
//! A pool of its own for each number of threads and each process: a forked child has none of its
//! parent's threads and makes a new pool. While nothing is to do, the threads sleep.

use std::ops::Range;
use std::process;
use std::sync::{Arc, Mutex};

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Work in nanoseconds below which one thread is faster than waking another.
pub const PARALLEL_NANOSECONDS: f64 = 40_000.0;

struct Pool {
    process: u32,
    threads: usize,
    pool: Arc<ThreadPool>,
}

static POOL: Mutex<Option<Pool>> = Mutex::new(None);

/// The pool of this process with that many threads; `None` if there is none to be had now.
fn pool(threads: usize) -> Option<Arc<ThreadPool>> {
    // Held for moments only. A child forked in such a moment, and a thread that comes second,
    // computes alone.
    let mut current = POOL.try_lock().ok()?;
    let process = process::id();
    if let Some(found) = &*current {
        if found.process == process && found.threads == threads {
            return Some(found.pool.clone());
        }
        if found.process != process {
            // Threads of the parent: dropping the pool would wait for them for ever.
            std::mem::forget(current.take());
        }
    }
    let built = ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("rextio-torch-{index}"))
        .build();
    let pool = Arc::new(built.ok()?);
    *current = Some(Pool { process, threads, pool: pool.clone() });
    Some(pool)
}

/// Call `work` with ranges that together are `0..total`: one range on this thread, or one for each
/// thread where the whole work (in nanoseconds) is worth it. Ranges begin at multiples of `step`.
pub fn split(
    threads: usize,
    total: usize,
    step: usize,
    nanoseconds: f64,
    work: impl Fn(Range<usize>) + Sync,
) {
    let steps = total.div_ceil(step.max(1));
    let parts = threads.min(steps).min((nanoseconds / PARALLEL_NANOSECONDS * 2.0) as usize);
    if parts < 2 {
        return work(0..total);
    }
    let Some(pool) = pool(threads) else { return work(0..total) };
    let part = |index: usize| (steps * index / parts * step).min(total);
    pool.in_place_scope(|scope| {
        for index in 1..parts {
            let work = &work;
            scope.spawn(move |_| work(part(index)..part(index + 1)));
        }
        work(0..part(1));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn covered(threads: usize, total: usize, step: usize, nanoseconds: f64) -> usize {
        let counts: Vec<AtomicUsize> = (0..total).map(|_| AtomicUsize::new(0)).collect();
        let calls = AtomicUsize::new(0);
        split(threads, total, step, nanoseconds, |range| {
            assert!(range.start % step == 0);
            calls.fetch_add(1, Ordering::Relaxed);
            for index in range {
                counts[index].fetch_add(1, Ordering::Relaxed);
            }
        });
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        calls.into_inner()
    }

    // One test: the pool is the process's, and who comes second computes alone.
    #[test]
    fn every_index_is_visited_once_and_small_work_stays_on_one_thread() {
        for total in [0, 1, 7, 64, 1000] {
            for step in [1, 3, 64] {
                for threads in [1, 2, 5] {
                    covered(threads, total, step, 1e9);
                }
            }
        }
        assert_eq!(covered(4, 1000, 1, 10_000.0), 1);
        assert_eq!(covered(2, 1000, 1, 1e6), 2);
        assert_eq!(covered(5, 1000, 1, 1e6), 5);
    }
}
