"""One round explained step by step, repeated from what was recorded of it."""
