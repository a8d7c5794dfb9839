"""Pure functions of the operator table: Rextio's records, diagnostics, documentation pages."""
