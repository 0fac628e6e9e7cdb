"""Documents as an editor and the server must see them alike, whatever characters and line ends are in them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from app.lsp.documents import Documents, split_lines

URI = "file:///src/a%20b.py"
FAMILY = "\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL}"
ENCODINGS = ["utf-8", "utf-16", "utf-32"]
UNITS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
TEXTS = st.text(st.sampled_from("ab\u00e9\u0301\N{GRINNING FACE}\N{ZERO WIDTH JOINER}\n\r\f\u2028\x85\t"), max_size=30)


def units(text: str, encoding: str) -> int:
    name, size = UNITS[encoding]
    return len(text.encode(name)) // size


def position(text: str, offset: int, encoding: str) -> types.Position:
    """Return where an editor says that an offset is."""
    lines = split_lines(text[:offset])
    return types.Position(len(lines) - 1, units(lines[-1], encoding))


def documents(text: str, encoding: str = "utf-16", folders: list[str] | None = None) -> Documents:
    opened = Documents(None, [types.WorkspaceFolder(uri, uri) for uri in folders or []], encoding)
    opened.put_text_document(types.TextDocumentItem(URI, "python", 1, text))
    return opened


def change(opened: Documents, where: types.Range, text: str, version: int = 2) -> None:
    changed = types.VersionedTextDocumentIdentifier(version, URI)
    opened.update_text_document(changed, types.TextDocumentContentChangePartial(where, text))


def source(opened: Documents) -> str:
    document = opened.opened(URI)
    assert document is not None
    return document.source


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(data=st.data())
def test_an_edit_at_any_place_gives_the_text_that_the_editor_has(encoding: str, data: st.DataObject) -> None:
    text, inserted = data.draw(TEXTS), data.draw(TEXTS)
    # No editor puts a cursor between a carriage return and its line feed.
    places = [place for place in range(len(text) + 1) if text[max(0, place - 1) : place + 1] != "\r\n"]
    start, end = sorted((data.draw(st.sampled_from(places)), data.draw(st.sampled_from(places))))
    opened = documents(text, encoding)
    change(opened, types.Range(position(text, start, encoding), position(text, end, encoding)), inserted)
    assert source(opened) == text[:start] + inserted + text[end:]


def test_only_line_ends_of_the_protocol_end_a_line() -> None:
    assert split_lines("a\fb\u2028c\n\x85d\r\ne\rf") == ("a\fb\u2028c\n", "\x85d\r\n", "e\r", "f")
    assert split_lines("a\n") == ("a\n", "")


@given(TEXTS)
def test_whichever_ends_there_are_lines_are_the_same(text: str) -> None:
    assert split_lines(text) == tuple(re.split(r"(?<=\n)|(?<=\r)(?!\n)", text))


def test_a_text_is_split_once_and_anew_when_it_is_another() -> None:
    opened = documents("a\r\nb")
    document = opened.opened(URI)
    assert document is not None
    assert document.lines is document.lines
    for text, lines in (("x", ("xa\r\n", "b")), ("\n", ("\n", "xa\r\n", "b"))):
        change(opened, types.Range(types.Position(0, 0), types.Position(0, 0)), text)
        assert document.lines == lines


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("text", [f"{FAMILY}x", "e\u0301\N{GRINNING FACE}x", "\N{GRINNING FACE}\nx"])
def test_a_column_behind_wide_characters_is_the_editors(encoding: str, text: str) -> None:
    document = documents(text, encoding).opened(URI)
    assert document is not None
    there = position(text, len(text), encoding)
    found = document.position_from_client_units(there)
    assert (found.line, found.character) == (len(split_lines(text)) - 1, len(split_lines(text)[-1]))
    assert document.position_to_client_units(found) == there


@pytest.mark.parametrize(
    ("line", "column", "wanted"), [(0, 99, (0, 3)), (1, 99, (1, 1)), (9, 9, (2, 0)), (0, 2, (0, 1))]
)
def test_a_position_outside_goes_to_the_nearest_place_inside(line: int, column: int, wanted: tuple[int, int]) -> None:
    document = documents("a\N{GRINNING FACE}b\r\nc\n").opened(URI)
    assert document is not None
    found = document.position_from_client_units(types.Position(line, column))
    assert (found.line, found.character) == wanted


def test_a_text_has_bare_line_ends_and_the_columns_of_the_editor() -> None:
    document = documents("a\r\nb\rc\n").opened(URI)
    assert document is not None
    assert document.text == "a\nb\nc\n"


def test_a_whole_new_text_takes_the_place_of_the_old() -> None:
    opened = documents("old\ntext")
    changed = types.VersionedTextDocumentIdentifier(2, URI)
    opened.update_text_document(changed, types.TextDocumentContentChangeWholeDocument("new"))
    assert source(opened) == "new"


def test_a_document_that_was_never_opened_is_none_and_its_changes_are_passed_over(tmp_path) -> None:
    path = tmp_path / "there.py"
    path.write_text("on the disk")
    opened = documents("text")
    changed = types.VersionedTextDocumentIdentifier(2, path.as_uri())
    opened.update_text_document(changed, types.TextDocumentContentChangeWholeDocument("new"))
    assert opened.opened(path.as_uri()) is None
    opened.remove_text_document(URI)
    assert opened.opened(URI) is None


def test_half_a_surrogate_pair_is_one_character_that_can_be_encoded() -> None:
    opened = documents("a\ud83db")
    assert source(opened) == "a?b"
    change(opened, types.Range(types.Position(0, 0), types.Position(0, 1)), "\udc00")
    assert source(opened) == "??b"


@pytest.mark.parametrize(
    ("folders", "uri", "name"),
    [
        (["file:///src"], "file:///src/app/a%20b.py", "app/a b.py"),
        (["file:///w/one", "file:///w/two"], "file:///w/one/a.py", "one/a.py"),
        (["file:///w/one", "file:///w/two"], "file:///w/two/a.py", "two/a.py"),
        (["file:///w/one", "file:///w/two"], "file:///w/three/a.py", "/w/three/a.py"),
        (["file:///src"], "file:///srcs/a.py", "/srcs/a.py"),
        ([], "file:///src/a.py", "/src/a.py"),
        ([], "untitled:Untitled-1", "Untitled-1"),
    ],
)
def test_the_model_is_shown_a_path_within_the_folder(folders: list[str], uri: str, name: str) -> None:
    assert documents("", folders=folders).name(uri) == name
