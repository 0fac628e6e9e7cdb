"""Answers in a form with llama.cpp's own tokenizers: of words, and of pieces that put a blank before a first word."""

import json
from pathlib import Path

import pytest
from tiny_gguf import write_llama

from models.forms.grammar import Grammar
from models.forms.grammar_state import GrammarState
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.sampling.sampler import Sampler, SamplingParams

SCHEMA = {
    "type": "object",
    "properties": {"the thing": {"enum": ["hello", 12, None]}, "é": {"type": "boolean"}},
    "required": ["the thing", "é"],
}


@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_model_of_random_weights_says_what_fits(pieces: bool, seed: int, tmp_path: Path) -> None:
    model = LlamaModel(write_llama(tmp_path / "tiny.gguf", seed=seed, pieces=pieces), LlamaOptions(context_size=128))
    try:
        vocab, text = model.vocab, model.vocab.tokenize("hello")
        state = GrammarState(vocab, Grammar.of_schema(SCHEMA), begins := len(text))
        sampler = Sampler(SamplingParams(temperature=2.0, seed=seed), grammar=state)
        row = model.decode(text, 1)[0]
        while not state.is_complete(text[begins:]):
            forced = state.forced(text)
            text.append(sampler.pick(row, text))
            assert not forced or text[-1] == forced[0]
            row = model.decode(text[-1:], 1)[0]
        said = json.loads(b"".join(map(vocab.piece, text[begins:])))
    finally:
        model.close()
    assert said["the thing"] in SCHEMA["properties"]["the thing"]["enum"]  # type: ignore[index]
    assert isinstance(said["é"], bool)
