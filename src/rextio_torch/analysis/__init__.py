"""From a claim site to a decision: claimed, rejected or not covered. Knows no operator by name."""
