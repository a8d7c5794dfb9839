//! The fused engine against a plain scalar reference in f64.

use std::cell::Cell;

use rextio_torch_runtime::rxt_core::error::Result;
use rextio_torch_runtime::rxt_core::shape::{broadcast, Shape};
use rextio_torch_runtime::rxt_engine::evaluate::{Engine, Products};
use rextio_torch_runtime::rxt_engine::node::{Node, NodeData, Operation, Owner, Product, View};
use rextio_torch_runtime::rxt_engine::parallel::Threads;
use rextio_torch_runtime::rxt_kernels::elementwise::{Binary, Unary};
use rextio_torch_runtime::rxt_kernels::reduce::Reduce;
use rextio_torch_runtime::rxt_kernels::simd::Isa;

struct NoLibrary;

impl Products for NoLibrary {
    fn takes(&self, _: &View, _: &View) -> bool {
        false
    }

    unsafe fn product(&self, _: *mut f32, _: View, _: View, _: Option<View>) -> Result<()> {
        unreachable!("takes nothing")
    }
}

/// A node and what it must be, row by row.
#[derive(Clone)]
struct Both {
    node: Node,
    expected: Vec<f64>,
}

fn engine_on(isa: Isa, threads: Threads) -> Engine<'static> {
    Engine { isa, threads, products: &NoLibrary, last: false, observer: None }
}

fn elements(view: View) -> Vec<f32> {
    let mut out = vec![0.0; view.rows * view.columns];
    // SAFETY: the tests keep the memory of a view while they read it.
    unsafe { view.copy_to(&mut out) };
    out
}

impl Both {
    fn sizes(&self) -> (usize, usize) {
        self.node.shape().as_matrix()
    }

    fn unary(&self, op: Unary, reference: fn(f64) -> f64) -> Self {
        let node = NodeData::pending(*self.node.shape(), Operation::Unary(op, self.node.clone()));
        Self { node, expected: self.expected.iter().map(|&x| reference(x)).collect() }
    }

    fn binary(&self, op: Binary, other: &Self, reference: fn(f64, f64) -> f64) -> Self {
        let shape = broadcast("test", self.node.shape(), other.node.shape()).unwrap();
        let operation = Operation::Binary(op, self.node.clone(), other.node.clone());
        let (rows, columns) = shape.as_matrix();
        let at = |both: &Self, r: usize, c: usize| {
            let (rows, columns) = both.sizes();
            both.expected[(r % rows) * columns + c % columns]
        };
        let expected = (0..rows * columns)
            .map(|i| (i / columns, i % columns))
            .map(|(r, c)| reference(at(self, r, c), at(other, r, c)))
            .collect();
        Self { node: NodeData::pending(shape, operation), expected }
    }

    fn check(&self, engine: &Engine<'_>, what: &str) {
        let view = engine.value(&self.node).unwrap();
        let found = elements(view);
        assert_eq!(found.len(), self.expected.len(), "{what}");
        for (index, (&found, &expected)) in found.iter().zip(&self.expected).enumerate() {
            let tolerance = 1e-5 * expected.abs().max(1.0);
            assert!(
                (f64::from(found) - expected).abs() <= tolerance
                    || (found.is_nan() && expected.is_nan()),
                "{what}: element {index} is {found}, expected {expected}"
            );
        }
    }
}

fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + seed * 101) % 199) as f32 / 100.0 - 0.99).collect()
}

/// An input in one of several layouts.
fn input(sizes: &[usize], layout: usize, seed: usize) -> Both {
    let shape = Shape::new(sizes);
    let (rows, columns) = shape.as_matrix();
    let (row_stride, column_stride) = match layout {
        0 => (columns as isize, 1),
        1 => (1, rows as isize),
        2 => (2 * columns as isize + 3, 2),
        3 => (0, 1),
        4 => (1, 0),
        _ => (1, 1),
    };
    let memory = values((rows + 2) * (columns + 2) * 3, seed);
    let view = View { data: memory.as_ptr(), rows, columns, row_stride, column_stride };
    let expected = elements(view).into_iter().map(f64::from).collect();
    // SAFETY: the node keeps the memory, which is larger than the view for every layout above.
    let node = unsafe { NodeData::borrowed(shape, view, Owner::Node(Box::new(memory))) };
    Both { node, expected }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// One after the other, the last part first: who reads what another part writes is found out.
fn backwards(parts: usize, part: &(dyn Fn(usize) + Sync)) {
    (0..parts).rev().for_each(part);
}

/// Each instruction set on one thread, on threads for work that is worth them, and in three parts
/// whatever the size.
fn engines() -> Vec<(Isa, Threads)> {
    let threads = [Threads::started(1), Threads::started(2), Threads::new(3, 1e-6, backwards)];
    Isa::available().flat_map(|isa| threads.map(|threads| (isa, threads))).collect()
}

const SIZES: [[usize; 2]; 9] =
    [[0, 3], [2, 0], [1, 1], [3, 5], [7, 33], [64, 17], [1, 4099], [2100, 3], [5, 2049]];

#[test]
fn chains_over_every_layout_and_size() {
    for (isa, threads) in engines() {
        let engine = engine_on(isa, threads);
        for sizes in SIZES {
            for layout in 0..6 {
                let what = format!("{isa:?} {threads:?} {sizes:?} layout {layout}");
                let a = input(&sizes, layout, 1);
                let b = input(&sizes, 0, 2);
                let t = a.binary(Binary::Add, &b, |x, y| x + y).unary(Unary::Tanh, f64::tanh);
                let t = t.unary(Unary::Exp, f64::exp).binary(Binary::Sub, &a, |x, y| x - y);
                t.unary(Unary::Sigmoid, sigmoid)
                    .binary(Binary::Mul, &b, |x, y| x * y)
                    .check(&engine, &what);
                a.unary(Unary::Square, |x| x * x).check(&engine, &what);
                a.unary(Unary::Tanh, f64::tanh)
                    .binary(Binary::Sub, &a, |x, y| x - y)
                    .check(&engine, &what);
                a.binary(Binary::Sub, &b, |x, y| x - y).check(&engine, &what);
                a.binary(Binary::Add, &a, |x, y| x + y).check(&engine, &what);
            }
        }
    }
}

#[test]
fn broadcasting_rows_columns_and_scalars() {
    for (isa, threads) in engines() {
        let engine = engine_on(isa, threads);
        for [rows, columns] in SIZES {
            let matrix = input(&[rows, columns], 0, 3);
            let row = input(&[columns], 0, 4);
            let column = input(&[rows, 1], 2, 5);
            let one = input(&[1], 0, 6);
            let sum = matrix.binary(Binary::Add, &row, |x, y| x + y);
            let sum = column.binary(Binary::Mul, &sum, |x, y| x * y);
            let what = format!("{isa:?} {threads:?} [{rows}, {columns}]");
            sum.binary(Binary::Sub, &one, |x, y| x - y).check(&engine, &what);
            // A smaller pending operand is computed before it is broadcast.
            matrix
                .binary(Binary::Mul, &row.unary(Unary::Abs, f64::abs), |x, y| x * y)
                .check(&engine, &what);
        }
    }
}

#[test]
fn a_value_used_twice_and_met_again_is_right() {
    let engine = engine_on(Isa::active(), Threads::started(1));
    let x = input(&[9, 40], 0, 7);
    let shared = x.unary(Unary::Tanh, f64::tanh);
    let diamond = shared.binary(Binary::Mul, &shared.unary(Unary::Neg, |x| -x), |x, y| x * y);
    diamond.check(&engine, "diamond");
    for _ in 0..3 {
        shared.unary(Unary::Abs, f64::abs).check(&engine, "met again");
    }
    shared.check(&engine, "itself");
    assert!(shared.node.view().is_some());
}

fn reduce(input: &Both, op: Reduce, dim: usize) -> Both {
    let (rows, columns) = input.sizes();
    let mean = op == Reduce::Mean;
    let (count, terms) = if dim == 1 { (rows, columns) } else { (columns, rows) };
    let expected = (0..count)
        .map(|i| {
            let sum: f64 = (0..terms)
                .map(|j| input.expected[if dim == 1 { i * columns + j } else { j * columns + i }])
                .sum();
            if mean {
                sum / terms as f64
            } else {
                sum
            }
        })
        .collect();
    let operation = Operation::Reduce { op, dim, input: input.node.clone() };
    Both { node: NodeData::pending(Shape::new(&[count]), operation), expected }
}

#[test]
fn reductions_of_inputs_and_of_pending_operations() {
    for (isa, threads) in engines() {
        let engine = engine_on(isa, threads);
        for sizes in SIZES {
            for layout in 0..6 {
                for (op, dim) in
                    [(Reduce::Sum, 0), (Reduce::Sum, 1), (Reduce::Mean, 0), (Reduce::Mean, 1)]
                {
                    let what =
                        format!("{isa:?} {threads:?} {sizes:?} layout {layout} {op:?} {dim}");
                    let x = input(&sizes, layout, 8);
                    reduce(&x, op, dim).check(&engine, &what);
                    let pending = x.unary(Unary::Square, |x| x * x).unary(Unary::Exp, f64::exp);
                    reduce(&pending, op, dim).check(&engine, &what);
                    reduce(&pending, op, dim).check(&engine, &what);
                }
            }
        }
    }
}

fn softmax(input: &Both, dim: usize) -> Both {
    let (rows, columns) = input.sizes();
    let mut expected = vec![0.0; rows * columns];
    let (lines, length) = if dim == 1 { (rows, columns) } else { (columns, rows) };
    for line in 0..lines {
        let index = |j: usize| if dim == 1 { line * columns + j } else { j * columns + line };
        let max = (0..length).map(|j| input.expected[index(j)]).fold(f64::MIN, f64::max);
        let total: f64 = (0..length).map(|j| (input.expected[index(j)] - max).exp()).sum();
        for j in 0..length {
            expected[index(j)] = (input.expected[index(j)] - max).exp() / total;
        }
    }
    let operation = Operation::Softmax { dim, input: input.node.clone() };
    Both { node: NodeData::pending(*input.node.shape(), operation), expected }
}

#[test]
fn softmax_along_both_dimensions() {
    for (isa, threads) in engines() {
        let engine = engine_on(isa, threads);
        for sizes in SIZES {
            for layout in 0..6 {
                for dim in [0, 1] {
                    let what = format!("{isa:?} {threads:?} {sizes:?} layout {layout} dim {dim}");
                    let x = input(&sizes, layout, 9);
                    softmax(&x, dim).check(&engine, &what);
                    softmax(&x.unary(Unary::Exp, f64::exp), dim).check(&engine, &what);
                }
            }
        }
    }
}

/// The index of the largest element of each line: the first of equal ones, the first NaN before
/// all.
fn argmax(input: &Both, dim: usize) -> (Node, Vec<i64>) {
    let (rows, columns) = input.sizes();
    let (lines, length) = if dim == 1 { (rows, columns) } else { (columns, rows) };
    let expected = (0..lines)
        .map(|line| {
            let at = |j: usize| {
                input.expected[if dim == 1 { line * columns + j } else { j * columns + line }]
            };
            let larger =
                |best: usize, j: usize| at(j) > at(best) || (at(j).is_nan() && !at(best).is_nan());
            (1..length).fold(0, |best, j| if larger(best, j) { j } else { best }) as i64
        })
        .collect();
    let operation = Operation::Argmax { dim, input: input.node.clone() };
    (NodeData::pending(Shape::new(&[lines]), operation), expected)
}

#[test]
fn argmax_with_ties_and_nan() {
    for (isa, threads) in engines() {
        let engine = engine_on(isa, threads);
        for sizes in SIZES.into_iter().filter(|sizes| !sizes.contains(&0)) {
            for layout in 0..6 {
                let x = input(&sizes, layout, 15);
                // Of -0.99 to 0.99 the root: some lines have a NaN, many have several.
                let moved = x.binary(Binary::Add, &input(&[1], 0, 16), |x, y| x + y);
                let with_nan = moved.unary(Unary::Sqrt, f64::sqrt);
                for both in [&x, &with_nan] {
                    for dim in [0, 1] {
                        let (node, expected) = argmax(both, dim);
                        let view = engine.value(&node).unwrap();
                        let found: Vec<i64> = (0..expected.len())
                            // SAFETY: a result of so many elements of type i64.
                            .map(|i| unsafe { *view.data.cast::<i64>().add(i) })
                            .collect();
                        assert_eq!(found, expected, "{isa:?} {threads:?} {sizes:?} {layout} {dim}");
                    }
                }
            }
        }
    }
}

thread_local! {
    /// Calls with several parts.
    static SPLITS: Cell<usize> = const { Cell::new(0) };
}

fn counted(parts: usize, part: &(dyn Fn(usize) + Sync)) {
    SPLITS.set(SPLITS.get() + 1);
    backwards(parts, part);
}

#[test]
fn large_work_of_every_kind_is_split_with_equal_results() {
    type Case = (&'static str, fn() -> Node);
    fn node(input: &Both, operation: impl FnOnce(Node) -> Operation, sizes: &[usize]) -> Node {
        NodeData::pending(Shape::new(sizes), operation(input.node.clone()))
    }
    fn product(m: usize, k: usize, n: usize) -> Node {
        let product = Product {
            left: input(&[m, k], 0, 10).node,
            right: input(&[n, k], 0, 11).node,
            right_transposed: true,
            right_is_column: false,
            bias: None,
        };
        NodeData::pending(Shape::new(&[m, n]), Operation::Product(product))
    }
    fn chain(sizes: &[usize], layout: usize) -> Both {
        input(sizes, layout, 1).unary(Unary::Tanh, f64::tanh).unary(Unary::Exp, f64::exp)
    }
    fn sum(input: &Both, dim: usize) -> Node {
        let (rows, columns) = input.sizes();
        let op = Reduce::Sum;
        let sizes = [if dim == input.node.shape().len() - 1 { rows } else { columns }];
        node(input, |input| Operation::Reduce { op, dim, input }, &sizes)
    }
    fn argmax(input: &Both, dim: usize) -> Node {
        let (rows, columns) = input.sizes();
        let sizes = [if dim == input.node.shape().len() - 1 { rows } else { columns }];
        node(input, |input| Operation::Argmax { dim, input }, &sizes)
    }
    fn softmax(input: &Both, dim: usize) -> Node {
        let sizes = *input.node.shape();
        NodeData::pending(sizes, Operation::Softmax { dim, input: input.node.clone() })
    }
    let cases: &[Case] = &[
        ("unary", || input(&[1 << 18], 0, 1).unary(Unary::Exp, f64::exp).node),
        ("chain of one row", || chain(&[1 << 18], 0).node),
        ("chain of few rows", || chain(&[3, 1 << 17], 0).node),
        ("chain of rows", || chain(&[900, 300], 2).node),
        ("sum of one row", || sum(&input(&[1 << 20], 0, 1), 0)),
        ("sum of one row apart", || sum(&input(&[1 << 20], 2, 1), 0)),
        ("sum of few rows", || sum(&input(&[3, 1 << 19], 0, 1), 1)),
        ("sum of few columns", || sum(&input(&[1 << 19, 3], 0, 1), 0)),
        ("sum of rows", || sum(&input(&[1000, 1000], 0, 1), 1)),
        ("sum of columns", || sum(&input(&[1000, 1000], 0, 1), 0)),
        ("sum of a chain", || sum(&chain(&[1 << 18], 0), 0)),
        ("sum of a chain of rows", || sum(&chain(&[600, 600], 0), 1)),
        ("argmax of one row", || argmax(&input(&[1 << 20], 0, 1), 0)),
        ("argmax of few rows", || argmax(&input(&[3, 1 << 19], 0, 1), 1)),
        ("argmax of few columns", || argmax(&input(&[1 << 19, 3], 0, 1), 0)),
        ("argmax of rows", || argmax(&input(&[1000, 1000], 0, 1), 1)),
        ("argmax of columns", || argmax(&input(&[1000, 1000], 0, 1), 0)),
        ("softmax of one row", || softmax(&input(&[1 << 19], 0, 1), 0)),
        ("softmax of one row apart", || softmax(&input(&[1 << 19], 2, 1), 0)),
        ("softmax of few columns", || softmax(&input(&[1 << 17, 3], 0, 1), 0)),
        ("softmax of columns", || softmax(&input(&[600, 600], 0, 1), 0)),
        ("softmax of columns that lie so", || softmax(&input(&[600, 600], 1, 1), 0)),
        ("softmax of rows", || softmax(&input(&[600, 600], 0, 1), 1)),
        ("softmax of rows that lie apart", || softmax(&input(&[600, 600], 1, 1), 1)),
        ("softmax of a chain", || softmax(&chain(&[1 << 18], 0), 0)),
        ("one row times a matrix", || product(1, 2000, 1000)),
        ("few rows times a matrix", || product(4, 1000, 1000)),
        ("matrix times matrix", || product(100, 300, 300)),
    ];
    let isa = Isa::active();
    let bits = |node: &Node, threads: Threads| -> Vec<f32> {
        elements(engine_on(isa, threads).value(node).unwrap())
    };
    for (name, make) in cases {
        let alone = bits(&make(), Threads::started(1));
        for count in [2, 3] {
            SPLITS.set(0);
            let together = bits(&make(), Threads::new(count, 20_000.0, counted));
            assert!(SPLITS.get() > 0, "{name} was not split");
            let largest = alone.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
            for (&a, &b) in alone.iter().zip(&together) {
                // Sums in another order; in a product terms cancel.
                let near = (a - b).abs() <= 1e-6 * largest;
                assert!(a.to_bits() == b.to_bits() || near, "{name}: {a} alone, {b} together");
            }
        }
    }
}

/// `left @ right + bias`; `right` is a matrix, a transposed one or (rank 1) a column.
fn product(left: &Both, right: &Both, transposed: bool, bias: Option<&Both>) -> Both {
    let ((m, k), column) = (left.sizes(), right.node.shape().len() == 1);
    let (rows, columns) = right.sizes();
    let n = if column { 1 } else { [columns, rows][usize::from(transposed)] };
    let at = |i: usize, j: usize| {
        let right =
            |l: usize| right.expected[if transposed || column { j * k + l } else { l * n + j }];
        let sum: f64 = (0..k).map(|l| left.expected[i * k + l] * right(l)).sum();
        sum + bias.map_or(0.0, |bias| bias.expected[j % bias.expected.len()])
    };
    let expected = (0..m * n).map(|i| at(i / n, i % n)).collect();
    let operation = Operation::Product(Product {
        left: left.node.clone(),
        right: right.node.clone(),
        right_transposed: transposed,
        right_is_column: column,
        bias: bias.map(|bias| bias.node.clone()),
    });
    let shape = if column { Shape::new(&[m]) } else { Shape::new(&[m, n]) };
    Both { node: NodeData::pending(shape, operation), expected }
}

fn relu(x: f64) -> f64 {
    x.max(0.0)
}

#[test]
fn products_with_bias_and_activation_in_every_layout() {
    for (isa, threads) in engines() {
        let engine = engine_on(isa, threads);
        for (m, k, n) in
            [(1, 1, 1), (1, 32, 32), (3, 0, 4), (0, 3, 4), (5, 33, 17), (9, 20, 300), (70, 65, 9)]
        {
            for layout in 0..6 {
                for transposed in [false, true] {
                    let left = input(&[m, k], layout, 10);
                    let right = input(&if transposed { [n, k] } else { [k, n] }, layout, 11);
                    for bias in [None, Some(input(&[n], 2, 12)), Some(input(&[1], 0, 13))] {
                        let what = format!("{isa:?} {threads:?} {m}x{k}x{n} {layout} {transposed}");
                        let product = product(&left, &right, transposed, bias.as_ref());
                        let activated = product.unary(Unary::Relu, relu);
                        // Only then does the activation become a part of the product.
                        drop(product);
                        activated.check(&engine, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn a_matrix_times_a_column() {
    for (isa, threads) in engines() {
        let engine = engine_on(isa, threads);
        for (m, k) in [(1, 1), (3, 4), (33, 17), (0, 3), (2, 0)] {
            for layout in 0..6 {
                let what = format!("{isa:?} {threads:?} {m}x{k} {layout}");
                let (left, right) = (input(&[m, k], layout, 15), input(&[k], 0, 16));
                product(&left, &right, false, None).check(&engine, &what);
            }
        }
    }
}

#[test]
fn a_handed_out_result_leaves_the_graph() {
    let engine = engine_on(Isa::active(), Threads::started(1));
    let x = input(&[4], 0, 14).unary(Unary::Neg, |x| -x);
    engine.value(&x.node).unwrap();
    let (buffer, view) = x.node.take_buffer().unwrap();
    assert_eq!(view.data.cast(), buffer.data().cast_const());
    assert!(engine.value(&x.node).is_err());
    assert_eq!(x.node.count(), 1);
}

/// A product that a name stands for, and an activation of it.
fn named_product() -> (Both, Both) {
    let (left, right) = (input(&[3, 4], 0, 15), input(&[4, 5], 0, 16));
    let product = product(&left, &right, false, None);
    let activation = product.unary(Unary::Relu, relu);
    (product, activation)
}

#[test]
fn a_named_product_is_fused_once_the_function_has_ended() {
    let engine = Engine { last: true, ..engine_on(Isa::active(), Threads::started(1)) };
    let (product, activation) = named_product();
    activation.check(&engine, "activation");
    assert!(product.node.view().is_none(), "the product itself was stored");
}

#[test]
fn a_product_that_may_be_used_again_is_kept() {
    let engine = engine_on(Isa::active(), Threads::started(1));
    let (product, activation) = named_product();
    activation.check(&engine, "activation");
    product.check(&engine, "product");

    let engine = Engine { last: true, ..engine };
    let (product, activation) = named_product();
    let sum = activation.binary(Binary::Add, &product, |a, b| a + b);
    sum.check(&engine, "sum of both");
}
