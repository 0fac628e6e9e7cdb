"""Stop strings count after the thoughts of an answer, wherever its pieces are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.text.after_thoughts import AfterThoughts

PLAIN = "The sea.\nSTOP here <think> no </think> more"
THINKING = {
    "<think>\nWait. STOP? é雨\n</think>": "\n\nThe sea. STOP",
    "\n <think></think>": "",
    "[THINK]STOP <think></think>[/THINK]": "yes",
    "<|channel|>analysis<|message|>STOP<|end|><|start|>assistant<|channel|>final<|message|>": "yes STOP",
    "<|channel|>analysis<|message|>" + "long " * 90 + "<|end|><|start|>assistant<|channel|>final<|message|>": "yes",
    "<|channel|>final<|message|>": "STOP",
    "<think>never over STOP": "",
}


def split(text: str, cuts: list[int], reader: AfterThoughts) -> tuple[str, str]:
    """Return what a reader says of a text that comes in pieces."""
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    parts = [reader.feed(text[start:end]) for start, end in pairwise(places)]
    return "".join(thoughts for thoughts, _ in parts) + reader.finish(), "".join(said for _, said in parts)


@pytest.mark.parametrize("thoughts", THINKING)
@given(cuts=st.lists(st.integers(0, 10_000)))
def test_thoughts_end_where_the_answer_begins(thoughts: str, cuts: list[int]) -> None:
    said = THINKING[thoughts]
    assert split(thoughts + said, cuts, AfterThoughts(may_think=True)) == (thoughts, said)


@given(cuts=st.lists(st.integers(0, 10_000)))
def test_a_mark_that_the_prompt_ends_with_begins_the_thoughts(cuts: list[int]) -> None:
    text = "Wait. <think> STOP?</think>yes </think>"
    assert split(text, cuts, AfterThoughts("<think>\n")) == ("Wait. <think> STOP?</think>", "yes </think>")


@pytest.mark.parametrize("reader", [AfterThoughts(), AfterThoughts(may_think=True)])
def test_without_thoughts_all_is_the_answer(reader: AfterThoughts) -> None:
    assert split(PLAIN, [*range(50)], reader) == ("", PLAIN)


def test_a_model_that_can_not_think_writes_marks_as_text() -> None:
    assert split("<think>a</think>b", [1, 5], AfterThoughts()) == ("", "<think>a</think>b")


def test_what_may_still_become_a_mark_is_given_out_at_the_end() -> None:
    assert split(" <thi", [2], AfterThoughts(may_think=True)) == (" <thi", "")
