"""Measured costs of passes on this machine, and the settings that were chosen from them."""
