"""Weights at load: their placement over devices, and adapters that change them."""
