"""Draft heads as language models: the rows they read are the target's own, at the right places, after any round.

The reference is a second pair of target and head that reads the whole text anew. What a head predicts after many
rounds of accepted and rejected drafts has to be what it predicts there.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
import tiny_gguf
from closed_form_head import write_closed_form_head
from numpy.typing import NDArray
from tiny_block_heads import BLOCK, write_block_head
from tiny_heads import (
    write_assistant,
    write_chained,
    write_experts_with_head,
    write_hybrid_with_head,
    write_shared,
)

from models.errors import Cancelled, ContextFullError
from models.heads import tap
from models.heads.block_model import BlockModel
from models.heads.chain_model import ChainModel
from models.heads.head_context import HeadContext
from models.heads.head_model import HeadModel
from models.heads.loading import join, load_head, load_own_head
from models.heads.tap import Tap
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

OPTIONS = LlamaOptions(context_size=256, threads=1, heads=True)
CHAINS = ("mtp in a chain", "mtp in a cropped chain", "mtp in a chain in its own file")
BLOCKS = ("dflash", "dflash2", "dspark", "dspark after", "dflash of some tokens", "dflash with sections")
KINDS = (
    *("mtp", "mtp of experts", "mtp in its own file", "eagle3", "eagle3 of some tokens", "assistant"),
    *CHAINS,
    *BLOCKS,
)
LAYERS = (0, 1, 2)
Row = NDArray[np.float32]


ROUNDING = 1.0
"""Most difference of logits by rounding, as passes of floats round by their width; another row differs by units."""


def alike(kind: str, one: Row, other: Row) -> bool:
    """Return whether two rows differ by no more than rounding."""
    return bool(np.allclose(one, other, rtol=0, atol=1e-3 if "mtp" in kind else ROUNDING))


def of_target(kind: str) -> str:
    """Return which file is the target of a kind of head."""
    if kind in ("mtp of experts", *CHAINS[:2]):
        return kind
    if kind == CHAINS[2]:
        return CHAINS[0]
    return "mtp" if "mtp" in kind else "shared" if kind == "assistant" else "target"


def noise(seed: int, count: int) -> list[int]:
    """Return so many tokens, each a byte."""
    random = Random(seed)
    return [random.randrange(256) for _ in range(count)]


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write a target with a head of its own, another target, and two heads for that one."""
    folder = tmp_path_factory.mktemp("heads")
    own = write_hybrid_with_head(folder / "own.gguf", n_ctx=1024)
    target = tiny_gguf.write_llama(folder / "target.gguf", n_layer=3, n_ctx=1024)
    text = noise(1, 2048)
    return {
        "mtp": own,
        "mtp of experts": write_experts_with_head(folder / "experts.gguf", n_ctx=1024),
        "mtp in its own file": write_hybrid_with_head(folder / "mtp-own.gguf", n_ctx=1024, head_alone=True),
        "shared": write_shared(folder / "shared.gguf", n_ctx=1024),
        "assistant": write_assistant(folder / "assistant.gguf", n_ctx=1024),
        "target": target,
        "eagle3": write_closed_form_head(folder / "m-eagle3.gguf", target, text, LAYERS),
        "eagle3 of some tokens": write_closed_form_head(folder / "m2.gguf", target, text, LAYERS, range(0, 270, 2)),
        "mtp in a chain": write_chained(folder / "chain.gguf", n_ctx=1024),
        "mtp in a cropped chain": write_chained(folder / "cropped.gguf", architecture="step35", n_ctx=1024),
        "mtp in a chain in its own file": write_chained(folder / "mtp-chain.gguf", n_ctx=1024, head_alone=True),
        "dflash": write_block_head(folder / "b1.gguf", target, LAYERS),
        "dflash2": write_block_head(folder / "b2.gguf", target, LAYERS, kind="dflash2"),
        "dspark": write_block_head(folder / "b3.gguf", target, LAYERS, kind="dspark"),
        "dspark after": write_block_head(folder / "b4.gguf", target, LAYERS, kind="dspark", after=True),
        "dflash of some tokens": write_block_head(folder / "b5.gguf", target, LAYERS, kept=range(0, 270, 2)),
        "dflash with sections": write_block_head(folder / "b6.gguf", target, LAYERS, sections=True),
    }


class Pair:
    """A target with a head, and a text in both."""

    def __init__(self, files: dict[str, Path], kind: str) -> None:
        self.target = LlamaModel(files[of_target(kind)], OPTIONS)
        has_own = of_target(kind) == kind
        loaded = load_own_head(self.target) if has_own else load_head(files[kind], self.target)
        self.head: HeadModel = join(loaded, self.target)

    def read(self, tokens: Sequence[int]) -> Row:
        """Read a text anew, and return what the head predicts after it."""
        self.target.rewind(0)
        self.head.rewind(0)
        for start in range(0, len(tokens) - 1, 64):
            self.target.decode(tokens[start : min(start + 64, len(tokens) - 1)], 0)
        rows = [self.head.decode(tokens[start : start + 64], 1)[0].copy() for start in range(0, len(tokens), 64)]
        return rows[-1]

    def draft(self, row: Row, count: int) -> list[int]:
        """Draft so many tokens after a row."""
        return [int(row.argmax()), *(int(each.argmax()) for each in self.steps(row, count - 1))]

    def steps(self, row: Row, count: int) -> list[Row]:
        """Return the rows of so many steps after a row, each with the likeliest token of the one before."""
        rows = [row]
        for _ in range(count):
            rows.append(self.head.decode([int(rows[-1].argmax())], 1)[0].copy())
        return rows[1:]

    def close(self) -> None:
        self.head.close()
        self.target.close()


@pytest.fixture
def opened(files: dict[str, Path]) -> Iterator[Callable[[str], Pair]]:
    made: list[Pair] = []

    def pair(kind: str) -> Pair:
        made.append(Pair(files, kind))
        return made[-1]

    yield pair
    for each in made:
        each.close()


def rounds(pair: Pair, text: list[int], count: int, *, most: int = 4, seed: int = 0) -> Iterator[Row]:
    """Run rounds, some of whose drafts are right, and yield what the head predicts at the beginning of each."""
    random, held = Random(seed), 0
    pair.target.decode(text[:-1], 0)
    for _ in range(count):
        row = pair.head.decode(text[held:], 1)[0].copy()
        yield row
        held = len(text)
        drafted = pair.draft(row, min(most, pair.head.longest))
        pair.head.rewind(held)
        pair.target.decode([text[-1], *drafted], len(drafted) + 1)
        accepted = random.randrange(len(drafted) + 1)
        text += [*drafted[:accepted], random.randrange(256)]
        pair.target.rewind(len(text) - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_after_any_rounds_a_head_predicts_what_it_does_after_reading_anew(
    opened: Callable[[str], Pair], kind: str
) -> None:
    pair, anew = opened(kind), opened(kind)
    text = noise(5, 40)
    seen = 0
    for row in rounds(pair, text, 30):
        assert alike(kind, row, anew.read(text))
        for one, other in zip(anew.steps(row, 2), pair.steps(row, 2), strict=True):
            assert alike(kind, one, other)
        pair.head.rewind(len(text))
        seen += 1
    assert seen == 30
    assert len(text) > 80


def _shifted(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Tap.rows
    monkeypatch.setattr(Tap, "rows", lambda self, start, end: rows(self, start - 1, end - 1))


def _row_of_the_wrong_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a rewound position's first row, in place of that of its last pass."""
    take, seen = Tap.take, set[int]()

    def once(self: Tap, context: object, start: int, place: int, count: int) -> None:
        for index in range(count):
            if start + index not in seen:
                seen.add(start + index)
                take(self, context, start + index, place + index, 1)

    monkeypatch.setattr(Tap, "take", once)


def _no_rewind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave what was drafted in the head's cache, as if positions alone were counted back."""
    decode = HeadContext.decode

    def kept(self: HeadContext, tokens: list[int], _: int, hidden: Row, rows: int) -> Row:
        return decode(self, tokens, self._api.llama_memory_seq_pos_max(self._memory, 0) + 1, hidden, rows)

    monkeypatch.setattr(HeadContext, "cut", lambda *_: None)
    monkeypatch.setattr(HeadContext, "decode", kept)


def _normed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Norm rows as the target's last norm does, which has weights, though it has been done."""
    rows = Tap.rows

    def normed(self: Tap, start: int, end: int) -> Row:
        found = rows(self, start, end)
        weights = np.linspace(0.2, 2, found.shape[1], dtype=np.float32)
        return found / np.sqrt(np.mean(found**2, axis=1, keepdims=True) + 1e-6) * weights

    monkeypatch.setattr(Tap, "rows", normed)


def _later_layers_read_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each further layer of a chain read its last token alone."""
    run = ChainModel._run_layer

    def alone(self: ChainModel, layer: int, rows: int) -> Row:
        if layer:
            self._read[layer] = self._length - 1
        return run(self, layer, rows)

    monkeypatch.setattr(ChainModel, "_run_layer", alone)


def _rows_of_the_layer_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand each layer of a chain the pending token's row, in place of that of the layer before."""
    beside = ChainModel._rows_beside

    def first(self: ChainModel, start: int, end: int) -> Row:
        kept, self._returned = self._returned, [self._returned[0]] * len(self._returned) if self._returned else []
        try:
            return beside(self, start, end)
        finally:
            self._returned = kept

    monkeypatch.setattr(ChainModel, "_rows_beside", first)


def _rows_of_the_place_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the row of the pending token for that of the first mask."""
    block = BlockModel._block

    def before(self: BlockModel, pending: int, start: int, count: int) -> object:
        found = self._open.block([pending, *[self.shape.mask] * count], start)
        return type(block(self, pending, start, count))(found[:count].copy())  # type: ignore[call-arg]

    monkeypatch.setattr(BlockModel, "_block", before)


def _own_row_of_the_first_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Go on from the row of the first token of a pass, as llama.cpp's masked rows would."""
    after = HeadContext.hidden_after
    monkeypatch.setattr(HeadContext, "hidden_after", lambda self, _: after(self, 0))


_OF_ROWS = (_shifted, _row_of_the_wrong_pass, _normed_again)
_FAULTS = {
    "mtp": (*_OF_ROWS, _no_rewind, _own_row_of_the_first_token),
    "eagle3": (*_OF_ROWS, _no_rewind, _own_row_of_the_first_token),
    "mtp in a chain": (
        *(*_OF_ROWS, _own_row_of_the_first_token),
        *(_later_layers_read_nothing, _rows_of_the_layer_before),
    ),
    "dflash": (*_OF_ROWS, _rows_of_the_place_before),
}


@pytest.mark.parametrize(("kind", "broken"), [(kind, broken) for kind, all_ in _FAULTS.items() for broken in all_])
def test_each_fault_of_the_rows_shows(
    opened: Callable[[str], Pair],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    broken: Callable[[pytest.MonkeyPatch], None],
) -> None:
    text = noise(5, 40)
    pair, anew = opened(kind), opened(kind)
    wanted: list[Row] = []
    for row in rounds(anew, (copy := list(text)), 12):
        wanted += [row, *anew.steps(row, 2)]
        anew.head.rewind(len(copy))
    with monkeypatch.context() as patched:
        broken(patched)
        found: list[Row] = []
        for row in rounds(pair, (copy := list(text)), 12):
            found += [row, *pair.steps(row, 2)]
            pair.head.rewind(len(copy))
    same = [alike(kind, one, other) for one, other in zip(wanted, found, strict=True)]
    assert not all(same)


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_drafts_only_tokens_that_it_knows(opened: Callable[[str], Pair], kind: str) -> None:
    pair = opened(kind)
    row = pair.read(noise(2, 20))
    assert row.shape == (pair.target.vocab.size,)
    known = np.isfinite(row)
    if kind == "dflash2":
        assert known.sum() == 7
    elif kind.endswith("of some tokens"):
        assert known[0:270:2].all()
        assert not known[1:270:2].any()
    else:
        assert known.all()


@pytest.mark.parametrize("kind", ["mtp", "eagle3"])
def test_rows_are_zeros_where_none_are_kept(
    opened: Callable[[str], Pair], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(tap, "KEPT", 32)
    pair = opened(kind)
    text = noise(3, 100)
    pair.target.decode(text[:60], 0)
    pair.target.decode(text[60:99], 0)
    assert pair.head.first_readable == 99 - 32 + 1
    kept = pair.head._tap.rows(60, 99)
    assert not kept[: 99 - 32 - 60].any()
    assert kept[99 - 32 - 60 :].all(axis=None) or kept[99 - 32 - 60 :].any(axis=1).all()
    assert not pair.head._tap.rows(98, 101)[1:].any()
    pair.target.rewind(0)
    pair.target.decode(text[:10], 0)
    assert pair.head.first_readable == 0


def test_rows_of_a_reopened_target_are_those_of_its_new_context(opened: Callable[[str], Pair]) -> None:
    pair, anew = opened("mtp"), opened("mtp")
    text = noise(4, 30)
    pair.read(text)
    pair.target.reopen(pair.target.options)
    assert pair.head.length == 0
    assert np.array_equal(pair.read(text), anew.read(text))


def test_a_head_beside_another_text_reads_its_rows(opened: Callable[[str], Pair]) -> None:
    pair, anew = opened("eagle3"), opened("eagle3")
    one, other = noise(7, 30), noise(8, 30)
    twin = pair.target.twin()
    beside = pair.head.beside(twin)
    try:
        first = pair.read(one)
        twin.decode(other[:-1], 0)
        second = beside.decode(other, 1)[0].copy()
        assert alike("eagle3", first, anew.read(one))
        assert alike("eagle3", second, anew.read(other))
    finally:
        beside.close()
        twin.close()


@pytest.mark.parametrize("kind", ["mtp", "eagle3", "mtp in a chain", "dflash"])
def test_a_stopped_head_can_go_on(opened: Callable[[str], Pair], kind: str) -> None:
    pair, anew = opened(kind), opened(kind)
    text = noise(6, 30)
    pair.target.decode(text[:-1], 0)
    _, _, abort = pair.target.handles
    abort.set()
    with pytest.raises(Cancelled):
        pair.head.decode(text, 1)
    abort.clear()
    assert pair.head.length == 0
    assert alike(kind, pair.head.decode(text, 1)[0], anew.read(text))


def test_what_a_head_can_not_do_is_refused(opened: Callable[[str], Pair]) -> None:
    pair = opened("mtp")
    text = list(range(40))
    pair.target.decode(text, 0)
    pair.head.decode(text, 1)
    with pytest.raises(ValueError, match="no trees"):
        pair.head.decode([1, 2], 2, (-1, -1))
    with pytest.raises(ValueError, match="rows"):
        pair.head.decode([1], 2)
    with pytest.raises(ValueError, match="1 to 64"):
        pair.head.decode([], 0)
    with pytest.raises(ValueError, match="rewound"):
        pair.head.rewind(41)
    for _ in range(3):
        pair.head.decode([1] * 64, 0)
    with pytest.raises(ContextFullError):
        pair.head.decode([1] * 64, 0)
    pair.head.close()
    with pytest.raises(ValueError, match="closed"):
        pair.head.decode([1], 1)


@pytest.mark.parametrize("kind", BLOCKS)
def test_the_first_token_of_a_block_is_that_of_a_block_of_one(opened: Callable[[str], Pair], kind: str) -> None:
    pair = opened(kind)
    text = noise(14, 50)
    row = pair.read(text)
    pair.head.rewind(len(text) - 1)
    assert isinstance(pair.head, BlockModel)
    assert pair.head.longest == BLOCK - (kind != "dspark")
    one = pair.head.block(text[-1], 1).row(0, text[-1])
    assert alike(kind, one, row)
    whole = pair.head.block(text[-1], pair.head.longest)
    before, drafted = text[-1], []
    for place in range(pair.head.longest):
        found = whole.row(place, before)
        assert np.isfinite(found).any()
        drafted.append(before := int(found.argmax()))
    assert len(set(drafted)) > 1
    with pytest.raises(ValueError, match="can be drafted"):
        pair.head.block(text[-1], pair.head.longest + 1)


def test_a_chain_has_no_layer_for_a_further_token(opened: Callable[[str], Pair]) -> None:
    pair = opened("mtp in a chain")
    pair.read(noise(15, 20))
    with pytest.raises(ValueError, match="draft token 4 of 3 layers"):
        pair.head.decode([1, 2, 3], 1)


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_after_the_targets_last_are_read_one_by_one(opened: Callable[[str], Pair], kind: str) -> None:
    pair, anew = opened(kind), opened(kind)
    text, further = noise(11, 30), noise(12, min(4, pair.head.longest - 1))
    row = pair.read(text)
    assert alike(kind, row, anew.read(text))
    for token in further:
        row = pair.head.decode([token], 1)[0].copy()
    assert alike(kind, anew.head.decode(further, 1)[0], row)
    assert anew.head.length == pair.head.length == 30 + len(further)


def test_an_assistant_leaves_the_cache_of_its_target_alone(opened: Callable[[str], Pair]) -> None:
    pair, anew = opened("assistant"), opened("assistant")
    text = noise(13, 40)
    pair.draft(pair.read(text), 5)
    anew.target.decode(text[:-1], 0)
    assert np.array_equal(pair.target.decode(text[-1:], 1), anew.target.decode(text[-1:], 1))


def test_a_target_without_listeners_computes_no_rows(files: dict[str, Path]) -> None:
    plain, tapped = (LlamaModel(files["mtp"], OPTIONS) for _ in range(2))
    head = HeadModel(load_own_head(tapped), tapped)
    try:
        text = noise(9, 50)
        one, other = (model.decode(text, 8).copy() for model in (plain, tapped))
        assert np.array_equal(one, other)
        assert np.array_equal(plain.decode([1, 2, 3], 3), tapped.decode([1, 2, 3], 3))
    finally:
        head.close()
        plain.close()
        tapped.close()
