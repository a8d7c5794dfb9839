//! Elementwise operations: a single one, or a region.

use std::ops::Range;

use super::super::super::rxt_core::error::Result;
use super::super::super::rxt_core::shape::Shape;
use super::super::super::rxt_kernels::elementwise::{
    binary_unchecked, unary_unchecked, Binary, Unary,
};
use super::super::buffer::Buffer;
use super::super::node::{Node, Operation, View};
use super::super::parallel::split;
use super::super::region::Region;
use super::super::work;
use super::memory::{f32_buffer, split_out, Readable, Shared};
use super::{Engine, SharedRegion};

/// A single operation, without what only one thread may hold.
#[derive(Clone, Copy)]
enum Job {
    Unary(Unary),
    Binary(Binary, Readable),
}

impl Engine<'_> {
    pub(super) fn elementwise(
        &self,
        shape: &Shape,
        operation: &Operation,
    ) -> Result<(Buffer, View)> {
        let (rows, columns) = shape.as_matrix();
        for input in operation.inputs().into_iter().flatten() {
            // What does not join a region is computed first in any case.
            if !input.is_elementwise() {
                self.value(input)?;
            }
        }
        if let Some(done) = self.single(shape, operation) {
            self.ran(1);
            return done;
        }
        let region = Region::new((rows, columns), operation, |node| self.value(node))?;
        self.ran(region.operations());
        let (buffer, data) = f32_buffer(rows * columns)?;
        let view = View::dense(data.0, rows, columns, region.order);
        self.run_region(SharedRegion(region), data);
        Ok((buffer, view))
    }

    /// One operation on tensors that exist and lie in memory in one and the same order: no region
    /// is worth building.
    fn single(&self, shape: &Shape, operation: &Operation) -> Option<Result<(Buffer, View)>> {
        let (rows, columns) = shape.as_matrix();
        let count = rows * columns;
        let dense = |node: &Node| {
            let view = node.view()?;
            let order = view.order()?;
            ((view.rows, view.columns) == (rows, columns)).then_some((view, order))
        };
        let ((first, order), job, nanoseconds) = match operation {
            Operation::Unary(op, input) => (dense(input)?, Job::Unary(*op), op.nanoseconds()),
            Operation::Binary(op, left, right) => {
                let (left, (right, order)) = (dense(left)?, dense(right)?);
                let right = (left.1 == order).then_some(Readable(right))?;
                (left, Job::Binary(*op, right), work::BINARY)
            }
            _ => return None,
        };
        let (buffer, out) = match f32_buffer(count) {
            Ok(made) => made,
            Err(error) => return Some(Err(error)),
        };
        let first = Readable(first);
        split(self.threads, count, 1024, (work::READ + nanoseconds) * count as f64, |part| {
            let at = |view: Readable| view.get().data.wrapping_add(part.start);
            // SAFETY: operands and result have `count` elements, one after the other in memory in
            // some order; each part of the result is written by one thread.
            unsafe {
                let out = out.part(part.start, part.len()).as_mut_ptr();
                match job {
                    Job::Unary(op) => unary_unchecked(self.isa, op, out, at(first), part.len()),
                    Job::Binary(op, second) => {
                        binary_unchecked(self.isa, op, out, at(first), at(second), part.len());
                    }
                }
            }
        });
        Some(Ok((buffer, View::dense(out.get(), rows, columns, order))))
    }

    /// Compute a whole region into contiguous memory.
    pub(super) fn run_region(&self, region: SharedRegion, out: Shared) {
        let (rows, columns) = (region.0.rows, region.0.columns);
        let work = region.0.work();
        let shared = &region;
        if self.threads.split_lines(rows, region.0.rows_at_once(), work) {
            for row in 0..rows {
                let step = region.0.column_step();
                let compute = |part: Range<usize>, out: &mut [f32]| {
                    // SAFETY: the part of the row is as long as `out`.
                    unsafe {
                        shared.0.run(self.isa, row..row + 1, part, out.as_mut_ptr(), columns)
                    };
                };
                let work = work / rows as f64;
                // SAFETY: a row of the result.
                unsafe {
                    let out = Shared(out.0.add(row * columns));
                    split_out(self.threads, out, (columns, 1), step, work, compute);
                }
            }
        } else {
            let compute = |part: Range<usize>, out: &mut [f32]| {
                // SAFETY: `out` has as many rows as the part.
                unsafe { shared.0.run(self.isa, part, 0..columns, out.as_mut_ptr(), columns) };
            };
            let step = region.0.rows_at_once();
            // SAFETY: the whole result.
            unsafe { split_out(self.threads, out, (rows, columns), step, work, compute) };
        }
    }
}
