"""Readers of requests: one protocol a file, all into one internal request."""
