"""Long texts split into parts that are drawn separately."""

from collections.abc import Iterator

_CHUNK = 4_000
"""Characters of plain text that are drawn at once, or one line, if that is longer."""


def chunks(text: str, start: int) -> Iterator[tuple[int, str]]:
    """Yield where parts of a text begin, and the parts: whole lines, without the end of the last."""
    while start <= len(text):
        end = text.find("\n", start + _CHUNK)
        end = len(text) if end < 0 else end
        yield start, text[start:end]
        start = end + 1
