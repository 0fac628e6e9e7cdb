"""What `models.base.LanguageModel` promises, kept by the toy and by llama.cpp with every kind of memory it has."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from checking import caught
from tiny_gguf import write_hybrid, write_llama, write_recurrent, write_swa

from models.abort import AbortFlag
from models.base import LanguageModel, Logits
from models.errors import Cancelled, ContextFullError, LocalspecError
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.toy import ToyModel


@dataclass(frozen=True)
class Kind:
    """One kind of model, and how far rounding may move its logits from one way of decoding to another."""

    make: Callable[[Path, AbortFlag], LanguageModel]
    tolerance: float


def toy(_: Path, abort: AbortFlag) -> LanguageModel:
    return ToyModel(context_size=256, abort=abort)


def toy_that_goes_back_4(_: Path, abort: AbortFlag) -> LanguageModel:
    return ToyModel(context_size=256, abort=abort, rewind_limit=4, padding=3)


def gguf(write: Callable[[Path], Path], **options: Any) -> Callable[[Path, AbortFlag], LanguageModel]:
    def make(folder: Path, abort: AbortFlag) -> LanguageModel:
        path = folder / "tiny.gguf"
        if not path.exists():
            write(path)
        # One thread: two would wait for each other more than they compute in a model this small.
        options_ = {"context_size": 256, "batch_size": 64, "threads": 1, **options}
        return LlamaModel(path, LlamaOptions(**options_), abort=abort)

    return make


KINDS = {
    "toy": Kind(toy, 0.0),
    "toy that goes back 4": Kind(toy_that_goes_back_4, 0.0),
    "llama": Kind(gguf(write_llama), 0.05),
    "llama, no flash attention": Kind(gguf(write_llama, flash_attention=False), 0.05),
    "llama, q8_0 cache": Kind(
        gguf(lambda path: write_llama(path, n_embd=128), cache_type_k="q8_0", cache_type_v="q8_0"), 0.01
    ),
    "llama, padded": Kind(gguf(write_llama, pad_rows=4), 0.05),
    "swa": Kind(gguf(write_swa), 0.05),
    "recurrent": Kind(gguf(write_recurrent), 0.01),
    "hybrid": Kind(gguf(write_hybrid), 0.05),
}
WRONG = 1.0
"""A cache with one wrong token moves some logit by more than this, in every kind above."""


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def abort() -> AbortFlag:
    return AbortFlag()


@pytest.fixture
def model(kind: Kind, tmp_path: Path, abort: AbortFlag) -> Iterator[LanguageModel]:
    made = kind.make(tmp_path, abort)
    yield made
    made.close()


@pytest.fixture
def other(kind: Kind, tmp_path: Path) -> Iterator[LanguageModel]:
    """Another model of the same weights, for what a fresh decode says."""
    made = kind.make(tmp_path, AbortFlag())
    yield made
    made.close()


def fresh(model: LanguageModel, tokens: list[int], rows: int) -> Logits:
    """Return the last rows of a text decoded from the start, in passes as wide as may be."""
    model.rewind(0)
    start = 0
    while len(tokens) - start > model.batch_size:
        end = min(start + model.batch_size, len(tokens) - rows)
        model.decode(tokens[start:end], 0)
        start = end
    return model.decode(tokens[start:], rows).copy()


def text(random: Random, count: int) -> list[int]:
    return [random.randrange(30) for _ in range(count)]


def largest_difference(model: Any, other: LanguageModel, steps: int = 60) -> float:
    """Decode in passes of every width, going back wherever the model says it can; compare each row with a fresh one."""
    random = Random(1)
    tokens: list[int] = []
    worst = 0.0
    for _ in range(steps):
        places = [length for length in range(len(tokens) + 1) if model.can_rewind(length)]
        if random.random() < 0.6:
            # The last places are where speculation goes back to.
            place = random.choice(places[-8:] if random.random() < 0.8 else places)
            model.rewind(place)
            del tokens[place:]
        chunk = text(random, random.choice([1, 1, 2, 3, 5, 8, 17]))
        if len(tokens) + len(chunk) > 100:
            model.rewind(0)
            tokens.clear()
        rows = random.randint(0, len(chunk))
        got = model.decode(chunk, rows).copy()
        tokens += chunk
        assert model.length == len(tokens)
        if rows > 0:
            worst = max(worst, float(np.abs(got - fresh(other, tokens, rows)).max()))
    return worst


def test_any_passes_and_rewinds_give_the_logits_of_a_fresh_decode(
    model: LanguageModel, other: LanguageModel, kind: Kind
) -> None:
    assert largest_difference(model, other) <= kind.tolerance


class Broken:
    """A model with a fault; what it does not break is the model's own."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


class KeepsOneTokenTooMany(Broken):
    """Its rewinds leave one rejected token in the cache."""

    ghosts = 0

    @property
    def length(self) -> int:
        return self.model.length - self.ghosts

    def can_rewind(self, length: int) -> bool:
        return length == 0 or (self.model.can_rewind(length + self.ghosts) and length <= self.length)

    def rewind(self, length: int) -> None:
        if length == 0:
            self.model.rewind(0)
            self.ghosts = 0
        elif length < self.length and self.model.can_rewind(length + self.ghosts + 1):
            self.model.rewind(length + self.ghosts + 1)
            self.ghosts += 1


class GivesTheFirstRows(Broken):
    """Returns rows of the first tokens of a pass in place of the last."""

    def decode(self, tokens: list[int], rows: int) -> Logits:
        return self.model.decode(tokens, len(tokens))[:rows]


class DropsAToken(Broken):
    """Decodes the last token of a wide pass twice in place of the one before it."""

    def decode(self, tokens: list[int], rows: int) -> Logits:
        if len(tokens) > 4:
            tokens = [*tokens[:-2], tokens[-1], tokens[-1]]
        return self.model.decode(tokens, rows)


@pytest.mark.parametrize("fault", [KeepsOneTokenTooMany, GivesTheFirstRows, DropsAToken])
def test_a_cache_or_rows_that_are_wrong_are_caught(
    fault: Callable[[LanguageModel], Broken], model: LanguageModel, other: LanguageModel
) -> None:
    if fault is KeepsOneTokenTooMany and model.rewind_support.limit == 0:
        pytest.skip("never goes back but to the start")
    broken = fault(model)
    assert largest_difference(broken, other) > WRONG


def test_rows_have_the_shape_that_was_asked_for(model: LanguageModel) -> None:
    for count, rows in ((1, 1), (5, 5), (5, 2), (3, 0), (17, 17), (64, 1)):
        logits = model.decode(text(Random(0), count), rows)
        assert logits.shape == (rows, model.vocab.size)
        assert logits.dtype == np.float32
        assert np.isfinite(logits).all()


def test_row_i_follows_token_i(model: LanguageModel, kind: Kind) -> None:
    tokens = text(Random(3), 9)
    together = model.decode(tokens, 9).copy()
    model.rewind(0)
    singly = np.concatenate([model.decode([token], 1).copy() for token in tokens])
    assert np.abs(together - singly).max() <= kind.tolerance
    with caught():
        assert np.abs(together - np.roll(singly, 1, axis=0)).max() <= kind.tolerance


def test_tokens_may_come_in_any_sequence(model: LanguageModel) -> None:
    rows = model.decode([1, 2, 3], 3).copy()
    for tokens in ((1, 2, 3), range(1, 4)):
        model.rewind(0)
        assert (model.decode(tokens, 3) == rows).all()


@pytest.mark.parametrize(
    ("count", "rows"), [(0, 0), (65, 1), (2, 3), (33, 33), (1, -1)], ids=lambda number: str(number)
)
def test_a_pass_that_can_not_be_is_refused_and_changes_nothing(model: LanguageModel, count: int, rows: int) -> None:
    assert model.batch_size == 64
    assert model.max_rows <= 32
    model.decode([1, 2], 1)
    with pytest.raises(ValueError, match=r"tokens"):
        model.decode([1] * count, rows)
    assert model.length == 2
    model.decode([1], 1)


def test_a_context_can_be_filled_to_the_last_token_and_no_further(model: LanguageModel) -> None:
    assert model.context_size == 256
    for _ in range(3):
        model.decode([3] * 64, 0)
    model.decode([3] * 63, 0)
    with pytest.raises(ContextFullError, match="257 tokens are needed, 256 fit"):
        model.decode([4, 5], 1)
    assert model.length == 255
    assert model.decode([4], 1).shape == (1, model.vocab.size)
    with pytest.raises(ContextFullError):
        model.decode([4], 1)
    assert model.length == 256


def test_the_cache_is_usable_again_after_a_full_context(model: LanguageModel, other: LanguageModel, kind: Kind) -> None:
    for _ in range(4):
        model.decode([3] * 64, 0)
    with pytest.raises(ContextFullError):
        model.decode([4], 1)
    model.rewind(0)
    assert np.abs(model.decode([5, 6], 1) - fresh(other, [5, 6], 1)).max() <= kind.tolerance


def test_rewind_moves_the_length_or_changes_nothing(model: LanguageModel) -> None:
    model.decode(text(Random(0), 12), 1)
    assert model.length == 12
    model.rewind(12)
    assert model.length == 12
    for length in (-1, 13, 100):
        assert not model.can_rewind(length)
        with pytest.raises((ValueError, LocalspecError)):
            model.rewind(length)
        assert model.length == 12
    if model.can_rewind(9):
        model.rewind(9)
        assert model.length == 9
    model.rewind(0)
    assert model.length == 0
    model.rewind(0)
    assert model.length == 0


def test_an_empty_cache_has_nothing_to_go_back_to(model: LanguageModel) -> None:
    assert model.length == 0
    assert model.can_rewind(0)
    assert not model.can_rewind(1)


def test_what_can_not_be_rewound_is_refused_and_changes_nothing(
    model: LanguageModel, other: LanguageModel, kind: Kind
) -> None:
    limit = model.rewind_support.limit
    if limit is None:
        pytest.skip("goes back anywhere")
    tokens = text(Random(4), 30)
    for start in range(0, 30, 10):
        model.decode(tokens[start : start + 10], 1)
    assert not model.can_rewind(30 - limit - 1)
    with pytest.raises((ValueError, LocalspecError)):
        model.rewind(30 - limit - 1)
    assert model.length == 30
    assert np.abs(model.decode([7], 1) - fresh(other, [*tokens, 7], 1)).max() <= kind.tolerance


def test_as_many_branches_as_were_promised_can_be_had_and_no_more(model: LanguageModel, kind: Kind) -> None:
    assert (model.max_branches > 0) == (model.rewind_support.limit is None)
    tokens = text(Random(7), 12)
    model.decode(tokens, 1)
    leaves = list(range(model.max_branches + 1))
    rows = model.decode([5, *leaves], len(leaves), [-1] * len(leaves)).copy()
    assert model.length == 12 + 2
    with pytest.raises(ValueError, match="branches in one pass"):
        model.decode([5, *leaves, 1], 1, [-1] * (len(leaves) + 1))
    assert model.length == 12 + 2
    for leaf in leaves:
        assert np.abs(fresh(model, [*tokens, 5, leaf], 1) - rows[leaf]).max() <= kind.tolerance


def test_rewind_support_says_why_in_words(model: LanguageModel) -> None:
    assert len(model.rewind_support.reason.split()) >= 2


def test_an_abort_before_a_pass_changes_nothing(
    model: LanguageModel, other: LanguageModel, abort: AbortFlag, kind: Kind
) -> None:
    tokens = text(Random(5), 20)
    model.decode(tokens, 1)
    abort.set()
    for _ in range(2):
        with pytest.raises(Cancelled):
            model.decode([1, 2, 3], 1)
    assert model.length == 20
    abort.clear()
    assert np.abs(model.decode([9], 1) - fresh(other, [*tokens, 9], 1)).max() <= kind.tolerance


def test_one_model_does_not_disturb_another(model: LanguageModel, other: LanguageModel, kind: Kind) -> None:
    tokens = text(Random(6), 12)
    expected = fresh(other, tokens, 1)
    model.decode(tokens[:6], 1)
    other.rewind(0)
    other.decode([1, 2, 3], 1)
    assert np.abs(model.decode(tokens[6:], 1) - expected).max() <= kind.tolerance


def test_closing_twice_is_fine(model: LanguageModel) -> None:
    model.decode([1], 1)
    model.close()
    model.close()
