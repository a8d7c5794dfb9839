"""The front end: ordinary typed functions become the dialect that Rextio compiles.

`explain`'s table of forms says what is rewritten; docs/python.md lists it.
"""
