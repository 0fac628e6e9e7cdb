"""A thread with a deep stack: llama.cpp cuts text into words with C++'s own regular expressions, which recurse.

They take 300 bytes of stack for each character of a run of blanks, letters or signs, with the vocabularies of Mistral,
gpt-oss, DeepSeek and others: on the usual eight megabytes a run of thirty thousand, as in a padded log, is a crash.
"""

import threading

_BYTES = 1 << 28
"""Enough for a run of 900,000. Only what is used of it takes memory."""


def start_deep(thread: threading.Thread) -> None:
    """Start a thread on a deep stack, or on the usual one where the system allows no other."""
    usual = threading.stack_size()
    try:
        threading.stack_size(_BYTES)
        thread.start()
    except (RuntimeError, ValueError):
        threading.stack_size(usual)
        thread.start()
    finally:
        threading.stack_size(usual)
