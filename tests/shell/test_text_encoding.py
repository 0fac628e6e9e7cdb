"""Text is read in UTF-8, and in UTF-16 and UTF-32 with a byte order mark; the rest is refused in words."""

import codecs
import subprocess
from pathlib import Path

import pytest

from app.chat_input.mentioned_file import read_excerpt
from app.complete.command import read_place
from app.complete.place import CursorPosition
from app.flags.input_file import read_file
from app.shell.text_encoding import decoded
from models.errors import LocalspecError, UsageError

TEXT = "naïve = 'é😀'\r\nb\rc\n"
MARKED = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}


@pytest.mark.parametrize("encoding", MARKED)
@pytest.mark.parametrize("strict", [False, True])
def test_a_byte_order_mark_names_the_encoding_and_line_ends_stay(encoding: str, strict: bool) -> None:
    assert decoded(MARKED[encoding] + TEXT.encode(encoding), "x", strict=strict) == TEXT
    assert decoded(MARKED[encoding], "x", strict=strict) == ""


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_what_has_no_mark_is_refused_by_the_name_of_its_encoding(encoding: str) -> None:
    with pytest.raises(UsageError, match=r"x is not UTF-8\.") as refused:
        decoded("Ein Fuß.\n".encode(encoding), "x")
    assert encoding.upper().replace("-LE", "LE").replace("-BE", "BE") in refused.value.cause


@pytest.mark.parametrize(
    ("data", "title", "cause"),
    [
        (b"ab\0c", "x is not text.", "byte 2 is NUL"),
        (codecs.BOM_UTF16_LE + b"a\0b", "x is not valid UTF-16LE.", "Byte 4"),
        (codecs.BOM_UTF16_BE + b"\xdc\x00", "x is not valid UTF-16BE.", "Byte 2"),
        (codecs.BOM_UTF32_LE + b"\xff" * 4, "x is not valid UTF-32LE.", "Byte 4"),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_bytes_that_are_no_text_are_refused(data: bytes, title: str, cause: str, strict: bool) -> None:
    with pytest.raises(UsageError) as refused:
        decoded(data, "x", strict=strict)
    assert refused.value.title == title
    assert cause in refused.value.cause


def test_the_hint_for_other_bytes_works_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "FILE").write_bytes("Füße".encode("latin-1"))
    with pytest.raises(UsageError, match="not UTF-8") as refused:
        decoded((tmp_path / "FILE").read_bytes(), "FILE", strict=True)
    assert refused.value.cause == "Byte 1 is 0xfc."
    command = refused.value.hint.partition("or: ")[2]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    assert decoded((tmp_path / "NEW").read_bytes(), "NEW", strict=True) == "Füße"
    assert decoded((tmp_path / "FILE").read_bytes(), "FILE") == "F\ufffd\ufffde"


@pytest.mark.parametrize("encoding", MARKED)
def test_every_front_reads_a_marked_file(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(MARKED[encoding] + "x = 1\r\ny = 2\r\n".encode(encoding))
    assert read_file("-f", path) == read_file("--predict", path, strict=True) == "x = 1\r\ny = 2\r\n"
    assert read_excerpt(path, "a.py", None, None, 1000).text == "x = 1\ny = 2\n"
    place = read_place(f"{path}:2:5", {"prefix_file": None, "suffix_file": None})
    assert (place.behind, place.ahead, place.newline) == ("y = ", "2", "\r\n")
    flags = {"prefix_file": str(path), "suffix_file": str(path)}
    assert read_place(None, flags).suffix == "x = 1\r\ny = 2\r\n"


def test_every_front_refuses_what_is_binary(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"a\0b")
    with pytest.raises(LocalspecError, match="not text"):
        read_file("-f", path)
    with pytest.raises(LocalspecError, match="not text"):
        read_excerpt(path, "a.py", None, None, 1000)
    with pytest.raises(LocalspecError, match="not text"):
        read_place(f"{path}:1:1", {"prefix_file": None, "suffix_file": None})


def test_carriage_returns_alone_end_lines_and_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "old.txt"
    path.write_bytes(b"a\rbc\rd")
    place = read_place(f"{path}:2:2", {"prefix_file": None, "suffix_file": None})
    assert (place.behind, place.ahead, place.newline) == ("b", "c", "\r")
    assert place.after("x\ny").newline == "\r"
    assert read_excerpt(path, "old.txt", 2, 3, 1000).text == "bc\nd\n"


@pytest.mark.parametrize(("line", "end"), [(0, "\n"), (1, "\r\n"), (2, "\n"), (3, "\n")])
def test_a_completion_has_the_end_of_its_line(line: int, end: str) -> None:
    assert CursorPosition("", "a\nb\r\nc\nd", line, 0).newline == end
    assert CursorPosition("", "a\r\nb", 1, 0).newline == "\r\n"
