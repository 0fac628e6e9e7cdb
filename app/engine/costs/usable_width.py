"""Widest pass for drafting, where only narrow passes are exact. A small module, as speed predictions import it too."""


def usable_width(exact: int | None, widest: int, *, allow_rounding: bool = False) -> int:
    """Return the widest pass for drafting, in tokens: the widest exact one, or `widest` where exactness is no limit.

    It is no limit under `allow_rounding`, where the exact width is unknown (None), and on a device where only one-token
    passes are exact (1): there a shorter draft is no more exact, so any width is allowed and the user gets a note.
    """
    return widest if allow_rounding or exact is None or exact == 1 else exact
