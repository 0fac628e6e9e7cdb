"""Flags of the commands: their declarations, checks, and conversion to requests."""
