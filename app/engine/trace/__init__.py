"""Trace of one round, step by step, by repeating it from its record."""
