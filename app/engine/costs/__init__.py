"""Costs of passes, measured on this machine, and the settings chosen from them."""
