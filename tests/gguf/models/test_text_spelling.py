"""Spelling of a text that is cut anywhere, with the tokenizer of a real model: as if the text had been read whole."""

from collections.abc import Iterator
from itertools import accumulate

import pytest

from drafters.text.own_view import GrowingText
from drafters.text.respelling import respell
from drafters.text.spelling import Spelling
from models.library.catalog import find_model
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.text.marks import Marks

TEXT = (
    "It's 12,345 o'clock.\n\n    if x:  # naïve 日本語 😀👍🏽\n\t\treturn {'a': [1, 2]}\n\nDon't stop — «allez», "
    'Straße, привет!   \n  - one\n  - two\n```py\nprint("…")\n```\n'
)

pytestmark = pytest.mark.starter


@pytest.fixture(scope="module")
def model() -> Iterator[LlamaModel]:
    model = LlamaModel(find_model("starter"), LlamaOptions(context_size=64, threads=1))
    yield model
    model.close()


@pytest.fixture(scope="module")
def spelling(model: LlamaModel) -> Spelling:
    return Spelling(model.vocab, Marks.of(model.vocab))


def test_drafted_bytes_are_spelled_as_the_tokenizer_goes_on(model: LlamaModel, spelling: Spelling) -> None:
    tokens = model.vocab.tokenize(TEXT, special=False)
    for place in range(1, len(tokens) - 1):
        drafted = b"".join(map(model.vocab.piece, tokens[place:]))
        found = respell(spelling, drafted, is_final=True)
        assert list(found.tokens) == tokens[place:], place


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_text_that_grows_by_any_bytes_is_spelled_as_a_whole(model: LlamaModel, spelling: Spelling, size: int) -> None:
    data, grown = TEXT.encode(), GrowingText(spelling, [])
    for start in range(0, len(data), size):
        grown.add(data[start : start + size])
        so_far = b"".join(map(model.vocab.piece, grown.tokens))
        assert so_far == data[: start + size]
    assert grown.tokens == model.vocab.tokenize(TEXT, special=False)
    assert [*accumulate(len(model.vocab.piece(token)) for token in grown.tokens)] == grown._ends
