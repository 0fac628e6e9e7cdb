"""Text of a number with its noun: "1 token", "2,048 tokens"."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun; `plural` is the form that takes more than an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
