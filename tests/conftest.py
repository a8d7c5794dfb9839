"""Fixtures that several folders of tests share."""

from support.native import native_project

__all__ = ["native_project"]
