//! Splitting work over threads: as many as PyTorch uses, never more.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Calls the function with every number below the first argument, on several threads, and returns
/// when all calls have.
pub type RunParts = fn(usize, &(dyn Fn(usize) + Sync));

/// How many threads share the work, and how they come to it.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    pub count: usize,
    /// Nanoseconds of work that are worth another thread.
    part_nanoseconds: f64,
    run: RunParts,
}

impl Threads {
    pub fn new(count: usize, part_nanoseconds: f64, run: RunParts) -> Self {
        Self { count, part_nanoseconds, run }
    }

    /// Threads that are started when there is work and end with it: they need nobody's pool.
    pub fn started(count: usize) -> Self {
        Self::new(count, 100_000.0, run_on_started_threads)
    }

    /// Whether to split the lines themselves: there are few of them, and each is long.
    pub fn split_lines(self, lines: usize, step: usize, nanoseconds: f64) -> bool {
        self.count > 1
            && lines.div_ceil(step) < 4 * self.count
            && nanoseconds > 2.0 * self.part_nanoseconds * lines as f64
    }
}

fn run_on_started_threads(parts: usize, part: &(dyn Fn(usize) + Sync)) {
    std::thread::scope(|scope| {
        for index in 1..parts {
            let started = std::thread::Builder::new().spawn_scoped(scope, move || part(index));
            if started.is_err() {
                part(index);
            }
        }
        part(0);
    });
}

/// Call `work` with ranges that together are `0..total`: one range on this thread, or one for each
/// thread where the whole work (in nanoseconds) is worth it. Ranges begin at multiples of `step`.
pub fn split(
    threads: Threads,
    total: usize,
    step: usize,
    nanoseconds: f64,
    work: impl Fn(Range<usize>) + Sync,
) {
    let steps = total.div_ceil(step.max(1));
    let parts = threads.count.min(steps).min((nanoseconds / threads.part_nanoseconds) as usize);
    if parts < 2 {
        return work(0..total);
    }
    let start = |index: usize| (steps * index / parts * step).min(total);
    (threads.run)(parts, &|index| work(start(index)..start(index + 1)));
}

/// [`split`], and what `work` returned for each range, in the order of the ranges.
pub fn split_map<T: Send>(
    threads: Threads,
    total: usize,
    step: usize,
    nanoseconds: f64,
    work: impl Fn(Range<usize>) -> T + Sync,
) -> Vec<T> {
    let done = Mutex::new(Vec::with_capacity(threads.count));
    split(threads, total, step, nanoseconds, |range| {
        let start = range.start;
        let value = work(range);
        done.lock().unwrap_or_else(PoisonError::into_inner).push((start, value));
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(start, _)| *start);
    done.into_iter().map(|(_, value)| value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn covered(count: usize, total: usize, step: usize, nanoseconds: f64) -> usize {
        let counts: Vec<AtomicUsize> = (0..total).map(|_| AtomicUsize::new(0)).collect();
        let ranges = split_map(Threads::started(count), total, step, nanoseconds, |range| {
            assert!(range.start % step == 0);
            for index in range.clone() {
                counts[index].fetch_add(1, Ordering::Relaxed);
            }
            range
        });
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
        ranges.len()
    }

    #[test]
    fn every_index_is_visited_once() {
        for total in [0, 1, 7, 64, 1000] {
            for step in [1, 3, 64] {
                for count in [1, 2, 5] {
                    covered(count, total, step, 1e9);
                }
            }
        }
    }

    #[test]
    fn small_work_stays_on_one_thread() {
        assert_eq!(covered(4, 1000, 1, 10_000.0), 1);
        assert_eq!(covered(2, 1000, 1, 1e6), 2);
        assert_eq!(covered(5, 1000, 1, 1e6), 5);
    }

    #[test]
    fn lines_are_split_where_they_are_few_and_long() {
        let two = Threads::started(2);
        assert!(two.split_lines(1, 1, 1e9));
        assert!(!two.split_lines(1000, 1, 1e9));
        assert!(!two.split_lines(1, 1, 1e4));
        assert!(!Threads::started(1).split_lines(1, 1, 1e9));
    }

    #[test]
    #[should_panic(expected = "scoped thread")]
    fn a_panic_of_a_part_arrives() {
        split(Threads::started(2), 2, 1, 1e9, |range| assert!(range.start == 0));
    }
}
