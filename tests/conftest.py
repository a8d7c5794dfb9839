"""Fixtures that several folders of tests share."""

from support.native import project

__all__ = ["project"]
