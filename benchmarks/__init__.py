"""The benchmark of rextio-torch against eager PyTorch and its peers: `python -m benchmarks`."""
