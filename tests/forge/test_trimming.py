"""Smaller vocabularies: which tokens are kept, the nearest of the others, the file, and what it drafts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader
from tiny_gguf import END_OF_TEXT, IM_END, IM_START, PIECES, TOKENS, write_llama

from app.forge.files.trimmed_file import always_kept, check_trimmable, ordinary, write_trimmed
from app.forge.trimming.tokens import chosen, counted, nearest
from models.errors import PairError
from models.gguf.header import read_model
from models.gguf.pair import check_files
from models.gguf.token_map import token_map_of
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.token_map import TokenMap

WORDS = (*TOKENS, *(f"word{number}" for number in range(60)))
RARE = tuple(range(len(TOKENS) + 30, len(TOKENS) + 60))
"""The last thirty of the sixty words."""


def step(_: float) -> None:
    """Do nothing."""


def test_the_most_frequent_tokens_are_kept_beside_those_that_always_are() -> None:
    counts = counted([np.array([5, 5, 7, 9, 9, 9], np.int32), np.array([7, 40], np.int32)], 12)
    assert counts.tolist() == [0, 0, 0, 0, 0, 2, 0, 2, 0, 3, 0, 0]
    usable = np.ones(12, bool)
    usable[0] = False
    assert chosen(counts, (11,), usable, 4).tolist() == [5, 7, 9, 11]
    # Tokens that did not come up follow in the order of the vocabulary, those that can't come up never.
    assert chosen(counts, (11,), usable, 6).tolist() == [1, 2, 5, 7, 9, 11]
    assert chosen(counts, (0, 11), usable, 1).tolist() == [0, 11]


def test_the_nearest_token_points_the_same_way() -> None:
    embedding = np.array([[1, 0], [0, 1], [3, 0.1], [0.1, 9], [-1, 0.2]], np.float32)
    found = nearest(embedding, np.array([0, 1], np.int32), 7, step)
    assert found.tolist() == [0, 1, 0, 1, 1, 0, 0]


@pytest.mark.parametrize("settings", [{"vocab": WORDS}, {"vocab": WORDS, "add_bos": True}, {"pieces": True}])
def test_controls_and_bytes_are_always_kept(settings: dict[str, Any], tmp_path: Path) -> None:
    path = write_llama(tmp_path / "draft.gguf", extra_vocab=0 if "pieces" in settings else 6, **settings)
    kept, usable = set(always_kept(path)), ordinary(path)
    if "pieces" in settings:
        assert set(range(259)) <= kept
    else:
        assert {*range(256), IM_START, IM_END, END_OF_TEXT} <= kept
        assert not kept & set(RARE)
        assert not usable[len(WORDS) :].any()
    assert usable[list(kept)].all()


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path, TokenMap]:
    """Return a draft model, the file with fewer of its tokens, and the map."""
    draft, small = write_llama(tmp_path / "draft.gguf", vocab=WORDS, extra_vocab=5), tmp_path / "small.gguf"
    size = len(WORDS) + 5
    kept = np.array([token for token in range(len(WORDS)) if token not in RARE], np.int32)
    token_map = TokenMap(kept, nearest(np.eye(size, 8, dtype=np.float32), kept, size, step))
    write_trimmed(small, draft, token_map)
    return draft, small, token_map


def test_the_file_has_the_rows_of_its_tokens_bit_by_bit_and_the_map(pair: tuple[Path, Path, TokenMap]) -> None:
    draft, small, token_map = pair
    before, after = ({tensor.name: tensor for tensor in GGUFReader(path).tensors} for path in (draft, small))
    assert np.array_equal(after["token_embd.weight"].data, before["token_embd.weight"].data[token_map.kept])
    assert np.array_equal(after["blk.1.ffn_up.weight"].data, before["blk.1.ffn_up.weight"].data)
    found = token_map_of(read_model(small))
    assert found is not None
    assert np.array_equal(found.kept, token_map.kept)
    assert np.array_equal(found.nearest, token_map.nearest)
    fields = GGUFReader(small).fields
    assert fields["tokenizer.ggml.tokens"].contents() == [WORDS[token] for token in token_map.kept]
    assert token_map.kept[fields["tokenizer.ggml.eos_token_id"].contents()] == IM_END
    assert token_map.kept[fields["tokenizer.ggml.bos_token_id"].contents()] == IM_START


def test_its_rows_are_those_of_the_whole_model(pair: tuple[Path, Path, TokenMap]) -> None:
    draft, small, token_map = pair
    options = LlamaOptions(context_size=64, threads=1)
    whole, few = LlamaModel(draft, options), LlamaModel(small, options)
    try:
        text = list(range(97, 117))
        own = token_map.nearest[text].tolist()
        wanted = whole.decode(text, 20)[:, token_map.kept]
        np.testing.assert_allclose(few.decode(own, 20), wanted, rtol=1e-4, atol=1e-4)
        assert few.vocab.tokenize("hello") == token_map.nearest[whole.vocab.tokenize("hello")].tolist()
    finally:
        few.close()
        whole.close()


def test_a_check_of_the_pair_goes_by_the_map(pair: tuple[Path, Path, TokenMap], tmp_path: Path) -> None:
    draft, small, _ = pair
    good = check_files(draft, small)
    assert (good.reasons, good.differences, good.notes) == ((), (), ())
    other = write_llama(tmp_path / "other.gguf", vocab=WORDS, extra_vocab=5, rename={40: "renamed"})
    assert "token 40 is 'renamed' for the target" in check_files(other, small).differences[0]
    shorter = write_llama(tmp_path / "shorter.gguf", vocab=WORDS)
    assert "of another target" in check_files(shorter, small).differences[0]


def with_small(path: Path) -> Path:
    draft = write_llama(path.with_name("whole.gguf"), vocab=WORDS)
    kept = np.arange(300, dtype=np.int32)
    write_trimmed(path, draft, TokenMap(kept, np.minimum(np.arange(len(WORDS)), 299).astype(np.int32)))
    return path


def with_another_table(path: Path) -> Path:
    from app.forge.files.copying import write_copy

    draft = write_llama(path.with_name("whole.gguf"), vocab=WORDS)
    write_copy(
        path, draft, {}, lambda name, data, kind: (name.replace("token_embd", "per_layer_token_embd"), data, kind)
    )
    return path


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (with_small, "it was made smaller already"),
        (with_another_table, "another table with a row for each token (per_layer_token_embd.weight)"),
    ],
)
def test_what_can_not_be_made_smaller_is_refused(write: Callable[[Path], Path], words: str, tmp_path: Path) -> None:
    with pytest.raises(PairError) as caught:
        check_trimmable(write(tmp_path / "draft.gguf"))
    assert words in caught.value.cause


def test_pieces_can_be_fewer(tmp_path: Path) -> None:
    draft, small = write_llama(tmp_path / "draft.gguf", pieces=True), tmp_path / "small.gguf"
    kept = np.array([*range(262), len(PIECES) - 1], np.int32)
    write_trimmed(small, draft, TokenMap(kept, nearest(np.eye(len(PIECES), 4), kept, len(PIECES), step)))
    model = LlamaModel(small, LlamaOptions(context_size=64, threads=1))
    try:
        assert (model.vocab.size, model.vocab.kind) == (263, "spm")
        assert np.isfinite(model.decode([100, 101], 1)).all()
    finally:
        model.close()
