"""Versions this release is built for: the one place where each is written."""

__version__ = "0.2.0"

PLUGIN_ID = "rextio-torch"
#: Plugin API of Rextio core: same major, at least this minor.
PLUGIN_API_VERSION = "1.7"
PYTHON_VERSION = "3.11"
#: The generated module links this libtorch; the ABI changes with every release.
TORCH_VERSION = "2.11.0"
TCH_VERSION = "0.24.0"
#: `build.build-dir` in cargo's configuration is honoured from here on.
MINIMUM_RUST_VERSION = "1.91"
#: Disables the version check of tch's build script; never allowed here.
BYPASS_VARIABLE = "LIBTORCH_BYPASS_VERSION_CHECK"
