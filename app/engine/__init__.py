"""Speculative decoding: rounds, accept rules, statistics and conversations. No screen and no command line."""
