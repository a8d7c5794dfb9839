//! Sums and means.

use std::ops::Range;

use super::super::super::rxt_core::error::Result;
use super::super::super::rxt_core::shape::Shape;
use super::super::super::rxt_kernels::reduce::{reduce_rows, sum, sum_rows, Reduce};
use super::super::super::rxt_kernels::view::Matrix;
use super::super::buffer::Buffer;
use super::super::node::{Node, View};
use super::super::parallel::{split, split_map};
use super::super::work;
use super::memory::{f32_buffer, split_out, Shared};
use super::{along_rows, fold_lines, oriented, Engine, SharedRegion};

impl Engine<'_> {
    pub(super) fn reduce(
        &self,
        shape: &Shape,
        op: Reduce,
        dim: usize,
        input: &Node,
    ) -> Result<(Buffer, View)> {
        let (rows, columns) = shape.as_matrix();
        let (buffer, out) = f32_buffer(rows * columns)?;
        let view = View::contiguous(out.0, rows, columns);
        if along_rows(input, dim) {
            if let Some(region) = self.feeding_region(input)? {
                self.ran(1 + region.0.operations());
                self.reduce_region(op, &region, out);
                return Ok((buffer, view));
            }
        }
        let operand = oriented(self.value(input)?, input, dim);
        self.ran(1);
        let (lines, length) = (operand.0.rows, operand.0.columns);
        let work = work::REDUCE * (lines * length) as f64;
        if self.threads.split_lines(lines, 16, work) {
            let sums = split_map(self.threads, length, 64, work, |part| {
                let mut sums = vec![0.0; lines];
                let matrix = operand.matrix().column_range(part.start, part.end);
                sum_rows(self.isa, &mut sums, matrix);
                sums
            });
            // SAFETY: the whole result, on this thread.
            finish_sums(op, unsafe { out.part(0, lines) }, &sums, length);
            return Ok((buffer, view));
        }
        split(self.threads, lines, 16, work, |part| {
            // SAFETY: each part is written by one thread; it lies inside the result.
            let out = unsafe { out.part(part.start, part.len()) };
            reduce_rows(self.isa, op, out, operand.matrix().row_range(part.start, part.end));
        });
        Ok((buffer, view))
    }

    fn reduce_region(&self, op: Reduce, region: &SharedRegion, out: Shared) {
        let (rows, columns) = (region.0.rows, region.0.columns);
        let at_once = region.0.rows_at_once();
        let step = region.0.column_step();
        let block = || {
            // A chunk; without it nothing else would work either.
            Buffer::new(at_once * columns.min(step), 4).unwrap_or_else(|error| panic!("{error}"))
        };
        let long_row = |row: usize, part: Range<usize>, memory: Shared| {
            let mut total = 0.0;
            for start in part.clone().step_by(step) {
                let count = step.min(part.end - start);
                // SAFETY: the memory is this thread's, and holds a chunk.
                unsafe {
                    let columns = start..start + count;
                    region.0.run(self.isa, row..row + 1, columns, memory.0, count);
                    total += sum(self.isa, memory.part(0, count));
                }
            }
            total
        };
        let work = region.0.work();
        if self.threads.split_lines(rows, at_once, work) {
            let sums = split_map(self.threads, columns, step, work, |part| {
                let block = block();
                let memory = Shared(block.data().cast());
                (0..rows).map(|row| long_row(row, part.clone(), memory)).collect()
            });
            // SAFETY: the whole result, on this thread.
            finish_sums(op, unsafe { out.part(0, rows) }, &sums, columns);
            return;
        }
        let reduce = |part: Range<usize>, out: &mut [f32]| {
            let block = block();
            let memory = Shared(block.data().cast());
            for (row, out) in part.step_by(at_once).zip(out.chunks_mut(at_once)) {
                let count = out.len();
                // SAFETY: the block's memory is this thread's; it has `count` rows, or one chunk
                // of a row.
                unsafe {
                    if columns <= step {
                        let block = memory.part(0, count * columns);
                        region.0.run(self.isa, row..row + count, 0..columns, memory.0, columns);
                        reduce_rows(self.isa, op, out, Matrix::from_slice(block, count, columns));
                    } else {
                        out[0] = op.finish(long_row(row, 0..columns, memory), columns);
                    }
                }
            }
        };
        // SAFETY: the whole result: one value for each row.
        unsafe { split_out(self.threads, out, (rows, 1), at_once, work, reduce) };
    }
}

/// Results of lines that were added up in parts.
fn finish_sums(op: Reduce, out: &mut [f32], parts: &[Vec<f64>], length: usize) {
    for (out, sum) in out.iter_mut().zip(fold_lines(parts, |a, b| a + b)) {
        *out = op.finish(sum, length);
    }
}
