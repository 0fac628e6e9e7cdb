"""Exit codes that no error carries; those of errors are in `models.errors`."""

FAILURE = 1
"""It ran to its end, and showed nothing."""
INTERRUPTED = 130
"""The user stopped it: 128 and the number of SIGINT, as shells tell it."""
