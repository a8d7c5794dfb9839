"""Typed PyTorch inference functions as native code: a plugin for Rextio.

Importing this package imports neither torch nor Rextio.
"""

from rextio_torch.runtime.native import EngineInfo, engine, native
from rextio_torch.versions import __version__

__all__ = ["EngineInfo", "__version__", "engine", "native"]
