//! Computing the value of a node.

mod argmax;
mod elementwise;
mod memory;
mod product;
mod reduce;
mod softmax;

use super::super::rxt_core::error::{Error, Result};
use super::super::rxt_core::shape::Shape;
use super::super::rxt_kernels::simd::Isa;
use super::buffer::Buffer;
use super::node::{Node, NodeData, Operation, Order, Product, State, View};
use super::parallel::Threads;
use super::region::Region;
use super::work;
use memory::Readable;

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
                let own = work::own(operation, node.shape());
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
}

/// The parts' values for each line, put together in the order of the parts.
fn fold_lines<T: Copy>(parts: &[Vec<T>], join: impl Fn(T, T) -> T + Copy) -> Vec<T> {
    let lines = 0..parts[0].len();
    let fold =
        |line: usize| parts[1..].iter().fold(parts[0][line], |all, part| join(all, part[line]));
    lines.map(fold).collect()
}

/// Whether a reduction along `dim` takes the elements of each row together.
fn along_rows(input: &Node, dim: usize) -> bool {
    dim + 1 == input.shape().len()
}

/// The operand with the reduced dimension as its columns.
fn oriented(view: View, input: &Node, dim: usize) -> Readable {
    Readable(if along_rows(input, dim) { view } else { view.transposed() })
}
