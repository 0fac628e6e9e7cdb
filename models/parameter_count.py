"""How many weights a model has, as models are named by it."""

_UNITS = ((1e9, "B"), (1e6, "M"), (1e3, "K"))


def parameter_count(count: int) -> str:
    """Return a number of weights in three digits, such as "1.78B"."""
    for unit, letter in _UNITS:
        if count >= unit:
            return f"{count / unit:.3g}{letter}"
    return str(count)
