"""Timed passes under different settings of a target and its draft model, without a command line."""
