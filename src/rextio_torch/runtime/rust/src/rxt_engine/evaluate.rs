//! Computing the value of a node.

use std::ops::Range;

use super::super::rxt_core::error::{Error, Result};
use super::super::rxt_core::shape::Shape;
use super::super::rxt_kernels::argmax::argmax_rows;
use super::super::rxt_kernels::elementwise::{
    binary_unchecked, unary_in_place, unary_unchecked, Binary, Unary,
};
use super::super::rxt_kernels::matmul::{matmul, Epilogue};
use super::super::rxt_kernels::reduce::{reduce_rows, sum, sum_rows, Reduce};
use super::super::rxt_kernels::simd::Isa;
use super::super::rxt_kernels::softmax::{
    softmax, softmax_columns, softmax_in_place, Piece, WIDTH,
};
use super::super::rxt_kernels::view::Matrix;
use super::buffer::Buffer;
use super::node::{Node, NodeData, Operation, Order, Product, State, View};
use super::parallel::{split, split_map, Threads};
use super::region::Region;

/// Matrix products that another library computes faster.
pub trait Products: Sync {
    /// Whether `left @ right` is one of them.
    fn takes(&self, left: &View, right: &View) -> bool;

    /// `out = left @ right + bias`; `out` is contiguous, `bias` one value for each column.
    ///
    /// # Safety
    /// `out` is valid for writing `left.rows * right.columns` elements, and overlaps no operand.
    unsafe fn product(
        &self,
        out: *mut f32,
        left: View,
        right: View,
        bias: Option<View>,
    ) -> Result<()>;
}

/// Where and how nodes are evaluated.
pub struct Engine<'a> {
    pub isa: Isa,
    pub threads: Threads,
    pub products: &'a dyn Products,
    /// Whether the function has ended: no operation follows, whatever names still stand for
    /// tensors.
    pub last: bool,
    /// Told how many operations ran as one, each time some did.
    pub observer: Option<fn(usize)>,
}

/// A pointer that several threads write disjoint parts of.
#[derive(Clone, Copy)]
struct Shared(*mut f32);

// SAFETY: each use says which part it writes, and parts are disjoint.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn get(self) -> *mut f32 {
        self.0
    }

    /// # Safety
    /// `offset..offset + count` lies in the memory behind the pointer, and no other thread uses
    /// that part while the slice lives.
    unsafe fn part<'a>(self, offset: usize, count: usize) -> &'a mut [f32] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(offset), count) }
    }
}

/// A view that several threads read.
#[derive(Clone, Copy)]
struct Readable(View);

// SAFETY: threads only read it. Where it is the memory of the result itself, each thread touches
// its own part only.
unsafe impl Sync for Readable {}
// SAFETY: an address and sizes; nothing in it depends on the thread.
unsafe impl Send for Readable {}

impl Readable {
    fn get(self) -> View {
        self.0
    }

    fn matrix(&self) -> Matrix<'_> {
        let View { data, rows, columns, row_stride, column_stride } = self.0;
        // SAFETY: a node's view is valid for reading while the node lives, and the caller keeps
        // the node for as long as it uses the matrix.
        unsafe { Matrix::new(data, (rows, columns), (row_stride, column_stride)) }
    }
}

/// A single operation, without what only one thread may hold.
#[derive(Clone, Copy)]
enum Job {
    Unary(Unary),
    Binary(Binary, Readable),
}

/// A region that several threads run.
struct SharedRegion(Region);

// SAFETY: running a region only reads it: its nodes (reference counted for one thread) are kept,
// not touched.
unsafe impl Sync for SharedRegion {}

impl Engine<'_> {
    /// Compute a node if it has no value yet, and return the memory of its value.
    pub fn value(&self, node: &Node) -> Result<View> {
        if let Some(view) = node.view() {
            return Ok(view);
        }
        let state = node.state().replace(State::Taken);
        let State::Pending(operation) = state else {
            return Err(Error::runtime("a tensor was used after it was handed out".to_owned()));
        };
        let (buffer, view) = self.compute(node.shape(), &operation)?;
        node.set_owned(buffer, view);
        Ok(view)
    }

    /// Estimated nanoseconds that computing a node takes on one thread.
    pub fn work(&self, node: &NodeData) -> f64 {
        match &*node.state().borrow() {
            State::Pending(operation) => {
                let inputs = operation.inputs();
                let own = own_work(operation, node.shape());
                own + inputs.iter().flatten().map(|input| self.work(input)).sum::<f64>()
            }
            _ => 0.0,
        }
    }

    fn ran(&self, operations: usize) {
        if let Some(observer) = self.observer {
            observer(operations);
        }
    }

    fn compute(&self, shape: &Shape, operation: &Operation) -> Result<(Buffer, View)> {
        match operation {
            Operation::Unary(op, input) => match self.product_before(input) {
                Some(product) => self.product(shape, &product, Some(*op)),
                None => self.elementwise(shape, operation),
            },
            Operation::Binary(..) => self.elementwise(shape, operation),
            Operation::Product(product) => self.product(shape, product, None),
            Operation::Reduce { op, dim, input } => self.reduce(shape, *op, *dim, input),
            Operation::Softmax { dim, input } => self.softmax(shape, *dim, input),
            Operation::Argmax { dim, input } => self.argmax(shape, *dim, input),
        }
    }

    /// The product that only the operation being computed needs: its activation is applied
    /// before anyone sees it.
    fn product_before(&self, input: &Node) -> Option<Product> {
        let only = input.count() == 1 || (self.last && input.consumers() == 1);
        if !only {
            return None;
        }
        let state = input.state().replace(State::Taken);
        match state {
            State::Pending(Operation::Product(product)) => Some(product),
            other => {
                input.state().replace(other);
                None
            }
        }
    }

    fn elementwise(&self, shape: &Shape, operation: &Operation) -> Result<(Buffer, View)> {
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
                (left, Job::Binary(*op, (left.1 == order).then_some(Readable(right))?), 0.1)
            }
            _ => return None,
        };
        let (buffer, out) = match f32_buffer(count) {
            Ok(made) => made,
            Err(error) => return Some(Err(error)),
        };
        let first = Readable(first);
        split(self.threads, count, 1024, (0.2 + nanoseconds) * count as f64, |part| {
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
    fn run_region(&self, region: SharedRegion, out: Shared) {
        let (rows, columns) = (region.0.rows, region.0.columns);
        let work = region.0.work();
        let shared = &region;
        if self.threads.split_lines(rows, region.0.rows_at_once(), work) {
            for row in 0..rows {
                let step = region.0.column_step();
                split(self.threads, columns, step, work / rows as f64, |part| {
                    // SAFETY: each part is written by one thread; it lies inside the result.
                    unsafe {
                        let out = out.part(row * columns + part.start, part.len());
                        shared.0.run(self.isa, row..row + 1, part, out.as_mut_ptr(), columns);
                    }
                });
            }
        } else {
            split(self.threads, rows, region.0.rows_at_once(), work, |part| {
                // SAFETY: as above.
                unsafe {
                    let out = out.part(part.start * columns, part.len() * columns);
                    shared.0.run(self.isa, part, 0..columns, out.as_mut_ptr(), columns);
                }
            });
        }
    }

    fn product(
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
                split(self.threads, m * n, 1024, work, |part| {
                    // SAFETY: each part is written by one thread; it lies inside the result.
                    unary_in_place(self.isa, op, unsafe { out.part(part.start, part.len()) });
                });
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
        let work = product_work(m, k, n);
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
            split(self.threads, m, 8, work, |part| {
                let rows = left.matrix().row_range(part.start, part.end);
                // SAFETY: as above.
                let out = unsafe { out.part(part.start * n, part.len() * n) };
                matmul(self.isa, out, rows, right.matrix(), Epilogue { bias, op });
            });
        }
        Ok((buffer, view))
    }

    /// The region that computes `input` row by row, if it is elementwise and nothing else has
    /// its value: a reduction consumes the rows as they come.
    fn feeding_region(&self, input: &Node) -> Result<Option<SharedRegion>> {
        if !input.is_elementwise() || input.mark_inlined() {
            return Ok(None);
        }
        if let State::Pending(Operation::Unary(_, before)) = &*input.state().borrow() {
            // An activation on a product belongs to the product.
            if matches!(&*before.state().borrow(), State::Pending(Operation::Product(_))) {
                return Ok(None);
            }
        }
        let state = input.state().borrow();
        let State::Pending(operation) = &*state else { return Ok(None) };
        let size = input.shape().as_matrix();
        let region = Region::new(size, operation, |node| self.value(node))?;
        // Rows of the region are what is reduced only if it lies row by row.
        Ok((region.order == Order::Rows).then_some(SharedRegion(region)))
    }

    fn reduce(
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
        let work = 0.2 * (lines * length) as f64;
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
        split(self.threads, rows, at_once, work, |part| {
            let block = block();
            let memory = Shared(block.data().cast());
            for row in part.clone().step_by(at_once) {
                let count = at_once.min(part.end - row);
                // SAFETY: the block's memory is this thread's; it has `count` rows, or one chunk
                // of a row. Each element of the result is written by one thread.
                unsafe {
                    let out = out.part(row, count);
                    if columns <= step {
                        let block = memory.part(0, count * columns);
                        region.0.run(self.isa, row..row + count, 0..columns, memory.0, columns);
                        reduce_rows(self.isa, op, out, Matrix::from_slice(block, count, columns));
                    } else {
                        out[0] = op.finish(long_row(row, 0..columns, memory), columns);
                    }
                }
            }
        });
    }

    fn softmax(&self, shape: &Shape, dim: usize, input: &Node) -> Result<(Buffer, View)> {
        let (rows, columns) = shape.as_matrix();
        let (buffer, out) = f32_buffer(rows * columns)?;
        let view = View::contiguous(out.0, rows, columns);
        let work = 1.0 * (rows * columns) as f64;
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
            split(self.threads, rows, at_once, work + region.0.work(), |part| {
                for row in part.clone().step_by(at_once) {
                    let count = at_once.min(part.end - row);
                    // SAFETY: each row is written by one thread; it lies inside the result.
                    unsafe {
                        let out = out.part(row * columns, count * columns);
                        let to = out.as_mut_ptr();
                        region.0.run(self.isa, row..row + count, 0..columns, to, columns);
                        softmax_in_place(self.isa, out, count, columns, 1);
                    }
                }
            });
            return Ok((buffer, view));
        }
        let operand = Readable(self.value(input)?);
        self.ran(1);
        if is_long {
            self.softmax_of_long_lines(1, self.adjacent(operand, out), out);
            return Ok((buffer, view));
        }
        split(self.threads, rows, 1, work, |part| {
            // SAFETY: each row is written by one thread; it lies inside the result.
            let out = unsafe { out.part(part.start * columns, part.len() * columns) };
            softmax(self.isa, out, operand.matrix().row_range(part.start, part.end), 1);
        });
        Ok((buffer, view))
    }

    /// The operand if the elements of its rows are adjacent, else a copy in the result's memory.
    fn adjacent(&self, operand: Readable, out: Shared) -> Readable {
        let View { rows, columns, .. } = operand.0;
        if operand.matrix().unit_rows() {
            return operand;
        }
        let work = 0.5 * (rows * columns) as f64;
        if rows == 1 {
            split(self.threads, columns, 1024, work, |part| {
                // SAFETY: each part is written by one thread; it lies inside the result.
                let out = unsafe { out.part(part.start, part.len()) };
                operand.matrix().column_range(part.start, part.end).copy_to(out);
            });
        } else {
            split(self.threads, rows, 16, work, |part| {
                // SAFETY: as above.
                let out = unsafe { out.part(part.start * columns, part.len() * columns) };
                operand.matrix().row_range(part.start, part.end).copy_to(out);
            });
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
        let max = split_map(threads, length, step, 0.2 * elements, |part| piece(part).max(isa));
        let max = fold_lines(&max, |a, b| if b > a { b } else { a });
        let work = 0.5 * elements;
        let total = split_map(threads, length, step, work, |part| piece(part).exp(isa, &max));
        let total = fold_lines(&total, |a, b| a + b);
        split(threads, length, step, 0.3 * elements, |part| piece(part).over(isa, &total));
    }

    fn argmax(&self, shape: &Shape, dim: usize, input: &Node) -> Result<(Buffer, View)> {
        let (rows, columns) = shape.as_matrix();
        let count = rows * columns;
        let buffer = Buffer::new(count, size_of::<i64>())?;
        let operand = oriented(self.value(input)?, input, dim);
        self.ran(1);
        let out = Shared(buffer.data().cast());
        let length = operand.0.columns;
        let work = 0.3 * (count * length) as f64;
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

impl Readable {
    /// The elements of a single row, copied.
    fn elements(&self) -> Vec<f32> {
        let mut elements = vec![0.0; self.0.columns];
        self.matrix().copy_to(&mut elements);
        elements
    }
}

/// The parts' values for each line, put together in the order of the parts.
fn fold_lines<T: Copy>(parts: &[Vec<T>], join: impl Fn(T, T) -> T + Copy) -> Vec<T> {
    let lines = 0..parts[0].len();
    let fold =
        |line: usize| parts[1..].iter().fold(parts[0][line], |all, part| join(all, part[line]));
    lines.map(fold).collect()
}

/// Results of lines that were added up in parts.
fn finish_sums(op: Reduce, out: &mut [f32], parts: &[Vec<f64>], length: usize) {
    for (out, sum) in out.iter_mut().zip(fold_lines(parts, |a, b| a + b)) {
        *out = op.finish(sum, length);
    }
}

fn f32_buffer(count: usize) -> Result<(Buffer, Shared)> {
    let buffer = Buffer::new(count, size_of::<f32>())?;
    let data = Shared(buffer.data().cast());
    Ok((buffer, data))
}

/// Whether a reduction along `dim` takes the elements of each row together.
fn along_rows(input: &Node, dim: usize) -> bool {
    dim + 1 == input.shape().len()
}

/// The operand with the reduced dimension as its columns.
fn oriented(view: View, input: &Node, dim: usize) -> Readable {
    Readable(if along_rows(input, dim) { view } else { view.transposed() })
}

/// Estimated nanoseconds of a product on one thread: arithmetic, or reading the operands.
fn product_work(m: usize, k: usize, n: usize) -> f64 {
    let (m, k, n) = (m as f64, k as f64, n as f64);
    (m * k * n / 25.0).max((k * n + m * k) * 0.1)
}

fn own_work(operation: &Operation, shape: &Shape) -> f64 {
    let elements = |node: &Node| node.shape().elements() as f64;
    match operation {
        Operation::Unary(op, input) => (0.2 + op.nanoseconds()) * elements(input),
        Operation::Binary(..) => 0.3 * shape.elements() as f64,
        Operation::Product(product) => {
            let k = product.left.shape()[product.left.shape().len() - 1];
            product_work(product.left.shape().elements() / k.max(1), k, {
                product.right.shape().elements() / k.max(1)
            })
        }
        Operation::Reduce { input, .. } => 0.2 * elements(input),
        Operation::Softmax { input, .. } => elements(input),
        Operation::Argmax { input, .. } => 0.3 * elements(input),
    }
}
