"""The CUDA candidate: build-only, `support_claim=false`, `certification_ready=false`.

`candidate` is what the plugin needs: device facts, permission and diagnostics. `python -m
rextio_torch.cuda` compiles the candidate without loading it, or runs it for someone with such a
GPU. See docs/cuda.md.
"""
