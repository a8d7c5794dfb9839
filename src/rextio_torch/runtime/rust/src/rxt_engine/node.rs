//! The lazy graph: tensors that exist and operations that are still to run.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::NonNull;

use super::super::rxt_core::shape::Shape;
use super::super::rxt_kernels::elementwise::{Binary, Unary};
use super::super::rxt_kernels::reduce::Reduce;
use super::super::rxt_kernels::view::Matrix;
use super::buffer::Buffer;
use super::counted::{Counted, Recycled, Store};

/// The most operations that wait in one tree: bounds the graph of a long loop, and with it the
/// depth of every recursion over it.
pub const MAX_PENDING: u32 = 32;

/// A tensor of the graph. Cloning shares it.
pub type Node = Counted<NodeData>;

/// Elements in memory as rows and columns (rank 1 is one row); strides in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    pub data: *const f32,
    pub rows: usize,
    pub columns: usize,
    pub row_stride: isize,
    pub column_stride: isize,
}

/// How a matrix lies in memory: row by row, as PyTorch's tensors do by default, or column by
/// column, as a transposed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Rows,
    Columns,
}

/// An operation with its operands.
pub enum Operation {
    Unary(Unary, Node),
    Binary(Binary, Node, Node),
    /// `left @ right + bias`; the operands as matrices, already transposed where they must be.
    Product(Product),
    Reduce {
        op: Reduce,
        dim: usize,
        input: Node,
    },
    Softmax {
        dim: usize,
        input: Node,
    },
    Argmax {
        dim: usize,
        input: Node,
    },
}

pub struct Product {
    pub left: Node,
    pub right: Node,
    /// `linear` multiplies by the transposed weight.
    pub right_transposed: bool,
    /// A vector on the left is a row, on the right a column.
    pub right_is_column: bool,
    pub bias: Option<Node>,
}

/// Who owns borrowed memory.
pub enum Owner {
    /// An object of the caller, who holds it for longer than the node lives.
    Caller(NonNull<c_void>),
    /// What the node keeps alive.
    Node(Box<dyn Any>),
}

pub enum State {
    Borrowed {
        view: View,
        owner: Owner,
    },
    /// A result in memory of our own: f32 with the given strides, or i64 one after the other.
    Owned {
        buffer: Buffer,
        view: View,
    },
    Pending(Operation),
    /// Being evaluated, or handed to Python.
    Taken,
}

pub struct NodeData {
    shape: Shape,
    /// Operations that wait in this tree, counted once for each use.
    pending: Cell<u32>,
    /// Operations that were given this tensor as an operand.
    consumers: Cell<u32>,
    /// Whether this operation was already computed inside a region that did not keep its value.
    inlined: Cell<bool>,
    /// Whether the elements are indices (i64) and not numbers (f32).
    index: bool,
    state: RefCell<State>,
}

thread_local! {
    static STORE: RefCell<Store<NodeData>> = const { Store::new() };
}

impl Recycled for NodeData {
    fn with_store<R>(work: impl FnOnce(&mut Store<Self>) -> R) -> Option<R> {
        STORE.try_with(|store| work(&mut store.borrow_mut())).ok()
    }
}

impl NodeData {
    fn with_state(shape: Shape, pending: u32, state: State) -> Node {
        let index = matches!(state, State::Pending(Operation::Argmax { .. }));
        Counted::new(Self {
            shape,
            pending: Cell::new(pending),
            consumers: Cell::new(0),
            inlined: Cell::new(false),
            index,
            state: RefCell::new(state),
        })
    }

    /// A tensor in memory that somebody else owns.
    ///
    /// # Safety
    /// Every element of the view is valid for reading while the node lives, and nobody writes to
    /// it while an operation of the graph runs.
    pub unsafe fn borrowed(shape: Shape, view: View, owner: Owner) -> Node {
        Self::with_state(shape, 0, State::Borrowed { view, owner })
    }

    /// An operation to run later.
    pub fn pending(shape: Shape, operation: Operation) -> Node {
        let mut waiting = 0u32;
        for input in operation.inputs().into_iter().flatten() {
            waiting = waiting.saturating_add(input.pending.get());
            input.consumers.set(input.consumers.get().saturating_add(1));
        }
        Self::with_state(shape, 1u32.saturating_add(waiting), State::Pending(operation))
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Operations that wait in this tree.
    pub fn pending_count(&self) -> u32 {
        self.pending.get()
    }

    /// Operations that were given this tensor as an operand.
    pub(super) fn consumers(&self) -> u32 {
        self.consumers.get()
    }

    pub(super) fn state(&self) -> &RefCell<State> {
        &self.state
    }

    /// Whether this is an operation, still to run, that works element by element.
    pub(super) fn is_elementwise(&self) -> bool {
        matches!(
            &*self.state.borrow(),
            State::Pending(Operation::Unary(..) | Operation::Binary(..))
        )
    }

    /// Mark as computed inside a region; returns whether it was already.
    pub(super) fn mark_inlined(&self) -> bool {
        self.inlined.replace(true)
    }

    /// The memory of the value, if there is one.
    pub fn view(&self) -> Option<View> {
        match &*self.state.borrow() {
            State::Borrowed { view, .. } | State::Owned { view, .. } => Some(*view),
            State::Pending(_) | State::Taken => None,
        }
    }

    /// The caller's object and where its elements were, if the memory is the caller's.
    pub fn lent(&self) -> Option<(NonNull<c_void>, View)> {
        match &*self.state.borrow() {
            State::Borrowed { view, owner: Owner::Caller(object) } => Some((*object, *view)),
            _ => None,
        }
    }

    pub(super) fn set_owned(&self, buffer: Buffer, view: View) {
        // The operation is dropped here, and with it the operands that nothing else needs.
        self.pending.set(0);
        let old = self.state.replace(State::Owned { buffer, view });
        drop(old);
    }

    /// Whether the elements are indices (i64) and not numbers (f32).
    pub fn is_index(&self) -> bool {
        self.index
    }

    /// Take the memory of a computed result out of the graph; `None` if it is not our own.
    pub fn take_buffer(&self) -> Option<(Buffer, View)> {
        match self.state.replace(State::Taken) {
            State::Owned { buffer, view } => Some((buffer, view)),
            other => {
                self.state.replace(other);
                None
            }
        }
    }
}

impl Operation {
    pub fn inputs(&self) -> [Option<&Node>; 3] {
        match self {
            Self::Unary(_, input)
            | Self::Reduce { input, .. }
            | Self::Softmax { input, .. }
            | Self::Argmax { input, .. } => [Some(input), None, None],
            Self::Binary(_, left, right) => [Some(left), Some(right), None],
            Self::Product(product) => {
                [Some(&product.left), Some(&product.right), product.bias.as_ref()]
            }
        }
    }
}

impl View {
    /// Elements one after the other, row by row.
    pub fn contiguous(data: *const f32, rows: usize, columns: usize) -> Self {
        Self { data, rows, columns, row_stride: columns as isize, column_stride: 1 }
    }

    /// The same elements with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// Repeat rows or columns of size 1 up to a larger shape.
    pub fn broadcast_to(self, rows: usize, columns: usize) -> Self {
        Self {
            rows,
            columns,
            row_stride: if self.rows == 1 { 0 } else { self.row_stride },
            column_stride: if self.columns == 1 { 0 } else { self.column_stride },
            ..self
        }
    }

    /// Write the elements row by row.
    ///
    /// # Safety
    /// The elements are valid for reading and not in `out`, which has as many.
    pub unsafe fn copy_to(&self, out: &mut [f32]) {
        let Self { data, rows, columns, row_stride, column_stride } = *self;
        // SAFETY: the caller's promise.
        unsafe { Matrix::new(data, (rows, columns), (row_stride, column_stride)) }.copy_to(out);
    }

    /// `rows * columns` elements one after the other.
    pub fn dense(data: *const f32, rows: usize, columns: usize, order: Order) -> Self {
        match order {
            Order::Rows => Self::contiguous(data, rows, columns),
            Order::Columns => Self::contiguous(data, columns, rows).transposed(),
        }
    }

    /// Whether the elements lie one after the other in that order, without gap or overlap.
    pub fn lies(&self, order: Order) -> bool {
        let view = match order {
            Order::Rows => *self,
            Order::Columns => self.transposed(),
        };
        (view.column_stride == 1 || view.columns == 1)
            && (view.row_stride == view.columns as isize || view.rows == 1)
    }

    /// The order in which the elements lie one after the other, if there is one.
    pub fn order(&self) -> Option<Order> {
        [Order::Rows, Order::Columns].into_iter().find(|&order| self.lies(order))
    }
}
