"""A project's source files as trees: names, annotations, functions with tensor annotations.

What `explain` and the front end both read. Nothing here knows an operator or changes a file.
"""
