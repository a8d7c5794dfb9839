//! Operations on slices, element by element.

use super::math;
use super::simd::{Isa, Kernel, Simd};

/// Operations, all of them in a list, and their names.
macro_rules! operations {
    ($kind:ident: $($operation:ident = $name:literal),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $kind {
            $($operation),*
        }

        impl $kind {
            pub const ALL: [$kind; [$($name),*].len()] = [$($kind::$operation),*];

            pub fn name(self) -> &'static str {
                match self {
                    $($kind::$operation => $name),*
                }
            }
        }
    };
}

operations! {
    Unary:
    Relu = "relu",
    Abs = "abs",
    Neg = "neg",
    Square = "square",
    Exp = "exp",
    Log = "log",
    Sqrt = "sqrt",
    Tanh = "tanh",
    Sigmoid = "sigmoid",
    Gelu = "gelu",
}

operations! {
    Binary:
    Add = "add",
    Sub = "sub",
    Mul = "mul",
    Div = "div",
}

impl Unary {
    /// Nanoseconds for one element in the first-level cache, roughly: decides about threads.
    pub fn nanoseconds(self) -> f64 {
        match self {
            Unary::Relu | Unary::Abs | Unary::Neg | Unary::Square => 0.05,
            Unary::Sqrt => 0.2,
            Unary::Exp | Unary::Log | Unary::Sigmoid => 0.4,
            Unary::Tanh | Unary::Gelu => 0.6,
        }
    }
}

/// `out[i] = op(a[i])`. Panics if the lengths differ.
pub fn unary(isa: Isa, op: Unary, out: &mut [f32], a: &[f32]) {
    assert_eq!(out.len(), a.len(), "unary: lengths differ");
    let (n, a, out) = (out.len(), a.as_ptr(), out.as_mut_ptr());
    isa.run(UnaryKernel { op, out, a, n });
}

/// `x[i] = op(x[i])`.
pub fn unary_in_place(isa: Isa, op: Unary, x: &mut [f32]) {
    let (n, out) = (x.len(), x.as_mut_ptr());
    let a = out.cast_const();
    isa.run(UnaryKernel { op, out, a, n });
}

/// `out[i] = op(a[i], b[i])`. Panics if the lengths differ.
pub fn binary(isa: Isa, op: Binary, out: &mut [f32], a: &[f32], b: &[f32]) {
    assert!(out.len() == a.len() && out.len() == b.len(), "binary: lengths differ");
    let (n, out) = (out.len(), out.as_mut_ptr());
    let (a, b) = (Operand::Each(a.as_ptr()), Operand::Each(b.as_ptr()));
    isa.run(BinaryKernel { op, out, a, b, n });
}

/// `a[i] = op(a[i], b[i])`.
pub fn binary_in_place_left(isa: Isa, op: Binary, a: &mut [f32], b: &[f32]) {
    assert_eq!(a.len(), b.len(), "binary: lengths differ");
    let (n, out) = (a.len(), a.as_mut_ptr());
    let (a, b) = (Operand::Each(out.cast_const()), Operand::Each(b.as_ptr()));
    isa.run(BinaryKernel { op, out, a, b, n });
}

/// `b[i] = op(a[i], b[i])`.
pub fn binary_in_place_right(isa: Isa, op: Binary, a: &[f32], b: &mut [f32]) {
    assert_eq!(a.len(), b.len(), "binary: lengths differ");
    let (n, out) = (b.len(), b.as_mut_ptr());
    let (a, b) = (Operand::Each(a.as_ptr()), Operand::Each(out.cast_const()));
    isa.run(BinaryKernel { op, out, a, b, n });
}

/// `out[i] = op(a[i], b)`.
pub fn binary_scalar(isa: Isa, op: Binary, out: &mut [f32], a: &[f32], b: f32) {
    assert_eq!(out.len(), a.len(), "binary: lengths differ");
    let (n, out) = (out.len(), out.as_mut_ptr());
    let (a, b) = (Operand::Each(a.as_ptr()), Operand::One(b));
    isa.run(BinaryKernel { op, out, a, b, n });
}

/// `out[i] = op(a, b[i])`.
pub fn scalar_binary(isa: Isa, op: Binary, out: &mut [f32], a: f32, b: &[f32]) {
    assert_eq!(out.len(), b.len(), "binary: lengths differ");
    let (n, out) = (out.len(), out.as_mut_ptr());
    let (a, b) = (Operand::One(a), Operand::Each(b.as_ptr()));
    isa.run(BinaryKernel { op, out, a, b, n });
}

/// `a[i] = op(a[i], b)`.
pub fn binary_scalar_in_place(isa: Isa, op: Binary, a: &mut [f32], b: f32) {
    let (n, out) = (a.len(), a.as_mut_ptr());
    let (a, b) = (Operand::Each(out.cast_const()), Operand::One(b));
    isa.run(BinaryKernel { op, out, a, b, n });
}

/// `b[i] = op(a, b[i])`.
pub fn scalar_binary_in_place(isa: Isa, op: Binary, a: f32, b: &mut [f32]) {
    let (n, out) = (b.len(), b.as_mut_ptr());
    let (a, b) = (Operand::One(a), Operand::Each(out.cast_const()));
    isa.run(BinaryKernel { op, out, a, b, n });
}

/// `out[i] = op(a[i])` for `n` elements.
///
/// # Safety
/// Both pointers are valid for `n` elements, and equal or disjoint.
pub unsafe fn unary_unchecked(isa: Isa, op: Unary, out: *mut f32, a: *const f32, n: usize) {
    isa.run(UnaryKernel { op, out, a, n });
}

/// `out[i] = op(a[i], b[i])` for `n` elements.
///
/// # Safety
/// The pointers are valid for `n` elements, and `out` equals or is disjoint from each of the
/// others.
pub unsafe fn binary_unchecked(
    isa: Isa,
    op: Binary,
    out: *mut f32,
    a: *const f32,
    b: *const f32,
    n: usize,
) {
    let (a, b) = (Operand::Each(a), Operand::Each(b));
    isa.run(BinaryKernel { op, out, a, b, n });
}

/// `out` and `a` are `n` elements each, the same ones or disjoint.
struct UnaryKernel {
    op: Unary,
    out: *mut f32,
    a: *const f32,
    n: usize,
}

impl Kernel for UnaryKernel {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let UnaryKernel { op, out, a, n } = self;
        // SAFETY: the constructors above take the pointers from slices of `n`
        // elements, one slice for both or two that Rust keeps disjoint.
        unsafe {
            match op {
                Unary::Relu => map::<S, Relu, true>(s, Relu, out, a, n),
                Unary::Abs => map::<S, Abs, true>(s, Abs, out, a, n),
                Unary::Neg => map::<S, Neg, true>(s, Neg, out, a, n),
                Unary::Square => map::<S, Square, true>(s, Square, out, a, n),
                Unary::Exp => map::<S, Exp, false>(s, Exp, out, a, n),
                Unary::Log => map::<S, Log, false>(s, Log, out, a, n),
                Unary::Sqrt => map::<S, Sqrt, true>(s, Sqrt, out, a, n),
                Unary::Tanh => map::<S, Tanh, false>(s, Tanh, out, a, n),
                Unary::Sigmoid => map::<S, Sigmoid, false>(s, Sigmoid, out, a, n),
                Unary::Gelu => map::<S, Gelu, false>(s, Gelu, out, a, n),
            }
        }
    }
}

/// A function of one vector. Not a closure: those cannot be told to inline, and
/// a closure that is not inlined is compiled without the kernel's features.
trait Function<S: Simd>: Copy {
    fn of(self, s: S, x: S::V) -> S::V;

    /// The same for four, where that can be done better together.
    #[inline(always)]
    fn of4(self, s: S, x: [S::V; 4]) -> [S::V; 4] {
        [self.of(s, x[0]), self.of(s, x[1]), self.of(s, x[2]), self.of(s, x[3])]
    }
}

/// A function of two.
trait Function2<S: Simd>: Copy {
    fn of(self, s: S, a: S::V, b: S::V) -> S::V;
}

macro_rules! functions {
    ($($name:ident($s:ident, $x:ident) = $value:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $name;
        impl<S: Simd> Function<S> for $name {
            #[inline(always)]
            fn of(self, $s: S, $x: S::V) -> S::V {
                $value
            }
        }
    )*};
}

macro_rules! functions2 {
    ($($name:ident($s:ident, $a:ident, $b:ident) = $value:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $name;
        impl<S: Simd> Function2<S> for $name {
            #[inline(always)]
            fn of(self, $s: S, $a: S::V, $b: S::V) -> S::V {
                $value
            }
        }
    )*};
}

functions! {
    Relu(s, x) = math::relu(s, x);
    Abs(s, x) = s.abs(x);
    Neg(s, x) = s.neg(x);
    Square(s, x) = s.mul(x, x);
    Exp(s, x) = math::exp(s, x);
    Log(s, x) = math::log(s, x);
    Tanh(s, x) = math::tanh(s, x);
    Sigmoid(s, x) = math::sigmoid(s, x);
    Gelu(s, x) = math::gelu(s, x);
}

#[derive(Clone, Copy)]
struct Sqrt;

impl<S: Simd> Function<S> for Sqrt {
    #[inline(always)]
    fn of(self, s: S, x: S::V) -> S::V {
        s.sqrt(x)
    }
    #[inline(always)]
    fn of4(self, s: S, x: [S::V; 4]) -> [S::V; 4] {
        s.sqrt4(x)
    }
}

functions2! {
    Add(s, a, b) = s.add(a, b);
    Sub(s, a, b) = s.sub(a, b);
    Mul(s, a, b) = s.mul(a, b);
    Div(s, a, b) = s.div(a, b);
}

/// A function of two with one argument fixed.
#[derive(Clone, Copy)]
struct WithLeft<S: Simd, F>(S::V, F);

#[derive(Clone, Copy)]
struct WithRight<S: Simd, F>(F, S::V);

impl<S: Simd, F: Function2<S>> Function<S> for WithLeft<S, F> {
    #[inline(always)]
    fn of(self, s: S, x: S::V) -> S::V {
        self.1.of(s, self.0, x)
    }
}

impl<S: Simd, F: Function2<S>> Function<S> for WithRight<S, F> {
    #[inline(always)]
    fn of(self, s: S, x: S::V) -> S::V {
        self.0.of(s, x, self.1)
    }
}

/// `out[i] = f(a[i])`, four vectors at a time if `FOUR`, and the rest one at a time.
///
/// # Safety
/// `a` and `out` are valid for `n` elements, and either equal or disjoint.
#[inline(always)]
unsafe fn map<S: Simd, F: Function<S>, const FOUR: bool>(
    s: S,
    f: F,
    out: *mut f32,
    a: *const f32,
    n: usize,
) {
    // SAFETY: every access is below `n`; each vector is read before its place
    // is written.
    unsafe {
        if S::LANES == 1 {
            // A counted loop over one pointer, or over two that the compiler
            // finds apart at run time: it makes its own vectors of these. Over
            // two pointers that are in fact the same it would stay scalar.
            if out.cast_const() == a {
                for i in 0..n {
                    s.store(out.add(i), f.of(s, s.load(out.add(i))));
                }
            } else {
                for i in 0..n {
                    s.store(out.add(i), f.of(s, s.load(a.add(i))));
                }
            }
            return;
        }
        // Counted loops over moving pointers: an index would be checked for
        // overflow at every step, as generated crates are built.
        let (mut out, mut a) = (out, a);
        let mut left = n;
        if FOUR {
            for _ in 0..left / (4 * S::LANES) {
                let mut x = [s.splat(0.0); 4];
                for (k, x) in x.iter_mut().enumerate() {
                    *x = s.load(a.add(k * S::LANES));
                }
                for (k, y) in f.of4(s, x).into_iter().enumerate() {
                    s.store(out.add(k * S::LANES), y);
                }
                (out, a) = (out.add(4 * S::LANES), a.add(4 * S::LANES));
            }
            left %= 4 * S::LANES;
        }
        for _ in 0..left / S::LANES {
            s.store(out, f.of(s, s.load(a)));
            (out, a) = (out.add(S::LANES), a.add(S::LANES));
        }
        left %= S::LANES;
        if left > 0 {
            s.store_head(out, f.of(s, s.load_head(a, left)), left);
        }
    }
}

#[derive(Clone, Copy)]
enum Operand {
    Each(*const f32),
    One(f32),
}

/// `out` and each pointer operand are `n` elements, the same ones or disjoint.
struct BinaryKernel {
    op: Binary,
    out: *mut f32,
    a: Operand,
    b: Operand,
    n: usize,
}

impl Kernel for BinaryKernel {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: as for `UnaryKernel`.
        unsafe {
            match self.op {
                Binary::Add => zip(s, Add, self),
                Binary::Sub => zip(s, Sub, self),
                Binary::Mul => zip(s, Mul, self),
                Binary::Div => zip(s, Div, self),
            }
        }
    }
}

/// # Safety
/// What `BinaryKernel` says of its pointers holds.
#[inline(always)]
unsafe fn zip<S: Simd, F: Function2<S>>(s: S, f: F, kernel: BinaryKernel) {
    let BinaryKernel { out, a, b, n, .. } = kernel;
    // SAFETY: the caller's promise, handed on.
    unsafe {
        match (a, b) {
            (Operand::Each(a), Operand::Each(b)) => zip_each(s, f, out, a, b, n),
            (Operand::Each(a), Operand::One(b)) => {
                let f = WithRight::<S, F>(f, s.splat(b));
                map::<S, _, true>(s, f, out, a, n);
            }
            (Operand::One(a), Operand::Each(b)) => {
                let f = WithLeft::<S, F>(s.splat(a), f);
                map::<S, _, true>(s, f, out, b, n);
            }
            (Operand::One(_), Operand::One(_)) => {} // no constructor makes it
        }
    }
}

/// # Safety
/// As for [`zip`].
#[inline(always)]
unsafe fn zip_each<S: Simd, F: Function2<S>>(
    s: S,
    f: F,
    out: *mut f32,
    a: *const f32,
    b: *const f32,
    n: usize,
) {
    // SAFETY: every access is below `n`; each vector is read before its place
    // is written.
    unsafe {
        if S::LANES == 1 {
            // As in `map`: no loop may see two pointers that are the same.
            if out.cast_const() == a {
                for i in 0..n {
                    s.store(out.add(i), f.of(s, s.load(out.add(i)), s.load(b.add(i))));
                }
            } else if out.cast_const() == b {
                for i in 0..n {
                    s.store(out.add(i), f.of(s, s.load(a.add(i)), s.load(out.add(i))));
                }
            } else {
                for i in 0..n {
                    s.store(out.add(i), f.of(s, s.load(a.add(i)), s.load(b.add(i))));
                }
            }
            return;
        }
        let (mut out, mut a, mut b) = (out, a, b);
        let mut left = n;
        for _ in 0..left / (4 * S::LANES) {
            for k in 0..4 {
                let at = k * S::LANES;
                s.store(out.add(at), f.of(s, s.load(a.add(at)), s.load(b.add(at))));
            }
            let step = 4 * S::LANES;
            (out, a, b) = (out.add(step), a.add(step), b.add(step));
        }
        left %= 4 * S::LANES;
        for _ in 0..left / S::LANES {
            s.store(out, f.of(s, s.load(a), s.load(b)));
            (out, a, b) = (out.add(S::LANES), a.add(S::LANES), b.add(S::LANES));
        }
        left %= S::LANES;
        if left > 0 {
            let (x, y) = (s.load_head(a, left), s.load_head(b, left));
            s.store_head(out, f.of(s, x, y), left);
        }
    }
}

/// `out[i] = a[i * stride]`, for reading one line of a strided view.
///
/// # Safety
/// Every element read is valid for reading and none is in `out`.
pub unsafe fn gather(out: &mut [f32], a: *const f32, stride: isize) {
    // SAFETY: the caller's promise; `wrapping_offset` never leaves the view for
    // an index below `out.len()`.
    unsafe {
        match stride {
            1 => std::ptr::copy_nonoverlapping(a, out.as_mut_ptr(), out.len()),
            0 => {
                if !out.is_empty() {
                    out.fill(*a);
                }
            }
            _ => {
                let mut p = a;
                for x in out {
                    *x = *p;
                    p = p.wrapping_offset(stride);
                }
            }
        }
    }
}

/// `out[r * cols + c] = a[r + c * stride]`: a view whose rows are adjacent
/// elements (a transposed matrix), copied into row-major order in blocks that
/// use every fetched line whole.
///
/// # Safety
/// Every element read is valid for reading, none is in `out`, and `out` holds
/// `rows * cols` elements.
pub unsafe fn gather_transposed(
    out: &mut [f32],
    rows: usize,
    cols: usize,
    a: *const f32,
    stride: isize,
) {
    const BLOCK: usize = 16;
    if cols == 0 {
        return;
    }
    for c0 in (0..cols).step_by(BLOCK) {
        let c1 = cols.min(c0 + BLOCK);
        for (r, row) in out.chunks_exact_mut(cols).take(rows).enumerate() {
            let first = a.wrapping_add(r).wrapping_offset(stride.wrapping_mul(c0 as isize));
            // SAFETY: the caller's promise; r < rows and c < cols.
            unsafe { gather(&mut row[c0..c1], first, stride) };
        }
    }
}
