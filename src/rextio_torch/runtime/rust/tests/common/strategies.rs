//! What proptest draws: any numbers, in any layout that PyTorch can give a tensor.
#![allow(dead_code)] // shared by several targets, none of which uses all

use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use rextio_torch_runtime::rxt_kernels::view::Matrix;

use super::LENGTHS;

const SPECIAL: &[f32] = &[
    0.0,
    -0.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    1e-45,
    -1e-45,
    f32::MIN_POSITIVE,
    f32::MAX,
    f32::MIN,
];

/// Small numbers, any bits, and those that formulas forget.
pub fn float() -> impl Strategy<Value = f32> + Clone {
    prop_oneof![
        6 => -4.0f32..4.0,
        2 => any::<u32>().prop_map(f32::from_bits),
        1 => select(SPECIAL),
    ]
}

/// Numbers whose products do not overflow, now and then an infinity, NaN or the smallest.
pub fn factor() -> impl Strategy<Value = f32> + Clone {
    prop_oneof![30 => -4.0f32..4.0, 1 => select(&SPECIAL[..7])]
}

/// A length on one side of a vector's, a block's or a chunk's, or any small one.
pub fn length() -> impl Strategy<Value = usize> {
    prop_oneof![select(LENGTHS), 0usize..300]
}

/// A view and the memory that it lies in, which ends with its last element.
#[derive(Clone, Debug)]
pub struct Lying {
    memory: Vec<f32>,
    offset: usize,
    shape: (usize, usize),
    strides: (isize, isize),
}

impl Lying {
    pub fn view(&self) -> Matrix<'_> {
        // SAFETY: `lying` made the memory as long as the view needs.
        unsafe {
            Matrix::new(self.memory.as_ptr().wrapping_add(self.offset), self.shape, self.strides)
        }
    }

    pub fn at(&self, row: usize, column: usize) -> f32 {
        let place = row as isize * self.strides.0 + column as isize * self.strides.1;
        self.memory[self.offset + place as usize]
    }

    pub fn row(&self, row: usize) -> impl Iterator<Item = f32> + '_ {
        (0..self.shape.1).map(move |column| self.at(row, column))
    }
}

/// Rows and columns apart, overlapping, repeated or one after the other, from any offset on.
pub fn lying(
    rows: Range<usize>,
    columns: Range<usize>,
    values: impl Strategy<Value = f32> + Clone,
) -> impl Strategy<Value = Lying> {
    let strides = prop_oneof![3 => Just(None), 1 => (0usize..9, 0usize..9).prop_map(Some)];
    (rows, columns, any::<bool>(), 1usize..3, 0usize..7, strides, 0usize..9).prop_flat_map(
        move |(rows, columns, transposed, step, gap, strides, offset)| {
            let (lines, length) = if transposed { (columns, rows) } else { (rows, columns) };
            let (line, next) = strides.unwrap_or((step * length + gap, step));
            let strides = if transposed { (next, line) } else { (line, next) };
            let last = lines.saturating_sub(1) * line + length.saturating_sub(1) * next;
            let elements = if rows * columns == 0 { 0 } else { last + 1 };
            vec(values.clone(), offset + elements).prop_map(move |memory| Lying {
                memory,
                offset,
                shape: (rows, columns),
                strides: (strides.0 as isize, strides.1 as isize),
            })
        },
    )
}
