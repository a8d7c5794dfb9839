"""Fixtures that several folders of tests share."""

from support.engines import variant
from support.native import native_project

__all__ = ["native_project", "variant"]
