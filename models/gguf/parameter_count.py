"""Number of a model's weights, as in the names of models."""

_UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"))
_ONE = 0.9995
"""Of a unit, what is 1 in three digits; in the smaller unit it would be 1000, which the format writes as 1e+03."""


def parameter_count(count: int) -> str:
    """Return a number of weights in three digits, such as "1.78B"."""
    for unit, letter in _UNITS:
        if count >= _ONE * unit:
            return f"{count / unit:.3g}{letter}"
    return str(count)
