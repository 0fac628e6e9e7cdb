"""Token bytes survive without loss, text comes back as it went in, control tokens count only where they are meant."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest
from checking import FIXED
from hypothesis import given
from hypothesis import strategies as st
from tiny_gguf import CHATML_TEMPLATE, END_OF_TEXT, IM_END, IM_START, TOKENS, write_llama

from models.llama.bindings import llama_cpp
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.llama.vocab import LlamaVocab
from models.pair import check_pair
from models.text.prompts import ChatTemplate, Message

SPACE = TOKENS[0x20]
LONG = "x" * 700
"""A token longer than any usual buffer."""


def load(path: Path) -> LlamaModel:
    return LlamaModel(path, LlamaOptions(context_size=256, threads=1))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaModel]:
    path = tmp_path_factory.mktemp("vocab") / "tiny.gguf"
    made = load(write_llama(path, vocab=(*TOKENS, LONG), chat_template=CHATML_TEMPLATE))
    yield made
    made.close()


@pytest.fixture
def vocab(model: LlamaModel) -> LlamaVocab:
    # A new one: pieces are remembered once they were read.
    return LlamaVocab(model._model)


def spelled(vocab: LlamaVocab, ids: list[int]) -> bytes:
    return b"".join(vocab.piece(token) for token in ids)


def test_every_byte_is_a_piece(vocab: LlamaVocab) -> None:
    assert [vocab.piece(token) for token in range(256)] == [bytes([byte]) for byte in range(256)]


@pytest.mark.parametrize("count", [2, 4, 8, 16, 32, 40])
def test_a_token_of_many_spaces_is_that_many(vocab: LlamaVocab, count: int) -> None:
    assert vocab.piece(TOKENS.index(SPACE * count)) == b" " * count


def test_a_piece_of_any_length_survives_and_so_do_those_after_it(vocab: LlamaVocab) -> None:
    assert vocab.piece(len(TOKENS)) == LONG.encode()
    assert vocab.piece(TOKENS.index("hello")) == b"hello"
    assert vocab.piece(TOKENS.index(SPACE * 40)) == b" " * 40


def test_a_fixed_buffer_would_have_lost_it(model: LlamaModel) -> None:
    buffer = ctypes.create_string_buffer(32)
    token = TOKENS.index(SPACE * 40)
    needed = llama_cpp().llama_token_to_piece(model.vocab._vocab, token, buffer, len(buffer), 0, False)
    assert needed == -40


def test_a_token_may_be_a_whole_character_of_many_bytes(vocab: LlamaVocab) -> None:
    assert vocab.piece(TOKENS.index("Ã©")) == "é".encode()


def test_control_tokens_add_nothing_to_the_text(vocab: LlamaVocab) -> None:
    assert [vocab.piece(token) for token in (IM_START, IM_END, END_OF_TEXT)] == [b"", b"", b""]
    assert [vocab.text(token) for token in (IM_START, IM_END)] == ["<|im_start|>", "<|im_end|>"]


def test_pieces_are_remembered(vocab: LlamaVocab, monkeypatch: pytest.MonkeyPatch) -> None:
    first = vocab.piece(256)
    monkeypatch.setattr(vocab, "_read_piece", lambda _: pytest.fail("read twice"))
    assert vocab.piece(256) == first


# --- text and back ----------------------------------------------------------------------------------------------------


@FIXED
@given(st.text(max_size=40) | st.text("hello wortingé \n🙂", max_size=60) | st.integers(0, 200).map(lambda n: " " * n))
def test_text_comes_back_as_it_went_in(model: LlamaModel, text: str) -> None:
    assert spelled(model.vocab, model.vocab.tokenize(text, special=False)) == text.encode()


@pytest.mark.parametrize("text", ["", "\0", "a\0b", " leading", "trailing ", "\r\n\t", "<|im_start|", "é" * 3000])
def test_awkward_text_comes_back_too(vocab: LlamaVocab, text: str) -> None:
    for special in (True, False):
        assert spelled(vocab, vocab.tokenize(text, special=special)) == text.encode()


def test_text_becomes_the_longest_tokens(vocab: LlamaVocab) -> None:
    assert vocab.tokenize("hello") == [TOKENS.index("hello")]
    assert vocab.tokenize("") == []


def test_a_control_token_is_read_only_where_special_tokens_are_asked_for(vocab: LlamaVocab) -> None:
    text = "<|im_start|>a<|im_end|>"
    assert vocab.tokenize(text) == vocab.tokenize(text, special=True) == [IM_START, ord("a"), IM_END]
    ids = vocab.tokenize(text, special=False)
    assert not {IM_START, IM_END} & set(ids)
    assert spelled(vocab, ids) == text.encode()


def test_no_leading_token_is_added_unasked(tmp_path: Path) -> None:
    model = load(write_llama(tmp_path / "bos.gguf", add_bos=True))
    assert model.vocab.bos == IM_START
    assert model.vocab.tokenize("a") == [ord("a")]
    model.close()


# --- roles ------------------------------------------------------------------------------------------------------------


def test_the_vocabulary_describes_itself(vocab: LlamaVocab) -> None:
    assert vocab.size == len(TOKENS) + 1
    assert vocab.kind == "bpe"
    assert vocab.bos is None
    assert (vocab.special("bos"), vocab.special("eos")) == ("<|im_start|>", "<|im_end|>")


def test_the_ends_of_a_generation_are_known(vocab: LlamaVocab) -> None:
    assert [token for token in range(vocab.size) if vocab.is_end(token)] == [IM_END, END_OF_TEXT]
    assert vocab.is_end(IM_END)


def test_padding_is_told_from_tokens(tmp_path: Path) -> None:
    model = load(write_llama(tmp_path / "padded.gguf", extra_vocab=6))
    padding = [token for token in range(model.vocab.size) if model.vocab.is_padding(token)]
    assert padding == list(range(len(TOKENS), len(TOKENS) + 6))
    assert model.decode([1], 1).shape == (1, len(TOKENS) + 6)
    model.close()


def test_the_models_own_template_comes_with_it(model: LlamaModel) -> None:
    template = ChatTemplate.of(model)
    assert template is not None
    prompt = template.render([Message("user", "hello")])
    assert prompt == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    ids = model.vocab.tokenize(prompt)
    assert (ids.count(IM_START), ids.count(IM_END)) == (2, 1)


def test_a_model_without_a_template_has_none(tmp_path: Path) -> None:
    model = load(write_llama(tmp_path / "bare.gguf"))
    assert model.chat_template is None
    model.close()


def test_the_name_of_a_template_in_llama_cpp_is_none(tmp_path: Path) -> None:
    # For what looks like Mistral Small: the answer to every question would be one to the text "mistral-v7-tekken".
    model = load(write_llama(tmp_path / "mistral.gguf", words="tekken", n_layer=40, n_embd=32))
    assert llama_cpp().llama_model_chat_template(model._model, None) == b"mistral-v7-tekken"
    assert model.chat_template is None
    model.close()


# --- pairs ------------------------------------------------------------------------------------------------------------


def reasons(tmp_path: Path, **changes: object) -> list[str]:
    """Return why a draft model with these changes can't speak for a plain one."""
    target = load(write_llama(tmp_path / "target.gguf"))
    draft = load(write_llama(tmp_path / "draft.gguf", seed=1, **changes))  # type: ignore[arg-type]
    found = check_pair(target.vocab, draft.vocab)
    target.close()
    draft.close()
    return found


def test_real_models_of_one_vocabulary_are_a_pair(tmp_path: Path) -> None:
    assert reasons(tmp_path) == []
    assert reasons(tmp_path, extra_vocab=12) == []
    assert reasons(tmp_path, n_layer=1, n_embd=32) == []


def test_real_models_that_spell_a_token_differently_are_none(tmp_path: Path) -> None:
    assert reasons(tmp_path, rename={256: "other"}) == ["token 256 is 'he' for the target, 'other' for the draft"]


def test_real_models_with_tokens_of_their_own_are_none(tmp_path: Path) -> None:
    found = reasons(tmp_path, vocab=(*TOKENS, "more"))
    assert found == [f"token {len(TOKENS)} ('more') exists only in the draft"]


def test_real_models_that_begin_differently_are_none(tmp_path: Path) -> None:
    assert reasons(tmp_path, add_bos=True) == [f"the first token added to a prompt differs: None and {IM_START}"]


def test_marks_of_thoughts_have_a_text_though_they_are_control_tokens(tmp_path: Path, vocab: LlamaVocab) -> None:
    marks = {IM_START: "<|channel|>", IM_START - 1: "<|message|>"}
    model = load(write_llama(tmp_path / "harmony.gguf", rename=marks))
    try:
        assert model.vocab.piece(IM_START) == b"<|channel|>"
        assert model.vocab.piece(END_OF_TEXT) == b"", "an end is none"
    finally:
        model.close()
    assert vocab.piece(IM_START) == b""


def test_a_mark_of_calls_has_a_text_also_where_it_is_the_only_one(tmp_path: Path) -> None:
    model = load(write_llama(tmp_path / "calls.gguf", rename={IM_START: "[TOOL_CALLS]"}))
    try:
        assert model.vocab.piece(IM_START) == b"[TOOL_CALLS]"
    finally:
        model.close()
