//! A region: elementwise operations that run together, chunk by chunk, without temporaries in
//! main memory.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use super::super::rxt_core::error::Result;
use super::super::rxt_kernels::elementwise::{
    binary_unchecked, gather, gather_transposed, unary_unchecked, Binary, Unary,
};
use super::super::rxt_kernels::simd::Isa;
use super::buffer::Buffer;
use super::node::{Node, NodeData, Operation, Order, State, View};

/// Scratch memory of a thread for one region, in elements: together with what the region reads
/// and writes it stays in the first-level cache.
const SCRATCH: usize = 8 * 1024;
const SMALLEST_CHUNK: usize = 256;
const LARGEST_CHUNK: usize = 2048;

#[derive(Clone, Copy)]
enum Source {
    Register(usize),
    Leaf(usize),
}

#[derive(Clone, Copy)]
enum Instruction {
    Unary(Unary, Source),
    Binary(Binary, Source, Source),
}

/// Elementwise operations over one shape, ready to run.
pub struct Region {
    pub rows: usize,
    pub columns: usize,
    leaves: Vec<View>,
    /// In order; the second part is the register of the result.
    code: Vec<(Instruction, usize)>,
    registers: usize,
    /// Elements of a chunk.
    chunk: usize,
    /// Estimate for one element.
    pub nanoseconds: f64,
    /// `Columns` where all leaves lie column by column: then rows and columns are exchanged.
    pub order: Order,
    /// Keeps the memory of the leaves.
    _nodes: Vec<Node>,
}

/// Whether a node waits to be computed element by element, and a region may do it.
fn joins(node: &NodeData, rows: usize, columns: usize) -> bool {
    // A smaller tensor that is broadcast is computed once, not for each row. What was inlined
    // before is computed once more at the most: then its value is kept.
    node.is_elementwise() && node.shape().as_matrix() == (rows, columns) && !node.mark_inlined()
}

impl Region {
    /// The region that ends in `operation` of the given size. `value` computes a node that does
    /// not join.
    pub fn new(
        (rows, columns): (usize, usize),
        operation: &Operation,
        mut value: impl FnMut(&Node) -> Result<View>,
    ) -> Result<Self> {
        let mut builder = Builder::default();
        // Depth first, operands before the operation: `None` on the stack ends an operation.
        let mut stack: Vec<Visit> = Vec::with_capacity(16);
        builder.enter(operation, None, &mut stack);
        while let Some(visit) = stack.pop() {
            match visit {
                Visit::Operand(node) => {
                    if builder.source(&node).is_some() {
                        continue;
                    }
                    if joins(&node, rows, columns) {
                        let state = node.state().borrow();
                        if let State::Pending(operation) = &*state {
                            builder.enter(operation, Some(node.clone()), &mut stack);
                        }
                    } else {
                        let view = value(&node)?.broadcast_to(rows, columns);
                        builder.leaf(node, view);
                    }
                }
                Visit::Emit(step, node) => builder.emit(step, node),
            }
        }
        Ok(builder.finish(rows, columns))
    }

    /// Estimated nanoseconds for the whole region on one thread.
    pub fn work(&self) -> f64 {
        self.nanoseconds * (self.rows * self.columns) as f64
    }

    /// Rows that are computed at a time where a whole row fits into a chunk.
    pub fn rows_at_once(&self) -> usize {
        (self.chunk / self.columns.max(1)).max(1)
    }

    /// Where to split the elements of a row among threads.
    pub fn column_step(&self) -> usize {
        self.chunk
    }

    /// Compute some rows and columns into `out`, whose rows are `stride` elements apart.
    ///
    /// # Safety
    /// The ranges lie inside the region, and `out` is valid for writing them: element (r, c) of
    /// the region goes to `(r - rows.start) * stride + c - columns.start`. No leaf overlaps `out`.
    pub unsafe fn run(
        &self,
        isa: Isa,
        rows: Range<usize>,
        columns: Range<usize>,
        out: *mut f32,
        stride: usize,
    ) {
        let whole_rows = columns.len() == self.columns && stride == self.columns;
        let at_once = if whole_rows { self.rows_at_once() } else { 1 };
        with_scratch(self.scratch_elements(), |scratch| {
            let mut prepared = Block { rows: 0, columns: 0..0 };
            let mut row = rows.start;
            while row < rows.end {
                let count = at_once.min(rows.end - row);
                let mut column = columns.start;
                while column < columns.end {
                    let width = self.chunk.min(columns.end - column);
                    let width = if count > 1 { columns.len() } else { width };
                    let block = Block { rows: count, columns: column..column + width };
                    let offset = (row - rows.start) * stride + (column - columns.start);
                    // SAFETY: the block lies in the caller's ranges, so `out` is valid for it;
                    // the scratch memory has the size that `scratch_elements` says.
                    unsafe {
                        self.run_block(isa, row, &block, &mut prepared, out.add(offset), scratch)
                    };
                    column += width;
                }
                row += count;
            }
        });
    }

    fn scratch_elements(&self) -> usize {
        (self.registers + self.leaves.len()) * self.chunk
    }

    /// # Safety
    /// As [`Region::run`]; `scratch` has `scratch_elements` elements.
    unsafe fn run_block(
        &self,
        isa: Isa,
        row: usize,
        block: &Block,
        prepared: &mut Block,
        out: *mut f32,
        scratch: *mut f32,
    ) {
        let elements = block.rows * block.columns.len();
        // What does not depend on the row is prepared once for blocks of one shape.
        let same = prepared.rows >= block.rows && prepared.columns == block.columns;
        let register = |index: usize| scratch.wrapping_add(index * self.chunk);
        let source = |source: Source| match source {
            Source::Register(index) => register(index).cast_const(),
            Source::Leaf(index) => {
                let memory = register(self.registers + index);
                // SAFETY: the caller's promise: the block lies inside the leaf, and the leaf's
                // scratch memory is a chunk, as large as any block.
                unsafe { load(&self.leaves[index], row, block, memory, same) }
            }
        };
        let last = self.code.len() - 1;
        for (index, &(instruction, to)) in self.code.iter().enumerate() {
            let to = if index == last { out } else { register(to) };
            // SAFETY: sources and result are `elements` long, and equal or disjoint: registers
            // are, and leaves overlap neither registers nor `out`.
            unsafe {
                match instruction {
                    Instruction::Unary(op, a) => unary_unchecked(isa, op, to, source(a), elements),
                    Instruction::Binary(op, a, b) => {
                        binary_unchecked(isa, op, to, source(a), source(b), elements);
                    }
                }
            }
        }
        if !same {
            *prepared = block.clone();
        }
    }
}

/// Whole rows, or a part of one row.
#[derive(Clone)]
struct Block {
    rows: usize,
    columns: Range<usize>,
}

/// The elements of a leaf that belong to a block, one after the other: where they lie, or copied
/// to `memory`. `prepared`: what does not depend on the row is there already.
///
/// # Safety
/// The block lies inside the leaf, and `memory` is valid for writing its elements.
unsafe fn load(
    leaf: &View,
    row: usize,
    block: &Block,
    memory: *mut f32,
    prepared: bool,
) -> *const f32 {
    let (rows, width) = (block.rows, block.columns.len());
    let start = leaf
        .data
        .wrapping_offset(leaf.row_stride.wrapping_mul(row as isize))
        .wrapping_offset(leaf.column_stride.wrapping_mul(block.columns.start as isize));
    let one_row = rows == 1 || leaf.row_stride == leaf.columns as isize;
    if leaf.column_stride == 1 && one_row {
        return start;
    }
    let fixed = leaf.row_stride == 0 && (rows > 1 || leaf.column_stride == 0);
    if fixed && prepared {
        return memory;
    }
    // SAFETY: `start` is the block's first element, and the loops stay inside the block on both
    // sides: `rows * width` elements of `memory`.
    unsafe {
        if leaf.row_stride == 1 && rows > 1 {
            let out = std::slice::from_raw_parts_mut(memory, rows * width);
            gather_transposed(out, rows, width, start, leaf.column_stride);
        } else {
            for index in 0..rows {
                let out = std::slice::from_raw_parts_mut(memory.add(index * width), width);
                let from = start.wrapping_offset(leaf.row_stride.wrapping_mul(index as isize));
                match leaf.column_stride {
                    0 => out.fill(*from),
                    stride => gather(out, from, stride),
                }
            }
        }
    }
    memory
}

/// Scratch memory of this thread, kept for the next region.
fn with_scratch(elements: usize, work: impl FnOnce(*mut f32)) {
    thread_local! {
        static SCRATCH_MEMORY: RefCell<Option<(Buffer, usize)>> = const { RefCell::new(None) };
    }
    SCRATCH_MEMORY.with(|memory| {
        let mut memory = memory.borrow_mut();
        if memory.as_ref().is_none_or(|(_, size)| *size < elements) {
            let size = elements.max(SCRATCH);
            // A few kilobytes; without them nothing else would work either.
            let buffer = Buffer::new(size, 4).unwrap_or_else(|error| panic!("{error}"));
            *memory = Some((buffer, size));
        }
        if let Some((buffer, _)) = &*memory {
            work(buffer.data().cast());
        }
    });
}

enum Visit {
    Operand(Node),
    /// The operands are known: emit the operation (of a node, or of the region's end).
    Emit(Step, Option<Node>),
}

enum Step {
    Unary(Unary, Node),
    Binary(Binary, Node, Node),
}

#[derive(Default)]
struct Builder {
    leaves: Vec<View>,
    nodes: Vec<Node>,
    known: Vec<(*const NodeData, Source)>,
    /// Instructions on values, one for each instruction; registers come at the end.
    code: Vec<Instruction>,
    nanoseconds: f64,
}

impl Builder {
    fn enter(&mut self, operation: &Operation, node: Option<Node>, stack: &mut Vec<Visit>) {
        match operation {
            Operation::Unary(op, input) => {
                stack.push(Visit::Emit(Step::Unary(*op, input.clone()), node));
                stack.push(Visit::Operand(input.clone()));
            }
            Operation::Binary(op, left, right) => {
                stack.push(Visit::Emit(Step::Binary(*op, left.clone(), right.clone()), node));
                stack.push(Visit::Operand(right.clone()));
                stack.push(Visit::Operand(left.clone()));
            }
            _ => unreachable!("only elementwise operations join a region"),
        }
    }

    fn source(&self, node: &Node) -> Option<Source> {
        let wanted = Rc::as_ptr(node);
        self.known.iter().find(|(known, _)| *known == wanted).map(|(_, source)| *source)
    }

    fn leaf(&mut self, node: Node, view: View) {
        self.known.push((Rc::as_ptr(&node), Source::Leaf(self.leaves.len())));
        self.leaves.push(view);
        self.nodes.push(node);
        self.nanoseconds += 0.2;
    }

    fn emit(&mut self, step: Step, node: Option<Node>) {
        let find = |node: &Node| self.source(node).unwrap_or_else(|| unreachable!("operand first"));
        let (instruction, nanoseconds) = match &step {
            Step::Unary(op, input) => (Instruction::Unary(*op, find(input)), op.nanoseconds()),
            Step::Binary(op, left, right) => {
                (Instruction::Binary(*op, find(left), find(right)), 0.1)
            }
        };
        if let Some(node) = node {
            self.known.push((Rc::as_ptr(&node), Source::Register(self.code.len())));
            self.nodes.push(node);
        }
        self.code.push(instruction);
        self.nanoseconds += nanoseconds;
    }

    fn finish(self, rows: usize, columns: usize) -> Region {
        let (code, registers) = allocate_registers(&self.code);
        let (mut rows, mut columns, mut leaves) = (rows, columns, self.leaves);
        let scalar = |leaf: &View| leaf.row_stride == 0 && leaf.column_stride == 0;
        let all_lie = |order| leaves.iter().all(|leaf| scalar(leaf) || leaf.lies(order));
        let order = if !all_lie(Order::Rows) && all_lie(Order::Columns) {
            std::mem::swap(&mut rows, &mut columns);
            leaves = leaves.into_iter().map(View::transposed).collect();
            Order::Columns
        } else {
            Order::Rows
        };
        let chunk = SCRATCH / (registers + leaves.len()).max(1) / 64 * 64;
        Region {
            rows,
            columns,
            leaves,
            code,
            registers,
            chunk: chunk.clamp(SMALLEST_CHUNK, LARGEST_CHUNK),
            nanoseconds: self.nanoseconds,
            order,
            _nodes: self.nodes,
        }
    }
}

/// Give each value the register of one that is not needed any more, if there is one.
fn allocate_registers(values: &[Instruction]) -> (Vec<(Instruction, usize)>, usize) {
    let mut uses = vec![0usize; values.len()];
    let operands = |instruction: &Instruction| match *instruction {
        Instruction::Unary(_, a) => [Some(a), None],
        Instruction::Binary(_, a, b) => [Some(a), Some(b)],
    };
    for source in values.iter().flat_map(operands).flatten() {
        if let Source::Register(value) = source {
            uses[value] += 1;
        }
    }
    let mut register_of = vec![0usize; values.len()];
    let mut free: Vec<usize> = Vec::new();
    let mut registers = 0;
    let code = values
        .iter()
        .enumerate()
        .map(|(value, instruction)| {
            let renamed = |source: Source| match source {
                Source::Register(value) => Source::Register(register_of[value]),
                leaf => leaf,
            };
            let instruction_in_registers = match *instruction {
                Instruction::Unary(op, a) => Instruction::Unary(op, renamed(a)),
                Instruction::Binary(op, a, b) => Instruction::Binary(op, renamed(a), renamed(b)),
            };
            for source in operands(instruction).into_iter().flatten() {
                if let Source::Register(value) = source {
                    uses[value] -= 1;
                    if uses[value] == 0 {
                        free.push(register_of[value]);
                    }
                }
            }
            register_of[value] = free.pop().unwrap_or_else(|| {
                registers += 1;
                registers - 1
            });
            (instruction_in_registers, register_of[value])
        })
        .collect();
    (code, registers)
}
