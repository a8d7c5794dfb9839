//! Random programs on the fused engine: whatever is deferred, fused or split over threads, results
//! and errors are those of the same program computed one operation at a time.

mod common;

use common::strategies::{lying, Lying};
use proptest::collection::vec;
use proptest::prelude::*;
use rextio_torch_runtime::rxt_core::error::{Error, Result};
use rextio_torch_runtime::rxt_core::shape::{broadcast, linear, matmul, reduce, Shape};
use rextio_torch_runtime::rxt_engine::evaluate::{Engine, Products};
use rextio_torch_runtime::rxt_engine::node::{
    Node, NodeData, Operation, Owner, Product, View, MAX_PENDING,
};
use rextio_torch_runtime::rxt_engine::parallel::Threads;
use rextio_torch_runtime::rxt_kernels::elementwise::{Binary, Unary};
use rextio_torch_runtime::rxt_kernels::reduce::Reduce;
use rextio_torch_runtime::rxt_kernels::simd::Isa;

/// A library that computes no product, but is asked for one in every four sizes and fails.
struct Broken;

impl Products for Broken {
    fn takes(&self, left: &View, right: &View) -> bool {
        (left.rows * 7 + left.columns * 3 + right.columns) % 4 == 0
    }

    unsafe fn product(&self, _: *mut f32, left: View, _: View, _: Option<View>) -> Result<()> {
        Err(Error::runtime(format!("no product of {} rows", left.rows)))
    }
}

/// A library that takes nothing.
struct NoLibrary;

impl Products for NoLibrary {
    fn takes(&self, _: &View, _: &View) -> bool {
        false
    }

    unsafe fn product(&self, _: *mut f32, _: View, _: View, _: Option<View>) -> Result<()> {
        unreachable!("takes nothing")
    }
}

/// One operation: which, on which of the values so far, and which name ends with it.
#[derive(Clone, Copy, Debug)]
struct Step {
    kind: u8,
    operands: [u8; 3],
    ends: Option<u8>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (any::<u8>(), any::<[u8; 3]>(), proptest::option::of(any::<u8>()))
        .prop_map(|(kind, operands, ends)| Step { kind, operands, ends });
    vec(step, 1..50)
}

/// Inputs that fit one another in many ways: m x n, n x n, a column, a row, one element.
fn inputs() -> impl Strategy<Value = Vec<(Shape, Lying)>> {
    let side = prop_oneof![8 => 1usize..12, 2 => 12usize..80, 1 => Just(0), 1 => 300usize..600];
    (side.clone(), side).prop_flat_map(|(m, n)| {
        let input = |sizes: &[usize]| {
            let shape = Shape::new(sizes);
            let (rows, columns) = shape.as_matrix();
            lying(rows..rows + 1, columns..columns + 1, -2.0f32..2.0)
                .prop_map(move |lying| (shape, lying))
        };
        let n = n.min(90);
        let matrices = (input(&[m, n]), input(&[m, n]), input(&[n, n]), input(&[m, 1]));
        (matrices, input(&[n]), input(&[1]))
            .prop_map(|((a, b, square, column), row, one)| vec![a, b, square, column, row, one])
    })
}

fn operation(step: Step, values: &[Node]) -> Option<(Shape, Operation)> {
    let [left, right, third] = step.operands.map(|at| &values[usize::from(at) % values.len()]);
    let dim = usize::from(step.operands[1]) % left.shape().len();
    let input = left.clone();
    let index = usize::from(step.kind / 8);
    let ranks = (left.shape().len(), right.shape().len());
    Some(match step.kind % 8 {
        0 | 1 => (*left.shape(), Operation::Unary(Unary::ALL[index % Unary::ALL.len()], input)),
        2 | 3 => {
            let op = Binary::ALL[index % Binary::ALL.len()];
            let shape = broadcast("", left.shape(), right.shape()).ok()?;
            (shape, Operation::Binary(op, input, right.clone()))
        }
        4 => {
            let op = [Reduce::Sum, Reduce::Mean][index % 2];
            let shape = reduce(left.shape(), dim, index & 2 == 0 || left.shape().len() == 1);
            (shape, Operation::Reduce { op, dim, input })
        }
        5 => (*left.shape(), Operation::Softmax { dim, input }),
        // Ranks as the operator table accepts them.
        6 if ranks == (1, 1) => return None,
        6 => {
            let shape = matmul("", left.shape(), right.shape()).ok()?;
            let right_is_column = right.shape().len() == 1;
            let right = right.clone();
            let (right_transposed, bias) = (false, None);
            let left = input;
            (
                shape,
                Operation::Product(Product {
                    left,
                    right,
                    right_transposed,
                    right_is_column,
                    bias,
                }),
            )
        }
        _ if ranks != (2, 2) => return None,
        _ => {
            let bias = (index & 1 == 0 && third.shape().len() == 1).then(|| third.clone());
            let bias_shape = bias.as_ref().map(|bias| *bias.shape());
            let shape = linear("", left.shape(), right.shape(), bias_shape.as_ref()).ok()?;
            let (left, right, right_transposed) = (input, right.clone(), true);
            let right_is_column = false;
            (
                shape,
                Operation::Product(Product {
                    left,
                    right,
                    right_transposed,
                    right_is_column,
                    bias,
                }),
            )
        }
    })
}

/// The values that a program ends with, as bits, or its error; `at_once` leaves nothing waiting,
/// `last` asks for the last value only, as the result of a function.
fn run(
    inputs: &[(Shape, Lying)],
    steps: &[Step],
    engine: &Engine<'_>,
    at_once: bool,
    last: bool,
) -> std::result::Result<Vec<Vec<f32>>, String> {
    let borrow = |(shape, lying): &(Shape, Lying)| {
        let matrix = lying.view();
        let view = View {
            data: matrix.ptr(),
            rows: matrix.rows(),
            columns: matrix.cols(),
            row_stride: matrix.row_stride(),
            column_stride: matrix.col_stride(),
        };
        // SAFETY: the inputs outlive the nodes.
        unsafe { NodeData::borrowed(*shape, view, Owner::Node(Box::new(()))) }
    };
    let mut values: Vec<Node> = inputs.iter().map(borrow).collect();
    for &step in steps {
        let Some((shape, operation)) = operation(step, &values) else { continue };
        let node = NodeData::pending(shape, operation);
        if at_once || node.pending_count() > MAX_PENDING {
            engine.value(&node).map_err(|error| error.message)?;
        }
        values.push(node);
        if let Some(at) = step.ends {
            values.swap_remove(usize::from(at) % values.len());
        }
    }
    // The last first: what it needs is fused into it. After a function's result nothing follows.
    let wanted = if last { 1 } else { values.len() };
    let engine = &Engine { last, ..*engine };
    let results = values.iter().rev().take(wanted).map(|node| {
        let view = engine.value(node).map_err(|error| error.message)?;
        let mut out = vec![0.0; view.rows * view.columns];
        // SAFETY: the node is alive.
        unsafe { view.copy_to(&mut out) };
        Ok(out)
    });
    results.collect()
}

fn backwards(parts: usize, part: &(dyn Fn(usize) + Sync)) {
    (0..parts).rev().for_each(part);
}

/// Started for the least work, so that small programs are split too.
fn together(parts: usize, part: &(dyn Fn(usize) + Sync)) {
    std::thread::scope(|scope| {
        (1..parts).for_each(|index| {
            scope.spawn(move || part(index));
        })
    });
    part(0);
}

proptest! {
    #[test]
    fn fused_is_one_operation_at_a_time(
        inputs in inputs(),
        mut steps in steps(),
        fails: bool,
        pointwise: bool,
    ) {
        if pointwise {
            steps.iter_mut().for_each(|step| step.kind &= !4);
        }
        // An operation whose result is dropped is never asked for: it cannot fail.
        steps.iter_mut().for_each(|step| step.ends = step.ends.filter(|_| !fails));
        let products: &dyn Products = if fails { &Broken } else { &NoLibrary };
        let alone = Threads::started(1);
        for isa in Isa::available() {
            for threads in [alone, Threads::new(2, 3000.0, together), Threads::new(3, 1e-6, backwards)] {
                let engine = Engine { isa, threads, products, last: false, observer: None };
                // Sums and products of several threads add up in another order.
                let reference = Engine { threads: if pointwise { alone } else { threads }, ..engine };
                let expected = run(&inputs, &steps, &reference, true, false);
                for last in [false, true] {
                    let found = run(&inputs, &steps, &engine, false, last);
                    if !last {
                        prop_assert_eq!(expected.is_err(), found.is_err());
                    }
                    if let Err(message) = &found {
                        prop_assert!(message.starts_with("no product of"), "{}", message);
                    }
                    let (Ok(expected), Ok(found)) = (&expected, &found) else { continue };
                    for (expected, found) in expected.iter().zip(found) {
                        prop_assert_eq!(expected.len(), found.len());
                        for (&expected, &found) in expected.iter().zip(found) {
                            prop_assert!(
                                common::same(expected, found),
                                "{isa:?} {threads:?} {last}: {expected} alone, {found} fused"
                            );
                        }
                    }
                }
            }
        }
    }
}
