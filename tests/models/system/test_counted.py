"""One of something is told in the singular, and more of it in the plural, wherever it is counted."""

from dataclasses import replace

import pytest

from app.chat_input.settings import draft_length_text
from app.engine.control.explain import Explanation, SourceAccount, WidthCost
from app.engine.decoding.request import Question
from app.engine.decoding.stats import Stats
from app.wording.explanation import explanation_text
from app.wording.report import table
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams
from models.system.counted import counted


@pytest.mark.parametrize(
    ("number", "words", "plural"),
    [(0, "0 tokens", ""), (1, "1 token", ""), (2048, "2,048 tokens", ""), (1, "1 token", "x"), (2, "2 x", "x")],
)
def test_a_number_has_its_noun_in_the_right_form(number: int, words: str, plural: str) -> None:
    assert counted(number, "token", plural) == words


def test_figures_of_one_are_told_in_the_singular() -> None:
    source = SourceAccount("suffix", (1,), (1,), 0.8, 0.3)
    known = Explanation(1, (WidthCost(1, 0.05, 1.0),), 20.0, 20.0, (source,), "", None, None)
    text = explanation_text(known)
    assert "  draft limit     1 token\n" in text
    assert text.endswith("(1 draft)")
    question = Question((), SamplingParams(), draft_length=1)
    assert draft_length_text(question) == "at most 1 draft token per round"
    told = table(replace(Stats(), emitted=1, rounds=1, prompt_tokens=1).snapshot(), "suffix", Accept.COUPLED)
    assert "1 token, 0 reused" in told
    assert "1 token in 1 round\n" in told
    assert draft_length_text(replace(question, adapt=False)) == "1 draft token per round"
