"""ToyModel: small, seeded, and sensitive to every token in its cache. Its contract is in test_contract_models.py."""

import numpy as np
import pytest

from models.abort import AbortFlag
from models.base import common_prefix
from models.errors import Cancelled, ContextFullError
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyModel, ToyVocab


def test_a_model_is_its_seed() -> None:
    tokens = list(range(10))
    assert (ToyModel(1).decode(tokens, 10) == ToyModel(1).decode(tokens, 10)).all()
    assert (ToyModel(1).decode(tokens, 10) != ToyModel(2).decode(tokens, 10)).any()


def test_half_a_character_is_a_text_all_the_same() -> None:
    assert ToyVocab().tokenize("\udce9") == ToyVocab().tokenize("?")


@pytest.mark.parametrize("place", range(10))
def test_every_token_of_the_cache_shows_in_every_later_row(place: int) -> None:
    tokens = list(range(10))
    changed = [*tokens[:place], 20, *tokens[place + 1 :]]
    same = (ToyModel().decode(tokens, 10) == ToyModel().decode(changed, 10)).all(axis=1)
    assert same.tolist() == [True] * place + [False] * (10 - place)


@pytest.mark.parametrize("place", range(10))
def test_a_missing_token_shows_in_every_later_row(place: int) -> None:
    tokens = list(range(10))
    rows = ToyModel().decode([*tokens[:place], *tokens[place + 1 :]], rows=1)
    assert (rows[0] != ToyModel().decode(tokens, 1)[0]).any()


def test_unlikeness_0_is_the_same_model_and_more_is_a_relative() -> None:
    tokens = list(range(20))
    model, twin, sister = ToyModel(3), ToyModel(3, unlikeness=0.0), ToyModel(3, unlikeness=0.5)
    rows = model.decode(tokens, 17).copy()
    assert (twin.decode(tokens, 17) == rows).all()
    related = sister.decode(tokens, 17)
    assert (related != rows).all()
    agreement = (related.argmax(axis=1) == rows.argmax(axis=1)).mean()
    strangers = (ToyModel(4).decode(tokens, 17).argmax(axis=1) == rows.argmax(axis=1)).mean()
    assert agreement > 0.4 > strangers


def test_padding_is_never_worth_a_guess() -> None:
    model = ToyModel(padding=5)
    assert model.vocab.size == ToyVocab().size + 5
    row = model.decode([1], 1)[0]
    sampler = Sampler(SamplingParams(top_k=0, top_p=1.0, min_p=0.0, temperature=2.0))
    assert all(not model.vocab.is_padding(sampler.pick(row, range(place))) for place in range(500))


def test_work_is_counted() -> None:
    model = ToyModel()
    model.decode([1, 2, 3], 1)
    model.rewind(1)
    model.decode([4], 0)
    assert model.decoded == 4


def test_a_limit_bounds_a_rewind() -> None:
    model = ToyModel(rewind_limit=2)
    model.decode([1, 2, 3, 4], 1)
    assert [length for length in range(6) if model.can_rewind(length)] == [0, 2, 3, 4]
    with pytest.raises(ValueError, match="4 tokens to 1"):
        model.rewind(1)
    model.rewind(2)
    assert model.length == 2


def test_an_abort_leaves_even_the_count_of_work_as_it_was() -> None:
    abort = AbortFlag()
    model = ToyModel(abort=abort)
    model.decode([1, 2], 1)
    abort.set()
    with pytest.raises(Cancelled):
        model.decode([3], 1)
    assert (model.length, model.decoded) == (2, 2)


def test_a_full_context_says_how_many_tokens_it_holds() -> None:
    model = ToyModel(context_size=8)
    model.decode(range(8), 1)
    with pytest.raises(ContextFullError, match="9 tokens are needed, 8 fit"):
        model.decode([1], 1)


# --- vocabulary -------------------------------------------------------------------------------------------------------


def test_text_becomes_one_token_a_byte_and_back() -> None:
    vocab = ToyVocab()
    text = "the quick brown fox jumps over a lazy dog.\né"
    ids = vocab.tokenize(text)
    assert len(ids) == len(text.encode())
    assert b"".join(vocab.piece(token) for token in ids).decode() == text


def test_unknown_characters_become_spaces() -> None:
    vocab = ToyVocab()
    assert b"".join(vocab.piece(token) for token in vocab.tokenize("A-1")) == b"a  "


def test_the_spelling_of_the_end_counts_only_where_special_tokens_do() -> None:
    vocab = ToyVocab()
    assert vocab.tokenize("a<end>b") == [*vocab.tokenize("a"), vocab.end, *vocab.tokenize("b")]
    assert vocab.end not in vocab.tokenize("a<end>b", special=False)


def test_every_token_has_a_role() -> None:
    vocab = ToyVocab(padding=3)
    assert [token for token in range(vocab.size) if vocab.is_end(token)] == [vocab.end]
    assert [token for token in range(vocab.size) if vocab.is_padding(token)] == [vocab.size - 3 + i for i in range(3)]
    assert len({vocab.text(token) for token in range(vocab.size)}) == vocab.size
    assert vocab.piece(vocab.end) == b""
    assert (vocab.special("eos"), vocab.special("bos"), vocab.bos) == ("<end>", "", None)


# --- what models share ------------------------------------------------------------------------------------------------


def test_the_abort_flag_is_a_c_string_of_length_0_or_1() -> None:
    flag = AbortFlag()
    assert (flag.is_set, flag.buffer.value) == (False, b"")
    flag.set()
    flag.set()
    assert (flag.is_set, len(flag.buffer.value)) == (True, 1)
    flag.clear()
    assert (flag.is_set, flag.buffer.value) == (False, b"")


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [([], [1], 0), ([1, 2, 3], [1, 2, 3], 3), ([1, 2], [1, 2, 3], 2), ([1, 2, 3], [1, 4, 3], 1), ([2], [3], 0)],
)
def test_a_common_prefix_ends_at_the_first_difference(one: list[int], other: list[int], length: int) -> None:
    assert common_prefix(one, other) == common_prefix(other, one) == length


def test_rows_of_a_pass_are_not_overwritten_by_a_rewind() -> None:
    model = ToyModel()
    rows = model.decode([1, 2, 3], 3)
    before = np.array(rows)
    model.rewind(1)
    assert (rows == before).all()
