"""Wheels that stand beside others: what is in one, and how it loads its native part."""
