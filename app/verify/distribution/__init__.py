"""Frequencies of sampled tokens compared with the target's own distribution."""
