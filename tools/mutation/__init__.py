"""Deliberate mistakes in the product, each of which a named test must notice."""
