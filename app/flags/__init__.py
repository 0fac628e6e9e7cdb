"""Flags of the commands, read and checked into the engine's requests."""
