"""Timing functions against each other: for `rextio-torch bench` and the project's benchmark.

Nothing here is imported by the plugin.
"""
