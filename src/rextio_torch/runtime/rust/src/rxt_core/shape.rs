//! Shape rules: the sizes of a result from the sizes of the operands.
//!
//! The same rules as `rextio_torch/ops/shapes.py`, with the same messages: an operation checks
//! its operands before anything is computed.

use super::error::{Error, Result};

pub type Shape = Vec<i64>;

fn text(shape: &[i64]) -> String {
    let sizes: Vec<String> = shape.iter().map(i64::to_string).collect();
    format!("[{}]", sizes.join(", "))
}

/// The broadcast of two shapes, aligned at the last dimension.
pub fn broadcast(op: &str, left: &[i64], right: &[i64]) -> Result<Shape> {
    let rank = left.len().max(right.len());
    let size = |shape: &[i64], from_end: usize| {
        shape.len().checked_sub(from_end).map_or(1, |index| shape[index])
    };
    (1..=rank)
        .rev()
        .map(|from_end| match (size(left, from_end), size(right, from_end)) {
            (1, b) => Ok(b),
            (a, 1) => Ok(a),
            (a, b) if a == b => Ok(a),
            (a, b) => Err(Error::runtime(format!(
                "{op}: shapes {} and {} cannot be broadcast together: sizes {a} and {b} differ \
                 and neither is 1",
                text(left),
                text(right),
            ))),
        })
        .collect()
}

/// The shape of a matrix product of ranks 2x2, 2x1 or 1x2.
pub fn matmul(op: &str, left: &[i64], right: &[i64]) -> Result<Shape> {
    let (rows, inner_left) = left.split_at(left.len() - 1);
    let (inner_right, columns) = right.split_at(1);
    if inner_left != inner_right {
        return Err(Error::runtime(format!(
            "{op}: shapes {} and {} cannot be multiplied: inner sizes {} and {} differ",
            text(left),
            text(right),
            inner_left[0],
            inner_right[0],
        )));
    }
    Ok([rows, columns].concat())
}

/// The shape of `input @ weight.T + bias`: `[n, in]`, `[out, in]`, `[out]` give `[n, out]`.
pub fn linear(op: &str, input: &[i64], weight: &[i64], bias: Option<&[i64]>) -> Result<Shape> {
    if input[1] != weight[1] {
        return Err(Error::runtime(format!(
            "{op}: input of shape {} and weight of shape {} do not fit: last sizes {} and {} \
             differ",
            text(input),
            text(weight),
            input[1],
            weight[1],
        )));
    }
    match bias {
        // Eager broadcasts a bias of one value over all outputs.
        Some(bias) if bias[0] != weight[0] && bias[0] != 1 => Err(Error::runtime(format!(
            "{op}: bias of shape {} does not fit weight of shape {}: expected {} values",
            text(bias),
            text(weight),
            weight[0],
        ))),
        _ => Ok(vec![input[0], weight[0]]),
    }
}

/// The shape with dimension `dim` removed, or of size 1 if `keepdim`.
pub fn reduce(shape: &[i64], dim: usize, keepdim: bool) -> Shape {
    let mut result = shape.to_vec();
    if keepdim {
        result[dim] = 1;
    } else {
        result.remove(dim);
    }
    result
}

/// As `reduce`, for reductions that have no value for an empty dimension.
pub fn reduce_nonempty(op: &str, shape: &[i64], dim: usize, keepdim: bool) -> Result<Shape> {
    if shape[dim] == 0 {
        return Err(Error::index(format!(
            "{op}: dimension {dim} of shape {} is empty and has no result",
            text(shape),
        )));
    }
    Ok(reduce(shape, dim, keepdim))
}

#[cfg(test)]
mod tests {
    use super::super::error::Class;
    use super::*;

    #[test]
    fn broadcast_follows_the_last_dimension() {
        assert_eq!(broadcast("add", &[3, 4], &[4]), Ok(vec![3, 4]));
        assert_eq!(broadcast("add", &[4], &[3, 1]), Ok(vec![3, 4]));
        assert_eq!(broadcast("add", &[0, 3], &[1, 3]), Ok(vec![0, 3]));
        assert_eq!(broadcast("add", &[1], &[0]), Ok(vec![0]));
        let error = broadcast("add", &[2, 3], &[2, 4]).unwrap_err();
        assert_eq!(error.class, Class::Runtime);
        assert!(error.message.contains("[2, 3]") && error.message.contains("[2, 4]"));
        assert!(broadcast("add", &[0], &[2]).is_err());
    }

    #[test]
    fn matmul_joins_outer_sizes() {
        assert_eq!(matmul("matmul", &[2, 3], &[3, 4]), Ok(vec![2, 4]));
        assert_eq!(matmul("matmul", &[2, 3], &[3]), Ok(vec![2]));
        assert_eq!(matmul("matmul", &[3], &[3, 4]), Ok(vec![4]));
        assert_eq!(matmul("matmul", &[2, 0], &[0, 3]), Ok(vec![2, 3]));
        assert!(matmul("matmul", &[2, 3], &[2, 3]).is_err());
        assert!(matmul("matmul", &[2, 3], &[2]).is_err());
    }

    #[test]
    fn linear_checks_weight_and_bias() {
        assert_eq!(linear("linear", &[2, 3], &[4, 3], Some(&[4])), Ok(vec![2, 4]));
        assert_eq!(linear("linear", &[2, 3], &[4, 3], Some(&[1])), Ok(vec![2, 4]));
        assert_eq!(linear("linear", &[2, 3], &[4, 3], None), Ok(vec![2, 4]));
        assert!(linear("linear", &[2, 3], &[3, 4], None).is_err());
        assert!(linear("linear", &[2, 3], &[4, 3], Some(&[3])).is_err());
    }

    #[test]
    fn an_empty_dimension_has_no_largest_value() {
        assert_eq!(reduce_nonempty("argmax", &[0, 3], 1, false), Ok(vec![0]));
        let error = reduce_nonempty("argmax", &[2, 0], 1, false).unwrap_err();
        assert_eq!(error.class, Class::Index);
        assert_eq!(reduce(&[2, 0], 1, true), vec![2, 1]);
    }
}
