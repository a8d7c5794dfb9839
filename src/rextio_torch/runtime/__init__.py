"""The Rust runtime crate, shipped as package data, and the loader that turns it into helpers."""
