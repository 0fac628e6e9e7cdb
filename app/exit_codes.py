"""Exit codes that no error carries; those of errors are in `models.errors`."""

INTERRUPTED = 130
"""The user stopped it: 128 and the number of SIGINT, as shells tell it."""
