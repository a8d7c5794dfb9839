//! A region: elementwise operations that run together, chunk by chunk, without temporaries in
//! main memory.

use std::cell::RefCell;
use std::ops::Range;

use super::super::rxt_core::error::Result;
use super::super::rxt_kernels::elementwise::{
    binary_unchecked, gather, gather_transposed, unary_unchecked, Binary, Unary,
};
use super::super::rxt_kernels::simd::Isa;
use super::buffer::Buffer;
use super::node::{Node, Operation, Order, State, View};
use super::work;

/// Scratch memory of a thread for one region, in elements: together with what the region reads
/// and writes it stays in the first-level cache.
const SCRATCH: usize = 8 * 1024;
const SMALLEST_CHUNK: usize = 256;
const LARGEST_CHUNK: usize = 1024;

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
    registers: usize,
    /// Elements of a chunk.
    chunk: usize,
    /// Estimate for one element.
    pub nanoseconds: f64,
    /// `Columns` where all leaves lie column by column: then rows and columns are exchanged.
    pub order: Order,
    parts: Parts,
}

impl Drop for Region {
    fn drop(&mut self) {
        std::mem::take(&mut self.parts).keep();
    }
}

impl Region {
    /// The region that ends in `operation` of the given size. `value` computes a node that does
    /// not join.
    pub fn new(
        (rows, columns): (usize, usize),
        operation: &Operation,
        value: impl FnMut(&Node) -> Result<View>,
    ) -> Result<Self> {
        let mut builder = Builder { parts: Parts::take(), rows, columns, nanoseconds: 0.0, value };
        builder.operation(operation)?;
        Ok(builder.finish())
    }

    pub fn operations(&self) -> usize {
        self.parts.code.len()
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
        (self.registers + self.parts.leaves.len()) * self.chunk
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
                unsafe { load(&self.parts.leaves[index], row, block, memory, same) }
            }
        };
        let last = self.parts.code.len() - 1;
        for (index, &(instruction, to)) in self.parts.code.iter().enumerate() {
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

/// What a region is made of and what making it needs: vectors that the thread keeps for the next
/// region, since a small region runs in less time than it would take to allocate them.
#[derive(Default)]
struct Parts {
    leaves: Vec<View>,
    /// In order; the second part is the register of the result.
    code: Vec<(Instruction, usize)>,
    /// The nodes that became instructions or leaves: kept alive, and known by their address.
    nodes: Vec<(Node, Source)>,
    /// For each value, the instructions that have not read it yet.
    uses: Vec<usize>,
    free: Vec<usize>,
}

thread_local! {
    static SPARE_PARTS: RefCell<Vec<Parts>> = const { RefCell::new(Vec::new()) };
}

impl Parts {
    fn take() -> Self {
        let spare = SPARE_PARTS.try_with(|spare| spare.borrow_mut().pop());
        spare.ok().flatten().unwrap_or_default()
    }

    fn keep(mut self) {
        self.leaves.clear();
        self.code.clear();
        self.nodes.clear();
        self.uses.clear();
        self.free.clear();
        // At the end of a thread its store is gone, and the parts with it.
        let _ = SPARE_PARTS.try_with(|spare| spare.borrow_mut().push(self));
    }
}

struct Builder<F> {
    parts: Parts,
    rows: usize,
    columns: usize,
    nanoseconds: f64,
    value: F,
}

impl<F: FnMut(&Node) -> Result<View>> Builder<F> {
    /// Emit an operation after its operands. Recursion is as deep as operations wait: bounded.
    fn operation(&mut self, operation: &Operation) -> Result<Source> {
        let (instruction, nanoseconds) = match operation {
            Operation::Unary(op, input) => {
                (Instruction::Unary(*op, self.source(input)?), op.nanoseconds())
            }
            Operation::Binary(op, left, right) => {
                (Instruction::Binary(*op, self.source(left)?, self.source(right)?), work::BINARY)
            }
            _ => unreachable!("only elementwise operations join a region"),
        };
        self.nanoseconds += nanoseconds;
        self.parts.code.push((instruction, 0));
        Ok(Source::Register(self.parts.code.len() - 1))
    }

    fn source(&mut self, node: &Node) -> Result<Source> {
        let known = self.parts.nodes.iter().find(|(known, _)| known.is(node));
        if let Some((_, source)) = known {
            return Ok(*source);
        }
        let source = match self.joining(node) {
            Some(operation) => self.operation(&operation)?,
            None => {
                let view = (self.value)(node)?.broadcast_to(self.rows, self.columns);
                self.parts.leaves.push(view);
                self.nanoseconds += work::READ;
                Source::Leaf(self.parts.leaves.len() - 1)
            }
        };
        self.parts.nodes.push((node.clone(), source));
        Ok(source)
    }

    /// The operation of a node that waits to be computed element by element, if this region may
    /// do it.
    fn joining(&self, node: &Node) -> Option<Operation> {
        // A smaller tensor that is broadcast is computed once, not for each row.
        if node.shape().as_matrix() != (self.rows, self.columns) {
            return None;
        }
        // A copy: computing another operand may compute this node too.
        let operation = match &*node.state().borrow() {
            State::Pending(Operation::Unary(op, input)) => Operation::Unary(*op, input.clone()),
            State::Pending(Operation::Binary(op, left, right)) => {
                Operation::Binary(*op, left.clone(), right.clone())
            }
            _ => return None,
        };
        // What was inlined before is computed once more at the most: then its value is kept.
        (!node.mark_inlined()).then_some(operation)
    }

    fn finish(self) -> Region {
        let Self { mut parts, mut rows, mut columns, nanoseconds, .. } = self;
        let registers = parts.allocate_registers();
        let leaves = &mut parts.leaves;
        let scalar = |leaf: &View| leaf.row_stride == 0 && leaf.column_stride == 0;
        let all_lie = |order| leaves.iter().all(|leaf| scalar(leaf) || leaf.lies(order));
        let order = if !all_lie(Order::Rows) && all_lie(Order::Columns) {
            std::mem::swap(&mut rows, &mut columns);
            leaves.iter_mut().for_each(|leaf| *leaf = leaf.transposed());
            Order::Columns
        } else {
            Order::Rows
        };
        let chunk = SCRATCH / (registers + leaves.len()).max(1) / 64 * 64;
        Region {
            rows,
            columns,
            registers,
            chunk: chunk.clamp(SMALLEST_CHUNK, LARGEST_CHUNK),
            nanoseconds,
            order,
            parts,
        }
    }
}

impl Parts {
    /// Give each value the register of one that is not needed any more, if there is one: from
    /// here on sources name registers, not values. Returns how many registers there are.
    fn allocate_registers(&mut self) -> usize {
        let Self { code, uses, free, .. } = self;
        uses.resize(code.len(), 0);
        for value in code.iter().flat_map(|(instruction, _)| instruction.values()).flatten() {
            uses[value] += 1;
        }
        let mut registers = 0;
        for index in 0..code.len() {
            let (mut instruction, _) = code[index];
            for source in instruction.sources_mut().into_iter().flatten() {
                if let Source::Register(value) = *source {
                    let register = code[value].1;
                    uses[value] -= 1;
                    if uses[value] == 0 {
                        free.push(register);
                    }
                    *source = Source::Register(register);
                }
            }
            let register = free.pop().unwrap_or_else(|| {
                registers += 1;
                registers - 1
            });
            code[index] = (instruction, register);
        }
        registers
    }
}

impl Instruction {
    fn sources_mut(&mut self) -> [Option<&mut Source>; 2] {
        match self {
            Self::Unary(_, a) => [Some(a), None],
            Self::Binary(_, a, b) => [Some(a), Some(b)],
        }
    }

    /// The values it reads, one for each operand.
    fn values(self) -> [Option<usize>; 2] {
        let value = |source| match source {
            Source::Register(value) => Some(value),
            Source::Leaf(_) => None,
        };
        match self {
            Self::Unary(_, a) => [value(a), None],
            Self::Binary(_, a, b) => [value(a), value(b)],
        }
    }
}
