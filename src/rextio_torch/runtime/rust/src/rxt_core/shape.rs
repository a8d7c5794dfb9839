//! Shape rules: the sizes of a result from the sizes of the operands.
//!
//! The same rules as `rextio_torch/ops/shapes.py`, with the same messages: an operation checks
//! its operands before anything is computed.

use std::fmt;
use std::ops::Deref;

use super::error::{Error, Result};

/// The largest rank of a tensor type.
pub const MAX_RANK: usize = 2;

/// The sizes of a tensor; as a slice, one size for each dimension.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    sizes: [usize; MAX_RANK],
    rank: usize,
}

impl Shape {
    /// Panics if there are more than `MAX_RANK` sizes: no tensor type has.
    pub fn new(sizes: &[usize]) -> Self {
        let mut shape = Self { sizes: [1; MAX_RANK], rank: sizes.len() };
        shape.sizes[..sizes.len()].copy_from_slice(sizes);
        shape
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.iter().product()
    }

    /// Whether the elements can be counted, and addressed as 8 bytes each.
    pub fn is_addressable(&self) -> bool {
        self.iter()
            .try_fold(8usize, |bytes, &size| bytes.checked_mul(size.max(1)))
            .is_some_and(|bytes| isize::try_from(bytes).is_ok())
    }

    /// Rows and columns: a tensor of rank 1 is one row.
    pub fn as_matrix(&self) -> (usize, usize) {
        match **self {
            [] => (1, 1),
            [columns] => (1, columns),
            [rows, columns] => (rows, columns),
            _ => unreachable!("rank {} of at most {MAX_RANK}", self.rank),
        }
    }
}

impl Deref for Shape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.sizes[..self.rank]
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, formatter)
    }
}

/// The broadcast of two shapes, aligned at the last dimension.
pub fn broadcast(op: &str, left: &Shape, right: &Shape) -> Result<Shape> {
    if left == right {
        return Ok(*left);
    }
    let rank = left.len().max(right.len());
    let size = |shape: &[usize], index: usize| {
        (index + shape.len()).checked_sub(rank).map_or(1, |index| shape[index])
    };
    let mut sizes = [1; MAX_RANK];
    for (index, result) in sizes[..rank].iter_mut().enumerate() {
        *result = match (size(left, index), size(right, index)) {
            (1, b) => b,
            (a, 1) => a,
            (a, b) if a == b => a,
            (a, b) => {
                return Err(Error::runtime(format!(
                    "{op}: shapes {left:?} and {right:?} cannot be broadcast together: sizes {a} \
                     and {b} differ and neither is 1"
                )))
            }
        }
    }
    Ok(Shape::new(&sizes[..rank]))
}

/// As `broadcast`, where the result takes the place of the left operand and has its shape.
pub fn broadcast_in_place(op: &str, left: &Shape, right: &Shape) -> Result<Shape> {
    let shape = broadcast(op, left, right)?;
    if shape != *left {
        return Err(Error::runtime(format!(
            "{op}: shapes {left:?} and {right:?} give {shape:?}, but an in-place result has the \
             shape of the first operand"
        )));
    }
    Ok(shape)
}

/// The shape of a matrix product of ranks 2x2, 2x1 or 1x2.
pub fn matmul(op: &str, left: &Shape, right: &Shape) -> Result<Shape> {
    let inner = (left[left.len() - 1], right[0]);
    if inner.0 != inner.1 {
        return Err(Error::runtime(format!(
            "{op}: shapes {left:?} and {right:?} cannot be multiplied: inner sizes {} and {} \
             differ",
            inner.0, inner.1,
        )));
    }
    Ok(match (left.len(), right.len()) {
        (2, 2) => Shape::new(&[left[0], right[1]]),
        (2, _) => Shape::new(&[left[0]]),
        _ => Shape::new(&[right[1]]),
    })
}

/// The shape of `input @ weight.T + bias`: `[n, in]`, `[out, in]`, `[out]` give `[n, out]`.
pub fn linear(op: &str, input: &Shape, weight: &Shape, bias: Option<&Shape>) -> Result<Shape> {
    if input[1] != weight[1] {
        return Err(Error::runtime(format!(
            "{op}: input of shape {input:?} and weight of shape {weight:?} do not fit: last sizes \
             {} and {} differ",
            input[1], weight[1],
        )));
    }
    match bias {
        // Eager broadcasts a bias of one value over all outputs.
        Some(bias) if bias[0] != weight[0] && bias[0] != 1 => Err(Error::runtime(format!(
            "{op}: bias of shape {bias:?} does not fit weight of shape {weight:?}: expected {} \
             values",
            weight[0],
        ))),
        _ => Ok(Shape::new(&[input[0], weight[0]])),
    }
}

/// The shape with dimension `dim` removed, or of size 1 if `keepdim`.
pub fn reduce(shape: &Shape, dim: usize, keepdim: bool) -> Shape {
    match (&**shape, keepdim) {
        (&[_, columns], true) if dim == 0 => Shape::new(&[1, columns]),
        (&[rows, _], true) => Shape::new(&[rows, 1]),
        (&[_, columns], false) if dim == 0 => Shape::new(&[columns]),
        (&[rows, _], false) => Shape::new(&[rows]),
        (_, true) => Shape::new(&[1]),
        (_, false) => Shape::new(&[]),
    }
}

/// As `reduce`, for reductions that have no value for an empty dimension.
pub fn reduce_nonempty(op: &str, shape: &Shape, dim: usize, keepdim: bool) -> Result<Shape> {
    if shape[dim] == 0 {
        return Err(Error::index(format!(
            "{op}: dimension {dim} of shape {shape:?} is empty and has no result"
        )));
    }
    Ok(reduce(shape, dim, keepdim))
}

#[cfg(test)]
mod tests {
    use super::super::error::Class;
    use super::*;

    fn shape<const N: usize>(sizes: [usize; N]) -> Shape {
        Shape::new(&sizes)
    }

    #[test]
    fn broadcast_follows_the_last_dimension() {
        assert_eq!(broadcast("add", &shape([3, 4]), &shape([4])), Ok(shape([3, 4])));
        assert_eq!(broadcast("add", &shape([4]), &shape([3, 1])), Ok(shape([3, 4])));
        assert_eq!(broadcast("add", &shape([3, 1]), &shape([1, 4])), Ok(shape([3, 4])));
        assert_eq!(broadcast("add", &shape([0, 3]), &shape([1, 3])), Ok(shape([0, 3])));
        assert_eq!(broadcast("add", &shape([1]), &shape([0])), Ok(shape([0])));
        let error = broadcast("add", &shape([2, 3]), &shape([2, 4])).unwrap_err();
        assert_eq!(error.class, Class::Runtime);
        assert!(error.message.contains("[2, 3]") && error.message.contains("[2, 4]"));
        assert!(broadcast("add", &shape([0]), &shape([2])).is_err());
    }

    #[test]
    fn an_in_place_result_has_the_shape_of_the_first_operand() {
        let rule = |left, right| broadcast_in_place("add_", &left, &right);
        assert_eq!(rule(shape([3, 4]), shape([4])), Ok(shape([3, 4])));
        assert_eq!(rule(shape([0, 3]), shape([1, 3])), Ok(shape([0, 3])));
        assert_eq!(rule(shape([0]), shape([1])), Ok(shape([0])));
        let error = rule(shape([3, 1]), shape([1, 4])).unwrap_err();
        assert_eq!(error.class, Class::Runtime);
        assert!(error.message.contains("[3, 4]"));
        // The same number of elements, but another rank.
        assert!(rule(shape([4]), shape([1, 4])).is_err());
        assert!(rule(shape([1]), shape([0])).is_err());
        assert!(rule(shape([2, 3]), shape([2, 4])).is_err());
    }

    #[test]
    fn matmul_joins_outer_sizes() {
        assert_eq!(matmul("matmul", &shape([2, 3]), &shape([3, 4])), Ok(shape([2, 4])));
        assert_eq!(matmul("matmul", &shape([2, 3]), &shape([3])), Ok(shape([2])));
        assert_eq!(matmul("matmul", &shape([3]), &shape([3, 4])), Ok(shape([4])));
        assert_eq!(matmul("matmul", &shape([2, 0]), &shape([0, 3])), Ok(shape([2, 3])));
        assert!(matmul("matmul", &shape([2, 3]), &shape([2, 3])).is_err());
        assert!(matmul("matmul", &shape([2, 3]), &shape([2])).is_err());
    }

    #[test]
    fn linear_checks_weight_and_bias() {
        let (input, weight) = (shape([2, 3]), shape([4, 3]));
        for bias in [Some(shape([4])), Some(shape([1])), None] {
            assert_eq!(linear("linear", &input, &weight, bias.as_ref()), Ok(shape([2, 4])));
        }
        assert!(linear("linear", &input, &shape([3, 4]), None).is_err());
        assert!(linear("linear", &input, &weight, Some(&shape([3]))).is_err());
    }

    #[test]
    fn an_empty_dimension_has_no_largest_value() {
        assert_eq!(reduce_nonempty("argmax", &shape([0, 3]), 1, false), Ok(shape([0])));
        let error = reduce_nonempty("argmax", &shape([2, 0]), 1, false).unwrap_err();
        assert_eq!(error.class, Class::Index);
        assert_eq!(reduce(&shape([2, 0]), 1, true), shape([2, 1]));
        assert_eq!(reduce(&shape([2, 3]), 0, true), shape([1, 3]));
        assert_eq!(reduce(&shape([2, 3]), 0, false), shape([3]));
        assert_eq!(reduce(&shape([3]), 0, true), shape([1]));
    }
}
