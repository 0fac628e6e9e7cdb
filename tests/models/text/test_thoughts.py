"""What a model thinks, told apart from what it says."""

import pytest

from models.text.thoughts import Parts, Thoughts, after_no_thoughts, divided, has_marks, opening

HARMONY = (
    "<|channel|>analysis<|message|>They ask.<|end|>"
    "<|start|>assistant<|channel|>commentary to=x<|message|> More. <|end|>"
    "<|start|>assistant<|channel|>final<|message|>Four.\n"
)
ANSWERS = {
    "<think>\nTwo and two.\n</think>\n\nFour.\n": Parts("Two and two.", "Four.\n"),
    "\n<think>\n\n</think>\n\nFour.": Parts("", "Four."),
    "[THINK]Two </think> two[/THINK]Four.": Parts("Two </think> two", "Four."),
    "<|channel>thought\nTwo.<channel|>Four.": Parts("Two.", "Four."),
    HARMONY: Parts("They ask.\n\nMore.", "Four.\n"),
    "<|channel|>final<|message|>Four. < 5": Parts("", "Four. < 5"),
    "<think>It is <b>two": Parts("It is <b>two", ""),
    "<think>Two </thi": Parts("Two </thi", ""),
    " <b>no</b> <think>marks</think> here ": Parts("", " <b>no</b> <think>marks</think> here "),
    "<think>Two</think>Write <think> and </think>.": Parts("Two", "Write <think> and </think>."),
    "<thi": Parts("", "<thi"),
    "": Parts(),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_is_divided_whole(answer: str) -> None:
    assert divided(answer) == ANSWERS[answer]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 11])
@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_is_divided_alike_in_pieces(answer: str, size: int) -> None:
    thoughts = Thoughts()
    parts = [thoughts.feed(answer[start : start + size]) for start in range(0, len(answer), size)]
    parts.append(thoughts.feed("", last=True))
    assert Parts("".join(one.thoughts for one in parts), "".join(one.answer for one in parts)) == ANSWERS[answer]


def test_what_can_be_no_mark_is_given_out_at_once() -> None:
    thoughts = Thoughts()
    assert thoughts.feed("<b") == Parts("", "<b")
    thinking = Thoughts()
    assert thinking.feed("<think>I see <") == Parts("I see", "")
    assert thinking.feed("b> and") == Parts(" <b> and", "")
    assert thinking.feed(" </think>\n") == Parts("", "")
    assert thinking.feed("\nSo ") == Parts("", "So ")


def test_a_prompt_may_begin_the_thoughts() -> None:
    assert opening("<|im_start|>assistant\n<think>\n") == "<think>\n"
    assert opening("<start_of_turn>model\n<|channel>thought\n") == "<|channel>thought\n"
    assert opening("<think>\n\n</think>\n\n") == ""
    assert opening("") == ""


def test_thoughts_are_left_out_by_empty_ones() -> None:
    knows = "{{ content.split('</think>')[-1] }}"
    assert after_no_thoughts("A:", knows) == "A:<think>\n\n</think>\n\n"
    assert after_no_thoughts("A:<think>\n", knows) == "A:<think>\n\n</think>\n\n"
    assert after_no_thoughts("A:", "{{ '<|channel|>analysis<|message|>' }}") is None
    assert has_marks(knows)
    assert has_marks("{{ '<|channel|>analysis<|message|>' }}")
    assert not has_marks("{{ '<|im_start|>' }}")
