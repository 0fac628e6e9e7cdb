"""What becomes of the conversation when an answer fails, is stopped, or says nothing."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.chat_input.settings import setting_values, with_setting
from app.engine.conversation.messages import Ended
from app.engine.decoding.ending import Finish
from app.engine.decoding.request import Question
from app.engine.decoding.stats import Stats
from app.line_chat.chat import Chat
from app.shell.terminal import Terminal
from models.errors import LocalspecError, UsageError
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams
from models.text.prompts import Message

ASKED, ANSWERED = Message("user", "first"), Message("assistant", "one")


class Answers:
    """An engine that gives prepared answers and keeps the questions."""

    def __init__(self, *answers: tuple[str, Finish] | LocalspecError) -> None:
        self.answers = list(answers)
        self.questions: list[Question] = []
        self.kept: list[str] = []

    def keep(self, key: str) -> None:
        self.kept.append(key)

    def answer(self, question: Question) -> Iterator[Ended]:
        self.questions.append(question)
        prepared = self.answers.pop(0)
        if isinstance(prepared, LocalspecError):
            raise prepared
        text, finish = prepared
        yield Ended(text, text, finish, Stats().snapshot(), "off", Accept.COUPLED)


def chat_over(*answers: Any, system: str | None = None) -> tuple[Chat, Answers]:
    engine = Answers(*answers)
    settings = Question((), SamplingParams(seed=5))
    chat = Chat(engine, Terminal(quiet=True), settings, system)  # type: ignore[arg-type]
    chat.turns = [ASKED, ANSWERED]
    return chat, engine


def test_a_stopped_answer_keeps_what_was_said() -> None:
    chat, _ = chat_over(("half a", Finish.CANCELLED))
    chat.ask("second")
    assert chat.turns == [ASKED, ANSWERED, Message("user", "second"), Message("assistant", "half a")]


@pytest.mark.parametrize("finish", [Finish.CANCELLED, Finish.END])
def test_a_message_that_got_no_word_is_forgotten(finish: Finish) -> None:
    chat, _ = chat_over(("", finish))
    chat.ask("second")
    assert chat.turns == [ASKED, ANSWERED]


def test_what_stays_is_told_where_an_answer_has_no_word(capsys: pytest.CaptureFixture[str]) -> None:
    chat, _ = chat_over(("", Finish.CANCELLED), ("", Finish.CANCELLED))
    chat.terminal = Terminal()
    chat.ask("second")
    assert "Stopped. No text was generated, so the message is dropped." in capsys.readouterr().err
    chat.again()
    assert "Stopped. No text was generated, so the earlier answer stays." in capsys.readouterr().err
    assert chat.turns == [ASKED, ANSWERED]


def test_a_message_that_failed_is_forgotten() -> None:
    chat, _ = chat_over(LocalspecError("no"))
    with pytest.raises(LocalspecError):
        chat.ask("second")
    assert chat.turns == [ASKED, ANSWERED]


def test_regenerating_asks_the_same_with_the_next_seed() -> None:
    chat, engine = chat_over(("uno", Finish.END), system="be brief")
    assert chat.again()
    assert chat.turns == [ASKED, Message("assistant", "uno")]
    assert engine.questions[0].turns == (Message("system", "be brief"), ASKED)
    assert engine.questions[0].sampling.seed == 6


def test_a_seed_below_0_asks_for_a_new_one_as_the_flag_does() -> None:
    asked = [with_setting(Question((), SamplingParams(seed=5)), "seed", "-1").sampling.seed for _ in range(3)]
    assert min(asked) >= 0
    assert len({*asked}) > 1
    assert with_setting(Question((), SamplingParams()), "seed", "7").sampling.seed == 7


@pytest.mark.parametrize(("name", "most"), [("draft-max", "64"), ("predict", "2147483647")])
def test_numbers_of_tokens_have_the_limits_of_their_flags(name: str, most: str) -> None:
    asked = Question((), SamplingParams())
    assert str(setting_values(with_setting(asked, name, most))[name]) == most
    assert str(setting_values(with_setting(asked, name, "-1"))[name]).startswith("-1 (")
    for wrong in ("-5", str(int(most) + 1), "9" * 30, "many"):
        with pytest.raises(UsageError, match=f"{name} can't be"):
            with_setting(asked, name, wrong)
    with pytest.raises(UsageError, match="predict can't be 0"):
        with_setting(asked, "predict", "0")


@pytest.mark.parametrize("broken", [("", Finish.CANCELLED), LocalspecError("no")])
def test_regenerating_in_vain_keeps_the_old_answer(broken: Any) -> None:
    chat, _ = chat_over(broken)
    try:
        chat.again()
    except LocalspecError:
        assert isinstance(broken, LocalspecError)
    assert chat.turns == [ASKED, ANSWERED]


def test_nothing_can_be_regenerated_or_undone_in_a_new_chat() -> None:
    chat, engine = chat_over()
    chat.turns = []
    assert (chat.again(), chat.undo(), engine.questions) == (False, False, [])


def test_thoughts_are_told_beside_the_answer_and_stay_in_the_conversation(capsys: pytest.CaptureFixture[str]) -> None:
    answer = "<think>\nTwo and two.\n</think>\n\nFour."
    chat, engine = chat_over((answer, Finish.END), (answer, Finish.END))
    chat.terminal = Terminal()
    chat.ask("second")
    told = capsys.readouterr()
    assert told.out == "Four.\n"
    assert told.err.startswith("Thoughts:\nTwo and two.\n\nAnswer:\n")
    assert chat.turns[-1] == Message("assistant", answer)
    chat.terminal = Terminal(quiet=True)
    chat.ask("third")
    assert capsys.readouterr() == ("Four.\n", "")
    assert engine.questions[-1].turns[-2] == Message("assistant", answer)


def test_an_answer_that_is_all_thoughts_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    chat, _ = chat_over(
        ("<think>Two and", Finish.LENGTH), ("<think>Two and", Finish.CANCELLED), ("<think>Two and", Finish.END)
    )
    chat.terminal = Terminal()
    chat.ask("second")
    assert "within the model's thoughts" in capsys.readouterr().err
    chat.ask("third")
    assert "thought" not in capsys.readouterr().err
    chat.ask("fourth")
    assert capsys.readouterr().err.startswith("Thoughts:\nTwo and\nThe model wrote its thoughts, but no answer.")


def test_marks_in_an_answer_to_a_bare_prompt_are_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    chat, _ = chat_over(("<think>a</think>b", Finish.END))
    chat.settings = replace(chat.settings, raw=True)
    chat.ask("second")
    assert capsys.readouterr().out == "<think>a</think>b\n"
