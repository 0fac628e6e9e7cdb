"""Rounds of decoding: draft, verify, accept, rewind; no other room judges a token."""
