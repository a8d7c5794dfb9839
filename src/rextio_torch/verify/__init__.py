"""Native functions against their own Python source: inputs, expectations, bundles.

Nothing here is imported by the plugin; everything needs torch.
"""
