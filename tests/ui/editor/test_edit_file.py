"""A file that is edited: what was not changed stays as it was to the byte, and it is whole at every moment."""

import errno
import os
import stat
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ui.editor.file import (
    LARGEST,
    ChangedOnDiskError,
    ProtectedError,
    TextFile,
    VanishedError,
    open_file,
    parse_place,
)
from app.ui.editor.line import find_next
from app.ui.editor.writing import write_aside
from models.errors import LocalspecError, UsageError

BOM = "\ufeff"
FLAG = "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
"""England's: its letters are control characters."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.txt"


def opened(path: Path, text: str) -> TextFile:
    path.write_bytes(text.encode())
    return open_file(path)


@given(st.lists(st.sampled_from([*"aé字\n\r\t\x0c\x1b\u2028\x80\x85\x7f", "\r\n", BOM, *FLAG, "\U000e0064"])))
def test_a_file_that_is_saved_as_it_is_keeps_every_byte(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.txt"
    file = opened(path, "".join(parts))
    assert not set(file.text) & {"\r", "\x0c", "\x1b", "\x7f", "\x85", "\u2028", BOM, *FLAG[1:]}
    file.save(file.text)
    assert path.read_bytes() == "".join(parts).encode()


@pytest.mark.parametrize(
    ("before", "shown", "typed", "after"),
    [
        ("a\r\nb\r\n", "a\nb\n", "a\nnew\nb\n", "a\r\nnew\r\nb\r\n"),
        ("a\nb", "a\nb", "a\nnew\nb", "a\nnew\nb"),
        (BOM + "a", "a", "ab", BOM + "ab"),
        ("a\r\nb\n", "a␍\nb\n", "a␍\nnew\nb\n", "a\r\nnew\nb\n"),
        ("a\x0cb", "a␌b", "a␌b␊", "a\x0cb␊"),
        ("", "", "a", "a"),
    ],
)  # fmt: skip
def test_what_is_typed_has_the_line_ends_of_the_file(
    path: Path, before: str, shown: str, typed: str, after: str
) -> None:
    file = opened(path, before)
    assert file.text == shown
    file.save(typed)
    assert path.read_bytes().decode() == after


def test_control_characters_that_come_to_a_text_are_signs_there_and_themselves_in_the_file(path: Path) -> None:
    file = opened(path, "a\x0cb␛\ue0b0")
    text = "\x0c\x07" + FLAG + "\u202e\x85\u200b\u200d\ue0b1\U0001fae8"
    taking, shown = file.taking_in(text, [file.text])
    assert not any(unicodedata.category(one) in ("Cc", "Cf") for one in shown.replace("\u200d", ""))
    taking.save(file.text + shown)
    assert path.read_bytes().decode() == "a\x0cb␛\ue0b0" + text
    assert open_file(path).text == file.text + shown
    assert taking.taking_in(text, [file.text, shown]) == (taking, shown)


def test_what_is_copied_here_is_the_same_where_it_is_pasted(path: Path) -> None:
    file = opened(path, "a\x1b[1m\n")
    taking, shown = file.taking_in(file.text, [file.text])
    taking.save(file.text + shown)
    assert path.read_text() == "a\x1b[1m\n" * 2


def test_a_control_character_whose_sign_is_there_as_itself_stays_and_so_does_a_nul(path: Path) -> None:
    file = opened(path, "a␛")
    assert file.taking_in("\x1b\x07\0␇", [file.text]) == (file, "\x1b\x07\0␇")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x89PNG\0\0", "it is not text (it is binary: byte 4 is NUL)"),
        (b"caf\xe9", "it is not UTF-8 (byte 3 is 0xe9)"),
        ("é".encode("utf-16"), "it is UTF-16LE"),
        (b"\0a\0b", "it is not UTF-8 (it looks like UTF-16BE without a byte order mark)"),
        (b"a" * 30_000, "a line has 30,000 characters"),
        ("\x0c␌".encode(), "both a control character and the sign that displays it"),
    ],
)
def test_what_is_no_text_is_refused_with_the_reason(path: Path, data: bytes, reason: str) -> None:
    path.write_bytes(data)
    with pytest.raises(LocalspecError) as refused:
        open_file(path)
    assert reason in refused.value.title
    assert path.read_bytes() == data


def test_a_file_that_is_too_large_is_refused_before_it_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.touch()
    os.truncate(path, LARGEST + 1)
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("it was read"))
    with pytest.raises(LocalspecError, match="33,554,433 bytes; the limit is 33,554,432"):
        open_file(path)


def test_what_has_grown_beyond_the_most_can_still_be_saved(path: Path) -> None:
    file = opened(path, "a")
    grown = file.save("a\n" * (LARGEST // 2 + 1))
    again = grown.save("b")
    assert path.read_bytes() == b"b"
    os.truncate(path, LARGEST + 1)
    with pytest.raises(ChangedOnDiskError):
        again.save("mine")
    again.save("mine", over_changes=True)
    assert path.read_bytes() == b"mine"


def test_a_file_that_is_gone_is_told_from_one_that_was_changed(path: Path) -> None:
    file = opened(path, "a")
    path.write_bytes(b"b")
    with pytest.raises(ChangedOnDiskError) as changed:
        file.save("c")
    assert not isinstance(changed.value, VanishedError)
    path.unlink()
    with pytest.raises(VanishedError, match=r"a\.txt is gone"):
        file.save("c")
    file.save("c", over_changes=True).save("d")
    assert path.read_bytes() == b"d"
    path.unlink()
    path.parent.rmdir()
    with pytest.raises(LocalspecError, match="can't be saved"):
        file.save("e", over_changes=True)


def test_a_folder_is_refused_and_a_file_in_none_too(tmp_path: Path) -> None:
    with pytest.raises(LocalspecError, match="it is a folder"):
        open_file(tmp_path)
    with pytest.raises(UsageError, match="its folder does not exist"):
        open_file(tmp_path / "no" / "a.txt")


def test_a_file_that_is_not_there_is_made_with_the_usual_permissions(path: Path) -> None:
    file = open_file(path)
    assert (file.text, file.known) == ("", None)
    file.save("a\n")
    path.with_name("b.txt").touch()
    assert path.read_text() == "a\n"
    assert path.stat().st_mode == path.with_name("b.txt").stat().st_mode


def test_permissions_and_links_stay(path: Path) -> None:
    file = opened(path, "a")
    path.chmod(0o751)
    link = path.with_name("link.txt")
    link.symlink_to(path.name)
    open_file(link).save("b")
    assert link.is_symlink()
    assert path.read_text() == "b"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    twin = path.with_name("twin.txt")
    twin.hardlink_to(path)
    file = open_file(path)
    file.save("c")
    assert twin.read_text() == "c"


def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = opened(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LocalspecError) as failed:
        file.save("new")
    assert "No space left" in failed.value.cause
    assert path.read_text() == "old"
    assert [one.name for one in path.parent.iterdir()] == ["a.txt"]


def test_the_old_file_is_there_until_the_new_one_is_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, seen = opened(path, "old"), []
    monkeypatch.setattr(os, "fsync", lambda _: seen.append(path.read_text()))
    file.save("new")
    assert (seen, path.read_text()) == (["old"], "new")


def test_a_file_that_is_mounted_by_itself_is_written_in_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, before = opened(path, "old"), path.stat()

    def failing(number: int) -> Callable[..., None]:
        def replace(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        return replace

    monkeypatch.setattr(Path, "replace", failing(errno.EIO))
    with pytest.raises(LocalspecError, match="can't be saved"):
        file.save("new")
    assert path.read_text() == "old"
    monkeypatch.setattr(Path, "replace", failing(errno.EBUSY))
    file.save("new")
    assert (path.read_text(), path.stat().st_ino) == ("new", before.st_ino)
    assert [one.name for one in path.parent.iterdir()] == ["a.txt"]


def test_what_another_program_wrote_is_noticed_by_its_content(path: Path) -> None:
    file = opened(path, "ours")
    times = path.stat()
    path.write_text("them")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(ChangedOnDiskError):
        file.save("mine")
    assert path.read_text() == "them"
    saved = file.save("mine", over_changes=True)
    path.write_text("mine")
    saved.save("more")
    path.unlink()
    with pytest.raises(ChangedOnDiskError):
        saved.save("yet more")
    path.write_text("again")
    saved.save("again")


def test_a_new_file_that_somebody_else_makes_first_is_noticed(path: Path) -> None:
    file = open_file(path)
    path.write_text("theirs")
    with pytest.raises(ChangedOnDiskError):
        file.save("mine")


def test_what_is_kept_aside_is_private_and_takes_no_name_that_is_used(tmp_path: Path) -> None:
    first, second = (write_aside(tmp_path / "unsaved", "a.txt", data) for data in (b"1", b"2"))
    assert first is not None
    assert second is not None
    assert (first.read_bytes(), second.read_bytes()) == (b"1", b"2")
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    assert write_aside(first, "a.txt", b"3") is None


@pytest.mark.parametrize("name", ["字" * 84 + ".c", "a" * 253 + "é", "ab" + "字" * 84])
def test_a_name_as_long_as_there_can_be_is_saved_under_and_kept_aside(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    file = opened(path, "old")
    file.save("new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]
    kept = write_aside(tmp_path / "unsaved", name, b"newer")
    assert kept is not None
    assert kept.read_bytes() == b"newer"
    assert name.startswith(kept.name.removesuffix("~1"))


@pytest.mark.parametrize(
    ("named", "place"),
    [
        ("a.py", ("a.py", 0, 0)),
        ("a.py:12:5", ("a.py", 11, 4)),
        ("a.py:12:5:", ("a.py", 11, 4)),
        ("a.py:0:0", ("a.py", 0, 0)),
        ("C:a.py:3:1", ("C:a.py", 2, 0)),
        ("there:7:1", ("there:7:1", 0, 0)),
        ("a" * 252 + ":7:1", ("a" * 252, 6, 0)),
    ],
)
def test_a_place_is_read_off_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, place: tuple[str, int, int]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there:7:1").touch()
    name, *where = place
    assert parse_place(named) == (Path(name), *where)


def test_a_number_too_long_for_a_place_belongs_to_the_name() -> None:
    name = "a.py:" + "9" * 5000
    assert parse_place(name) == (Path(name), 0, 0)


def test_a_line_without_a_column_is_its_end() -> None:
    path, line, column = parse_place("a.py:12")
    assert (path, line) == (Path("a.py"), 11)
    assert column > 1_000_000


def test_small_letters_fit_capitals_whether_or_not_all_of_the_text_is_ascii() -> None:
    for text in ("xABa", "xABé", "İABé"):
        assert [find_next(text, wanted, 0) for wanted in ("ab", "AB", "aB")] == [1, 1, None]
    assert find_next("xABa", "a", 2) == 3
    assert find_next("xABc", "a", 2) == 1


@pytest.mark.parametrize(
    ("wanted", "start", "found"),
    [("a", 0, 0), ("a", 1, 4), ("a", 5, 0), ("A", 0, 4), ("x", 0, None), ("", 0, None), (".", 0, 3), ("İ", 0, 5)],
)
def test_finding_goes_on_from_the_beginning(wanted: str, start: int, found: int | None) -> None:
    assert find_next("abc.Aİ", wanted, start) == found


def test_a_file_that_is_read_only_is_written_to_only_when_told_so_and_stays_read_only(path: Path) -> None:
    assert not opened(path, "a").is_protected
    path.chmod(0o444)
    file = open_file(path)
    assert file.is_protected
    with pytest.raises(ProtectedError, match=r"a\.txt is read-only"):
        file.save("b")
    assert path.read_bytes() == b"a"
    assert file.save("b", over_protection=True).is_protected
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"b", 0o444)
    assert not TextFile(path.with_name("new.txt"), "").save("c").is_protected
    assert not open_file(path.with_name("other.txt")).is_protected


def test_a_disk_that_is_full_costs_nothing_of_a_file_that_has_to_stay(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = opened(path, "old")
    (path.parent / "twin").hardlink_to(path)
    write = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if data == b"old":
            return write(self, data)
        write(self, data[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(LocalspecError, match="can't be saved") as failed:
        file.save("new")
    assert "No space left" in failed.value.cause
    assert path.read_text() == "old"
