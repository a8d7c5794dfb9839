"""Where things are in the repository."""

from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
CACHE = REPOSITORY / ".cache"
PACKAGE = REPOSITORY / "src" / "rextio_torch"
#: The Rust runtime.
CRATE = PACKAGE / "runtime" / "rust"
