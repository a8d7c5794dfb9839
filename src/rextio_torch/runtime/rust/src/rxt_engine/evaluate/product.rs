//! Matrix products with bias and activation.

use std::ops::Range;

use super::super::super::rxt_core::error::Result;
use super::super::super::rxt_core::shape::Shape;
use super::super::super::rxt_kernels::elementwise::{unary_in_place, Unary};
use super::super::super::rxt_kernels::matmul::{matmul, Epilogue};
use super::super::buffer::Buffer;
use super::super::node::{Product, View};
use super::super::parallel::split;
use super::super::work;
use super::memory::{f32_buffer, split_out, Readable};
use super::Engine;

impl Engine<'_> {
    pub(super) fn product(
        &self,
        shape: &Shape,
        product: &Product,
        op: Option<Unary>,
    ) -> Result<(Buffer, View)> {
        let left = Readable(self.value(&product.left)?);
        let right = self.value(&product.right)?;
        let transposed = product.right_transposed || product.right_is_column;
        let right = Readable(if transposed { right.transposed() } else { right });
        let bias = product.bias.as_ref().map(|bias| self.value(bias)).transpose()?;
        self.ran(1 + usize::from(op.is_some()));
        let (m, k, n) = (left.0.rows, left.0.columns, right.0.columns);
        let bias = bias.map(|bias| bias.broadcast_to(1, n));
        let (buffer, out) = f32_buffer(m * n)?;
        let (rows, columns) = shape.as_matrix();
        let view = View::contiguous(out.0, rows, columns);
        if self.products.takes(&left.0, &right.0) {
            // SAFETY: `out` is new memory of `m * n` elements.
            unsafe { self.products.product(out.0, left.0, right.0, bias)? };
            if let Some(op) = op {
                let work = op.nanoseconds() * (m * n) as f64;
                let apply = |_: Range<usize>, out: &mut [f32]| unary_in_place(self.isa, op, out);
                // SAFETY: the whole result.
                unsafe { split_out(self.threads, out, (m * n, 1), 1024, work, apply) };
            }
            return Ok((buffer, view));
        }
        let copied =
            bias.filter(|bias| bias.column_stride != 1).map(|bias| Readable(bias).elements());
        let adjacent = bias.map(|bias| {
            // SAFETY: a view's row is valid for reading while its node lives, which `product` holds.
            unsafe { std::slice::from_raw_parts(bias.data, n) }
        });
        let bias = copied.as_deref().or(adjacent);
        let work = work::product(m, k, n);
        if m.div_ceil(8) < self.threads.count {
            // Few rows: the time goes into reading the right operand, a part on each thread.
            split(self.threads, n, 64, work, |part| {
                let width = part.len();
                let columns = right.matrix().column_range(part.start, part.end);
                let epilogue = Epilogue { bias: bias.map(|bias| &bias[part.clone()]), op };
                if m == 1 || width == n {
                    // SAFETY: each part is written by one thread; it lies inside the result.
                    let out = unsafe { out.part(part.start, m * width) };
                    return matmul(self.isa, out, left.matrix(), columns, epilogue);
                }
                let mut block = vec![0.0; m * width];
                matmul(self.isa, &mut block, left.matrix(), columns, epilogue);
                for (row, from) in block.chunks_exact(width).enumerate() {
                    // SAFETY: as above.
                    unsafe { out.part(row * n + part.start, width) }.copy_from_slice(from);
                }
            });
        } else {
            let multiply = |part: Range<usize>, out: &mut [f32]| {
                let rows = left.matrix().row_range(part.start, part.end);
                matmul(self.isa, out, rows, right.matrix(), Epilogue { bias, op });
            };
            // SAFETY: the whole result.
            unsafe { split_out(self.threads, out, (m, n), 8, work, multiply) };
        }
        Ok((buffer, view))
    }
}
