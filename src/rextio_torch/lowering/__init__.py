"""From a claimed site to one Rust expression and its helpers. Knows no operator by name."""
