#![allow(dead_code)]

pub mod reference;
pub mod strategies;

use rextio_torch_runtime::rxt_kernels::view::Matrix;

/// On both sides of every vector width, unrolled block and chunk.
pub const LENGTHS: &[usize] = &[
    0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 127, 128, 129, 255,
    256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4097,
];

/// A small generator, so that a failure is the same one again.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    /// Uniform in [-1, 1).
    pub fn unit(&mut self) -> f32 {
        ((self.next() >> 40) as f32 / (1u64 << 23) as f32) - 1.0
    }
    pub fn vec(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.unit()).collect()
    }
    /// Magnitudes over many orders, signs mixed: sums cancel.
    pub fn wild(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.unit() * 2f32.powi(self.below(40) as i32 - 20)).collect()
    }
}

/// Equal bits, or both NaN.
pub fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// The elements of a `rows` x `cols` view, stored in one of several layouts with
/// NaN in every place that does not belong to the view.
pub struct Stored {
    data: Vec<f32>,
    offset: usize,
    shape: (usize, usize),
    strides: (isize, isize),
}

pub const LAYOUTS: usize = 6;

impl Stored {
    pub fn new(
        rows: usize,
        cols: usize,
        layout: usize,
        mut value: impl FnMut(usize, usize) -> f32,
    ) -> Stored {
        let (r, c) = (rows as isize, cols as isize);
        let (strides, offset, len) = match layout {
            0 => ((c, 1), 0, rows * cols),                       // row-major
            1 => ((1, r), 0, rows * cols),                       // transposed
            2 => ((2 * c + 3, 2), 5, rows * (2 * cols + 3) + 5), // every second column
            3 => ((2, 2 * r + 1), 3, cols * (2 * rows + 1) + 3), // the same, transposed
            4 => ((c + 5, 1), 7, rows * (cols + 5) + 7),         // a slice of a wider one
            _ => ((1, r + 5), 7, cols * (rows + 5) + 7),         // transposed slice
        };
        let mut data = vec![f32::NAN; len];
        for i in 0..rows {
            for j in 0..cols {
                let at = offset as isize + i as isize * strides.0 + j as isize * strides.1;
                data[at as usize] = value(i, j);
            }
        }
        Stored { data, offset, shape: (rows, cols), strides }
    }

    pub fn view(&self) -> Matrix<'_> {
        // SAFETY: `new` sized the data for the layout.
        unsafe {
            Matrix::new(self.data.as_ptr().wrapping_add(self.offset), self.shape, self.strides)
        }
    }
}
