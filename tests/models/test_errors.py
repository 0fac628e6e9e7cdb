"""Every failure a user can meet has an exit code of its own, and tells what failed, why, and what to do."""

import pytest
from checking import FIXED
from hypothesis import given
from hypothesis import strategies as st

from app.engine.decoding.ending import Finish
from app.wording.report import ending_note
from models.errors import (
    BusyError,
    Cancelled,
    ContextFullError,
    DivergedError,
    LocalspecError,
    MemoryLimitError,
    MessagesRefusedError,
    ModelFileError,
    PairError,
    TemplateBrokenError,
    UsageError,
    context_full,
)

CODES = {
    LocalspecError: 1,
    UsageError: 2,
    ModelFileError: 3,
    PairError: 4,
    MemoryLimitError: 5,
    DivergedError: 6,
    ContextFullError: 1,
    TemplateBrokenError: 1,
    MessagesRefusedError: 1,
    BusyError: 1,
    Cancelled: 130,
}


@pytest.mark.parametrize(("kind", "code"), CODES.items())
def test_exit_codes_are_what_the_manual_says(kind: type[LocalspecError], code: int) -> None:
    assert kind("It failed.").exit_code == code


def test_every_error_is_in_the_table() -> None:
    ours = {kind for kind in LocalspecError.__subclasses__() if kind.__module__ == LocalspecError.__module__}
    assert ours | {LocalspecError} == set(CODES)


def test_an_error_that_a_part_keeps_to_itself_leaves_with_1() -> None:
    others = set(LocalspecError.__subclasses__()) - set(CODES)
    assert {kind.exit_code for kind in others} <= {1}


def test_an_error_is_told_in_three_lines() -> None:
    error = ModelFileError("It failed.", cause="The disk said so.", hint="Buy a disk.")
    assert str(error) == "It failed.\nThe disk said so.\nBuy a disk."
    assert (error.title, error.cause, error.hint) == ("It failed.", "The disk said so.", "Buy a disk.")


def test_a_part_that_is_missing_leaves_no_empty_line() -> None:
    assert str(LocalspecError("It failed.")) == "It failed."
    assert str(LocalspecError("It failed.", hint="Try again.")) == "It failed.\nTry again."


def test_a_full_context_names_a_command_of_the_chat_in_a_chat_alone() -> None:
    assert context_full(70, 64).hint == "Use a larger one: -c 128."
    note, in_chat = ending_note(Finish.CONTEXT), ending_note(Finish.CONTEXT, in_chat=True)
    assert note == "The context is full, so the answer ends here. Use a larger one: -c N."
    assert in_chat == "The context is full, so the answer ends here. Use a larger one: -c N, or /new."


@FIXED
@given(st.integers(1, 10**7), st.integers(1, 10**6))
def test_a_full_context_proposes_a_size_that_is_enough(wanted: int, size: int) -> None:
    error = context_full(wanted, size)
    assert error.exit_code == 1
    assert f"{wanted:,} tokens are needed, {size:,} fit" in error.title
    proposed = int(error.hint.split("-c ")[1].rstrip("."))
    assert max(wanted, size) < proposed <= 2 * max(wanted, size)
