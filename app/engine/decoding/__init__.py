"""Runs the rounds: draft, verify, accept, rewind; nothing else judges a token."""
