"""Reading of a text into a draft model's cache, pass by pass."""

from collections.abc import Sequence

from models.base import LanguageModel, Logits


def read_into(model: LanguageModel, cached: list[int], tokens: Sequence[int], rows: int) -> Logits:
    """Read tokens, and return the last `rows` rows of logits, shape (rows, vocabulary of the model).

    `cached` lists the tokens in the cache, and grows with each pass: what was read stays, also when it is stopped.
    """
    size = model.batch_size
    # The last pass has room for all rows.
    last = max((len(tokens) - rows) // size * size, len(tokens) - size)
    for start in range(0, last, size):
        chunk = tokens[start : min(start + size, last)]
        model.decode(chunk, rows=0)
        cached += chunk
    result = model.decode(tokens[last:], rows=rows)
    cached += tokens[last:]
    return result
