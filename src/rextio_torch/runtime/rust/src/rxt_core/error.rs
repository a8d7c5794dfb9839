//! The error of a native operation: a Python exception class and a message.

use std::fmt;

/// Exception classes that eager PyTorch raises for the operations of the surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Sizes that do not fit, and failures inside libtorch.
    Runtime,
    /// An empty dimension that must have a value.
    Index,
}

/// A failed operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub class: Class,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn runtime(message: String) -> Self {
        Self { class: Class::Runtime, message }
    }

    pub fn index(message: String) -> Self {
        Self { class: Class::Index, message }
    }

    /// An error of libtorch: its first line, without the C++ stack trace that follows.
    pub fn libtorch(operation: &str, text: &str) -> Self {
        let line = text.lines().next().unwrap_or("libtorch failed without a message");
        let message = line.strip_prefix("Internal torch error: ").unwrap_or(line);
        Self::runtime(format!("{operation}: {message}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtorch_errors_lose_their_stack_trace() {
        let text = "mat1 and mat2 shapes cannot be multiplied\nException raised from meta at x.cpp";
        let error = Error::libtorch("matmul", text);
        assert_eq!(error.message, "matmul: mat1 and mat2 shapes cannot be multiplied");
        assert_eq!(error.class, Class::Runtime);
    }

    #[test]
    fn an_empty_libtorch_error_still_has_a_message() {
        assert_eq!(Error::libtorch("exp", "").message, "exp: libtorch failed without a message");
    }
}
