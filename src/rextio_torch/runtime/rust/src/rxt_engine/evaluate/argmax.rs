//! The index of the largest element.

use super::super::super::rxt_core::error::Result;
use super::super::super::rxt_core::shape::Shape;
use super::super::super::rxt_kernels::argmax::argmax_rows;
use super::super::buffer::Buffer;
use super::super::node::{Node, View};
use super::super::parallel::{split, split_map};
use super::super::work;
use super::memory::Shared;
use super::{oriented, Engine};

impl Engine<'_> {
    pub(super) fn argmax(&self, shape: &Shape, dim: usize, input: &Node) -> Result<(Buffer, View)> {
        let (rows, columns) = shape.as_matrix();
        let count = rows * columns;
        let buffer = Buffer::new(count, size_of::<i64>())?;
        let operand = oriented(self.value(input)?, input, dim);
        self.ran(1);
        let out = Shared(buffer.data().cast());
        let length = operand.0.columns;
        let work = work::ARGMAX * (count * length) as f64;
        if self.threads.split_lines(count, 16, work) {
            let found = split_map(self.threads, length, 64, work, |part| {
                let mut found = vec![0; count];
                let matrix = operand.matrix().column_range(part.start, part.end);
                argmax_rows(self.isa, &mut found, matrix);
                found.iter_mut().for_each(|index| *index += part.start as i64);
                found
            });
            let element = |line: usize, index: i64| {
                // SAFETY: an index that was found in a line of the operand.
                unsafe { *operand.matrix().at(line, index as usize) }
            };
            for line in 0..count {
                let first = found[0][line];
                let index = found[1..].iter().fold(first, |best, part| {
                    let (old, new) = (element(line, best), element(line, part[line]));
                    // Strictly: of equal ones the first stays; so does the first NaN.
                    if new > old || (new.is_nan() && !old.is_nan()) {
                        part[line]
                    } else {
                        best
                    }
                });
                // SAFETY: the result has `count` elements of type i64.
                unsafe { *out.get().cast::<i64>().add(line) = index };
            }
            return Ok((buffer, View::contiguous(out.0, rows, columns)));
        }
        split(self.threads, count, 16, work, |part| {
            // SAFETY: each part is written by one thread; it lies inside the result, which has
            // elements of type i64.
            let out = unsafe {
                std::slice::from_raw_parts_mut(out.get().cast::<i64>().add(part.start), part.len())
            };
            argmax_rows(self.isa, out, operand.matrix().row_range(part.start, part.end));
        });
        Ok((buffer, View::contiguous(out.0, rows, columns)))
    }
}
