"""Text on its way to a terminal: what would be obeyed is a sign, however it is written and however it is cut."""

import io
import unicodedata

import pytest

from app.shell.safe_text import shown
from app.shell.visible_output import VisibleOutput, made_visible, obey, styled, write_drawn

HOSTILE = "a\x1b[31mb\x1b]0;t\x07c\x9b2Jd\rover\x08\x7f\u202eback\u2066x\x00\ttab\n"


class Terminal(io.BytesIO):
    """Bytes in memory that say they are a terminal."""

    def isatty(self) -> bool:
        return True


def opened(encoding: str = "utf-8", errors: str = "strict") -> tuple[Terminal, io.TextIOWrapper]:
    terminal = Terminal()
    stream = made_visible(io.TextIOWrapper(terminal, encoding, errors, newline=""))
    assert isinstance(stream, io.TextIOWrapper)
    return terminal, stream


def is_obeyed(character: str) -> bool:
    return character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cf", "Cs")


def test_text_to_a_terminal_is_what_the_chat_shows_of_it() -> None:
    terminal, stream = opened()
    stream.write(HOSTILE)
    stream.flush()
    assert terminal.getvalue().decode() == shown(HOSTILE)
    assert not any(map(is_obeyed, terminal.getvalue().decode()))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_an_escape_that_is_cut_is_no_escape_either(size: int) -> None:
    terminal, stream = opened()
    data = HOSTILE.encode()
    for start in range(0, len(data), size):
        stream.buffer.write(data[start : start + size])
        stream.flush()
    assert terminal.getvalue().decode() == shown(HOSTILE)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "cp1252", "ascii"])
def test_bytes_that_are_no_text_are_signs_in_any_encoding(encoding: str) -> None:
    terminal, stream = opened(encoding, "replace")
    stream.buffer.write(b"a\x9b31m\x1b[2J\xff\x85z\n")
    stream.write("\x9b\u202e\n")
    stream.flush()
    assert not any(map(is_obeyed, terminal.getvalue().decode(encoding)))
    assert terminal.getvalue().startswith(b"a")
    assert terminal.getvalue().decode(encoding).count("\n") == 2


def test_only_what_is_meant_to_be_obeyed_is_and_in_its_place() -> None:
    terminal, stream = opened()
    stream.write("before\x1b[0m")
    with styled(stream, "\x1b[2m"):
        stream.write("dim\x1b[0m")
    obey(stream, "\r\x1b[K")
    stream.flush()
    assert terminal.getvalue().decode() == "before␛[0m\x1b[2mdim␛[0m\x1b[0m\r\x1b[K"


def test_a_style_ends_with_what_fails_in_it() -> None:
    terminal, stream = opened()
    with pytest.raises(KeyboardInterrupt), styled(stream, "\x1b[2m"):
        raise KeyboardInterrupt
    assert terminal.getvalue() == b"\x1b[2m\x1b[0m"


def test_a_line_end_of_two_characters_is_one_line_end() -> None:
    terminal, stream = opened()
    stream.write("a\r\nb\rc\n")
    stream.flush()
    assert terminal.getvalue().decode() == "a\nb␍c\n"


def test_a_pipe_gets_the_bytes() -> None:
    pipe = io.BytesIO()
    stream = made_visible(io.TextIOWrapper(pipe, "utf-8", newline=""))
    stream.write(HOSTILE)
    stream.flush()
    assert pipe.getvalue().decode() == HOSTILE


def test_the_terminal_stays_open_and_is_made_visible_once() -> None:
    terminal, stream = opened()
    assert made_visible(stream) is stream
    assert stream.isatty()
    assert isinstance(stream.buffer, VisibleOutput)
    stream.write("last")
    stream.close()
    assert terminal.getvalue() == b"last"


def test_a_drawn_page_is_obeyed_in_its_styles_alone() -> None:
    terminal, stream = opened()
    write_drawn(stream, "\x1b[1;36m• bold\x1b[0m \x1b]0;title\x07\x1b[2Jend\n")
    seen = terminal.getvalue().decode()
    assert seen.startswith("\x1b[1;36m• bold\x1b[0m ")
    assert seen.count("\x1b") == 2
    assert "\x07" not in seen
    assert seen.endswith("end\n")
