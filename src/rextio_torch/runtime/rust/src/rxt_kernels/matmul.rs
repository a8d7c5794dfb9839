//! Matrix products of every size and layout, with a linear layer's bias and
//! activation applied while the result is in the cache.

use super::elementwise::{binary_scalar_in_place, unary_in_place, Binary, Unary};
use super::packed::{by_packing, with_scratch};
use super::simd::{Isa, Kernel, Simd};
use super::sweep::by_sweep;
use super::tiles::{by_columns, by_rows, Product};
use super::view::Matrix;

/// What happens to a product before anyone sees it.
#[derive(Clone, Copy, Default)]
pub struct Epilogue<'a> {
    /// Added to every row; as long as a row.
    pub bias: Option<&'a [f32]>,
    /// Applied after the bias.
    pub op: Option<Unary>,
}

/// How a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Tiles of dot products: both operands run along k. An operand that does
    /// not is copied.
    Rows,
    /// Tiles of outer products: the second operand runs along n.
    Columns,
    /// Few rows times a large second operand, which is read in order, once.
    Sweep,
    /// Both operands copied into the order the tiles read them in.
    Packed,
}

/// The path for a product on one thread, by measurement (benches/kernels.rs).
pub fn path(a: Matrix<'_>, b: Matrix<'_>) -> Path {
    let (m, k, n) = (a.rows(), a.cols(), b.cols());
    let weight = k.saturating_mul(n);
    let work = m.saturating_mul(weight);
    if b.unit_cols() && !(b.unit_rows() && m > 1) {
        // Tiles of dot products cost about a nanosecond per output to add up
        // their lanes, packing a fraction of one per element of `b`.
        return if m < 6 || m <= k / 4 || n < 48 || work < 16 * 1024 {
            Path::Rows
        } else {
            Path::Packed
        };
    }
    // Up to a megabyte the second-level cache holds `b` as it lies.
    match (weight <= 256 * 1024, m) {
        (true, _) if m <= 512 => Path::Columns,
        (false, ..=16) => Path::Sweep,
        _ => Path::Packed,
    }
}

/// Row-major `out = op(a b + bias)`. Panics if the sizes differ: the caller
/// raises eager's error before.
pub fn matmul(isa: Isa, out: &mut [f32], a: Matrix<'_>, b: Matrix<'_>, epilogue: Epilogue<'_>) {
    if b.cols() == 1 && a.rows() > 1 && b.rows() == a.cols() {
        // A matrix times one column is that column times the transposed matrix,
        // with the same elements in `out` in the same order.
        let bias = epilogue.bias.map(|bias| bias[0]);
        let plain = Epilogue::default();
        let (a, b) = (b.transposed(), a.transposed());
        matmul_by(isa, path(a, b), out, a, b, plain);
        if let Some(bias) = bias {
            binary_scalar_in_place(isa, Binary::Add, out, bias);
        }
        if let Some(op) = epilogue.op {
            unary_in_place(isa, op, out);
        }
        return;
    }
    matmul_by(isa, path(a, b), out, a, b, epilogue);
}

/// [`matmul`] by a given path.
pub fn matmul_by(
    isa: Isa,
    path: Path,
    out: &mut [f32],
    a: Matrix<'_>,
    b: Matrix<'_>,
    epilogue: Epilogue<'_>,
) {
    let (m, k, n) = (a.rows(), a.cols(), b.cols());
    assert!(
        b.rows() == k && Some(out.len()) == m.checked_mul(n),
        "matmul: {m}x{k} @ {}x{n} into {}",
        b.rows(),
        out.len()
    );
    assert!(epilogue.bias.is_none_or(|bias| bias.len() == n), "matmul: bias");
    if out.is_empty() {
        return;
    }
    if k == 0 {
        // Nothing is added up: the bias alone.
        for row in out.chunks_exact_mut(n) {
            match epilogue.bias {
                Some(bias) => row.copy_from_slice(bias),
                None => row.fill(0.0),
            }
        }
        if let Some(op) = epilogue.op {
            unary_in_place(isa, op, out);
        }
        return;
    }
    if path == Path::Packed {
        let product = Product {
            out: out.as_mut_ptr(),
            a: a.ptr(),
            a_row: a.row_stride(),
            a_step: a.col_stride(),
            b: b.ptr(),
            b_row: b.row_stride(),
            bias: epilogue.bias.map(<[f32]>::as_ptr),
            m,
            k,
            n,
        };
        let b_step = b.col_stride();
        with_scratch(|scratch| {
            isa.run(Large { product, b_step, scratch });
        });
        if let Some(op) = epilogue.op {
            unary_in_place(isa, op, out);
        }
        return;
    }
    // Copies of what no tile can read as it lies. `a` and `b` are views of them
    // from then on.
    let (mut a_copy, mut b_copy) = (Vec::new(), Vec::new());
    let by_rows = path == Path::Rows;
    let a = if by_rows && !a.unit_rows() { pack(&mut a_copy, a) } else { a };
    let b = if by_rows { b.transposed() } else { b };
    let b = if b.unit_rows() { b } else { pack(&mut b_copy, b) };
    isa.run(Small {
        path,
        product: Product {
            out: out.as_mut_ptr(),
            a: a.ptr(),
            a_row: a.row_stride(),
            a_step: a.col_stride(),
            b: b.ptr(),
            b_row: b.row_stride(),
            bias: epilogue.bias.map(<[f32]>::as_ptr),
            m,
            k,
            n,
        },
    });
    if let Some(op) = epilogue.op {
        unary_in_place(isa, op, out);
    }
}

fn pack<'a>(copy: &'a mut Vec<f32>, a: Matrix<'_>) -> Matrix<'a> {
    copy.resize(a.rows() * a.cols(), 0.0);
    a.copy_to(copy);
    Matrix::from_slice(copy, a.rows(), a.cols())
}

struct Large {
    product: Product,
    b_step: isize,
    scratch: *mut f32,
}

impl Kernel for Large {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: as for `Small`; the scratch is the one of this call.
        unsafe { by_packing(s, &self.product, self.b_step, self.scratch) }
    }
}

struct Small {
    path: Path,
    product: Product,
}

impl Kernel for Small {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let p = &self.product;
        // SAFETY: `matmul_by` checked the sizes, none is zero, and the pointers
        // come from views and slices of those sizes; rows run along k or n as
        // each path asks.
        unsafe {
            match self.path {
                Path::Rows => by_rows(s, p),
                Path::Sweep => by_sweep(s, p),
                _ => by_columns(s, p),
            }
        }
    }
}
