"""The operator table: everything the product knows about an operator, stated once.

`model` defines what a row is, `shapes` the shape rules, one module per family holds the rows, and
`table` puts them together. Nothing here imports another part of the package, torch or Rextio.
"""
