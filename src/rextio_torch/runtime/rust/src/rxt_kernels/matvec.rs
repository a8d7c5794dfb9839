//! Products with one vector, as seen by the engine.

use super::matmul::{matmul, Epilogue};
use super::simd::{Isa, Kernel, Simd};
use super::tiles;
use super::view::Matrix;

/// The dot product of two vectors. Panics if the lengths differ.
pub fn dot(isa: Isa, a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "dot: lengths differ");
    isa.run(Dot { a, b })
}

struct Dot<'a> {
    a: &'a [f32],
    b: &'a [f32],
}

impl Kernel for Dot<'_> {
    type Out = f32;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        // SAFETY: two slices of equal length.
        unsafe { tiles::dot(s, self.a.as_ptr(), self.b.as_ptr(), self.a.len()) }
    }
}

/// `out = x W^T`, W of `out.len()` rows and `x.len()` columns: a linear layer at
/// batch 1, or `W @ x`.
pub fn matvec(isa: Isa, out: &mut [f32], w: Matrix<'_>, x: &[f32], epilogue: Epilogue<'_>) {
    let x = Matrix::from_slice(x, 1, x.len());
    matmul(isa, out, x, w.transposed(), epilogue);
}

/// `out = x W`, W of `x.len()` rows and `out.len()` columns.
pub fn vecmat(isa: Isa, out: &mut [f32], x: &[f32], w: Matrix<'_>, epilogue: Epilogue<'_>) {
    matmul(isa, out, Matrix::from_slice(x, 1, x.len()), w, epilogue);
}
