"""What is shown of an answer that a limit ended, inside a character or after its first line, and what is said of it."""

from unicodedata import lookup

import click
import pytest

from app.complete.options import complete
from app.complete.place import CursorPosition, Windows, window
from app.complete.tidy import Around, shown
from app.engine.conversation.early_stop import EarlyStop
from app.engine.decoding.ending import Finish
from app.engine.decoding.request import Question
from app.lsp.options import lsp
from models.sampling.sampler import SamplingParams
from models.text.detokenizer import AnswerText
from models.toy import ToyVocab

AROUND = Around.of(window(CursorPosition.between("", "x = ", "\n"), Windows()))
CUT = lookup("REPLACEMENT CHARACTER")


class Bytes(ToyVocab):
    """A vocabulary in which every token is a byte."""

    def piece(self, token: int) -> bytes:
        return bytes([token])


@pytest.mark.parametrize("tidies", [True, False])
@pytest.mark.parametrize("character", ["é", "字", "🙂"])
def test_the_beginning_of_a_character_is_not_inserted(character: str, *, tidies: bool) -> None:
    text = AnswerText(Bytes())
    for byte in f"'a{character}".encode()[:-1]:
        text.feed(byte)
    text.finish()
    answer = text.take()
    assert answer == f"'a{CUT}"
    assert shown(answer, AROUND, broken_off=True, tidies=tidies) == "'a"


@pytest.mark.parametrize("tidies", [True, False])
def test_what_the_model_says_itself_stays(*, tidies: bool) -> None:
    for said in (f"'a{CUT}b", f"{CUT}'"):
        assert shown(said, AROUND, broken_off=True, tidies=tidies) == said
    assert shown(f"a{CUT}", AROUND, broken_off=False, tidies=tidies) == f"a{CUT}"


def test_nothing_but_the_beginning_of_a_character_is_nothing() -> None:
    assert shown(CUT, AROUND, broken_off=True) == ""
    assert shown(f"1\n{CUT}", AROUND, broken_off=True) == "1"


@pytest.mark.parametrize("command", [complete, lsp])
def test_what_is_said_of_the_time_limit_is_so(command: click.Command) -> None:
    (option,) = [one for one in command.params if one.name == "time_limit"]
    assert isinstance(option, click.Option)
    assert option.help is not None
    assert "The first line is always completed, a later incomplete line is dropped." in option.help
    limit = EarlyStop(Question((), SamplingParams(), seconds=0.0), iter(range(9)).__next__)
    said = ["1\n", "y = 2"]
    assert [limit.reached([said[0][:1]]), limit.reached(said)] == [None, Finish.TIME]
    assert shown("".join(said), AROUND, broken_off=True) == "1"
