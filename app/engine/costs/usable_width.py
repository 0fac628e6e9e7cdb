"""How wide a pass may be to draft with, where only narrow ones are exact. Small: what predicts a speed needs it too."""


def usable_width(exact: int | None, widest: int, *, allow_rounding: bool = False) -> int:
    """Return the widest pass to draft with, in tokens: the widest that is exact, or `widest` where that is no limit.

    It is none under `allow_rounding`, where it is not known (None), and on a device that computes no wider pass as it
    does one token at a time (1): there a shorter draft is no more exact, so it is told and any may be used.
    """
    return widest if allow_rounding or exact is None or exact == 1 else exact
