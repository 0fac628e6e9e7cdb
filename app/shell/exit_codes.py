"""Exit codes without an error; the codes of errors are in `models.errors`."""

FAILURE = 1
"""The command ran to its end without a result."""
INTERRUPTED = 130
"""The user stopped it: 128 and the number of SIGINT, as shells tell it."""
