"""Escapes in pasted texts, whatever pieces a terminal's bytes come in."""

import pytest

from app.ui.terminal.pasted_escapes import PastedEscapes, released

PASTE = "\x1b[200~", "\x1b[201~"
TYPED = "\x1b[A", "\x1b", "\x1b[20~x"


def held(pieces: list[str]) -> str:
    escapes = PastedEscapes()
    return "".join(map(escapes.hold, pieces))


@pytest.mark.parametrize("pasted", ["", "a\x1b[31mb\r", "\x1b", "\x1b[201", "\x1b\x1b[20\x1b[200~"])
@pytest.mark.parametrize("size", [1, 2, 5, 7, 100])
def test_those_between_the_marks_of_a_paste_are_held(pasted: str, size: int) -> None:
    def between(text: str) -> str:
        return TYPED[0] + "".join(PASTE[0] + text + PASTE[1] + typed for typed in TYPED)

    sent = between(pasted)
    got = held([sent[start : start + size] for start in range(0, len(sent), size)])
    assert got == between(pasted.replace("\x1b", "\udc1b"))
    assert released(got) == sent


def test_an_escape_outside_a_paste_is_passed_on_at_once() -> None:
    escapes = PastedEscapes()
    assert [escapes.hold(piece) for piece in ("\x1b", "[200~a\x1b", "[20", "1~\x1b")] == [
        "\x1b", "[200~a", "", "\x1b[201~\x1b",
    ]  # fmt: skip
