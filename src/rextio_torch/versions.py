"""Versions this release is built for. Where a file repeats one, a test compares it with these."""

__version__ = "0.2.0"

PLUGIN_ID = "rextio-torch"
#: Plugin API of Rextio core: same major, at least this minor.
PLUGIN_API_VERSION = "1.7"
REXTIO_REQUIREMENT = "rextio>=0.1.7,<0.2"
PYTHON_VERSION = "3.11"
#: The generated module links this libtorch; the ABI changes with every release.
TORCH_VERSION = "2.11.0"
TCH_VERSION = "0.24.0"
#: Who may permit code for the CUDA candidate, and for what.
DEVICE_PROVIDER = "rextio-device-cuda"
DEVICE_PROVIDER_VERSION = "0.1.0"
DEVICE_CAPABILITY = "cuda-libtorch-linux-x86_64"
#: `build.build-dir` in cargo's configuration is honoured from here on.
MINIMUM_RUST_VERSION = "1.91"
#: Disables the version check of tch's build script; never allowed here.
BYPASS_VARIABLE = "LIBTORCH_BYPASS_VERSION_CHECK"


def plugin_api_fits(host: str) -> bool:
    """Whether a Rextio with this plugin API has our major and at least our minor."""
    try:
        major, minor = (int(part) for part in host.split(".")[:2])
    except ValueError:
        return False
    ours = tuple(int(part) for part in PLUGIN_API_VERSION.split("."))
    return major == ours[0] and minor >= ours[1]
