"""Limits on the time that Python keeps the screen's thread waiting: thread switches and garbage collection."""

import gc
import sys

_TURN = 0.0005
"""Seconds that a thread goes on in Python while another waits: a key may wait for several turns of the engine."""


def keep_turns_short() -> None:
    """Set this for the whole process, once all is imported: whatever stops the screen longer is felt at the keys."""
    # A full collection over all that is imported, and over a long chat's text, takes 60 ms.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    sys.setswitchinterval(_TURN)
