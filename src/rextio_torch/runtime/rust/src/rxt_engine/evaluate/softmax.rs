//! Softmax along rows and columns.

use std::ops::Range;

use super::super::super::rxt_core::error::Result;
use super::super::super::rxt_core::shape::Shape;
use super::super::super::rxt_kernels::softmax::{
    softmax, softmax_columns, softmax_in_place, Piece, WIDTH,
};
use super::super::buffer::Buffer;
use super::super::node::{Node, View};
use super::super::parallel::{split, split_map};
use super::super::work;
use super::memory::{f32_buffer, split_out, Readable, Shared};
use super::{along_rows, fold_lines, Engine};

impl Engine<'_> {
    pub(super) fn softmax(
        &self,
        shape: &Shape,
        dim: usize,
        input: &Node,
    ) -> Result<(Buffer, View)> {
        let (rows, columns) = shape.as_matrix();
        let (buffer, out) = f32_buffer(rows * columns)?;
        let view = View::contiguous(out.0, rows, columns);
        let work = work::SOFTMAX * (rows * columns) as f64;
        if !along_rows(input, dim) {
            let operand = self.adjacent(Readable(self.value(input)?), out);
            self.ran(1);
            if self.threads.split_lines(columns, WIDTH, work) {
                self.softmax_of_long_lines(0, operand, out);
                return Ok((buffer, view));
            }
            split(self.threads, columns, WIDTH, work, |part| {
                let matrix = operand.matrix().column_range(part.start, part.end);
                // SAFETY: each column is written by one thread; it lies inside the result, which
                // is the operand's memory or its own.
                unsafe {
                    let out = out.get().add(part.start);
                    softmax_columns(self.isa, out, columns, matrix);
                }
            });
            return Ok((buffer, view));
        }
        let is_long = self.threads.split_lines(rows, 1, work);
        if let Some(region) = self.feeding_region(input)? {
            self.ran(1 + region.0.operations());
            if is_long {
                self.run_region(region, out);
                self.softmax_of_long_lines(1, Readable(view), out);
                return Ok((buffer, view));
            }
            let at_once = region.0.rows_at_once();
            let region = &region;
            let work = work + region.0.work();
            let compute = |part: Range<usize>, out: &mut [f32]| {
                for row in part.clone().step_by(at_once) {
                    let count = at_once.min(part.end - row);
                    let start = (row - part.start) * columns;
                    let out = &mut out[start..start + count * columns];
                    // SAFETY: `out` has `count` rows.
                    unsafe {
                        let to = out.as_mut_ptr();
                        region.0.run(self.isa, row..row + count, 0..columns, to, columns);
                    }
                    softmax_in_place(self.isa, out, count, columns, 1);
                }
            };
            // SAFETY: the whole result.
            unsafe { split_out(self.threads, out, (rows, columns), at_once, work, compute) };
            return Ok((buffer, view));
        }
        let operand = Readable(self.value(input)?);
        self.ran(1);
        if is_long {
            self.softmax_of_long_lines(1, self.adjacent(operand, out), out);
            return Ok((buffer, view));
        }
        let compute = |part: Range<usize>, out: &mut [f32]| {
            softmax(self.isa, out, operand.matrix().row_range(part.start, part.end), 1);
        };
        // SAFETY: the whole result.
        unsafe { split_out(self.threads, out, (rows, columns), 1, work, compute) };
        Ok((buffer, view))
    }

    /// The operand if the elements of its rows are adjacent, else a copy in the result's memory.
    fn adjacent(&self, operand: Readable, out: Shared) -> Readable {
        let View { rows, columns, .. } = operand.0;
        if operand.matrix().unit_rows() {
            return operand;
        }
        let work = work::COPY * (rows * columns) as f64;
        if rows == 1 {
            let copy = |part: Range<usize>, out: &mut [f32]| {
                operand.matrix().column_range(part.start, part.end).copy_to(out);
            };
            // SAFETY: the whole result.
            unsafe { split_out(self.threads, out, (columns, 1), 1024, work, copy) };
        } else {
            let copy = |part: Range<usize>, out: &mut [f32]| {
                operand.matrix().row_range(part.start, part.end).copy_to(out);
            };
            // SAFETY: as above.
            unsafe { split_out(self.threads, out, (rows, columns), 16, work, copy) };
        }
        Readable(View::contiguous(out.0, rows, columns))
    }

    /// Softmax of few lines: each thread has a piece of every line. The elements of the operand's
    /// rows are adjacent.
    fn softmax_of_long_lines(&self, axis: usize, operand: Readable, out: Shared) {
        let (rows, columns) = (operand.0.rows, operand.0.columns);
        let length = [rows, columns][axis];
        // Whole cache lines, and as many elements as the sums are taken over.
        let step = [16, 2048][axis];
        let piece = |part: Range<usize>| {
            let matrix = operand.matrix();
            let (matrix, offset) = if axis == 1 {
                (matrix.column_range(part.start, part.end), part.start)
            } else {
                (matrix.row_range(part.start, part.end), part.start * columns)
            };
            // SAFETY: the piece lies inside the result, which is the operand's memory or its own;
            // each piece is one thread's.
            unsafe { Piece::new(out.get().wrapping_add(offset), columns, matrix, axis) }
        };
        let (threads, isa, elements) = (self.threads, self.isa, (rows * columns) as f64);
        let max = split_map(threads, length, step, work::SOFTMAX_MAX * elements, |part| {
            piece(part).max(isa)
        });
        let max = fold_lines(&max, |a, b| if b > a { b } else { a });
        let work = work::SOFTMAX_EXP * elements;
        let total = split_map(threads, length, step, work, |part| piece(part).exp(isa, &max));
        let total = fold_lines(&total, |a, b| a + b);
        split(threads, length, step, work::SOFTMAX_OVER * elements, |part| {
            piece(part).over(isa, &total)
        });
    }
}
