"""Where a completion is asked for, and the items that answer it."""

import time

import pytest
from lsprotocol import types

from app.lsp.documents import Documents
from app.lsp.positions import bare_inline_item, inline_item, inline_position, listed_item, listed_position

URI = "file:///src/a.py"
FACE = "\N{GRINNING FACE}"
AUTOMATIC = types.InlineCompletionTriggerKind.Automatic


def documents(text: str) -> Documents:
    opened = Documents("file:///src", [], "utf-16")
    opened.put_text_document(types.TextDocumentItem(URI, "python", 1, text))
    return opened


def span(line: int, start: int, end: int, last: int | None = None) -> types.Range:
    return types.Range(types.Position(line, start), types.Position(line if last is None else last, end))


def inline_params(
    line: int, column: int, selected: types.SelectedCompletionInfo | None = None, uri: str = URI
) -> types.InlineCompletionParams:
    context = types.InlineCompletionContext(AUTOMATIC, selected)
    return types.InlineCompletionParams(context, types.TextDocumentIdentifier(uri), types.Position(line, column))


def apply(text: str, where: types.Range, new: str) -> str:
    opened = documents(text)
    change = types.TextDocumentContentChangePartial(where, new)
    opened.update_text_document(types.VersionedTextDocumentIdentifier(2, URI), change)
    document = opened.opened(URI)
    assert document is not None
    return document.source


def test_an_inline_item_is_inserted_at_the_cursor_and_names_the_command() -> None:
    asked = inline_position(documents(f"x\n{FACE} = f(\ny"), inline_params(1, 7))
    assert asked is not None
    assert (asked.place.behind, asked.place.ahead, asked.place.path) == (f"{FACE} = f(", "", "a.py")
    item = inline_item(asked, "1)\nz", 7)
    assert (item.insert_text, item.range) == ("1)\nz", span(1, 7, 7))
    assert item.command is not None
    assert (item.command.command, item.command.arguments) == ("localspec.accepted", [7])


def test_a_cursor_beyond_its_line_is_completed_at_the_end_of_it() -> None:
    asked = inline_position(documents(f"{FACE}b\nc"), inline_params(0, 50))
    assert asked is not None
    assert (asked.place.column, asked.replaced) == (2, span(0, 3, 3))


def test_an_item_extends_the_selected_completion() -> None:
    text = f"{FACE}.app; x"
    selected = types.SelectedCompletionInfo(span(0, 3, 6), "append(")
    asked = inline_position(documents(text), inline_params(0, 6, selected))
    assert asked is not None
    assert (asked.place.behind, asked.place.ahead) == (f"{FACE}.append(", "; x")
    item = inline_item(asked, "1)", 1)
    assert isinstance(item.insert_text, str)
    assert item.insert_text.startswith("append(")
    assert item.range is not None
    assert apply(text, item.range, item.insert_text) == f"{FACE}.append(1); x"


@pytest.mark.parametrize("where", [span(0, 0, 1, last=1), span(0, 0, 3), span(0, 5, 6), span(1, 0, 1)])
def test_a_selected_completion_elsewhere_gets_nothing(where: types.Range) -> None:
    selected = types.SelectedCompletionInfo(where, "append")
    assert inline_position(documents("abcdefgh\nb"), inline_params(0, 4, selected)) is None


def test_a_document_that_is_not_open_gets_nothing() -> None:
    params = types.CompletionParams(types.TextDocumentIdentifier("file:///src/b.py"), types.Position(0, 0))
    assert inline_position(documents("a"), inline_params(0, 0, uri="file:///src/b.py")) is None
    assert listed_position(documents("a"), params) is None


def test_a_listed_item_begins_with_the_word_that_is_being_written() -> None:
    text = f"{FACE} = obj.upd"
    params = types.CompletionParams(types.TextDocumentIdentifier(URI), types.Position(0, 12))
    asked = listed_position(documents(text), params)
    assert asked is not None
    assert asked.place.behind == text
    item = listed_item(asked, "ate(a,\n    b)", 3)
    assert (item.label, item.filter_text) == ("update(a,…", "update(a,")
    assert item.documentation == "update(a,\n    b)"
    assert isinstance(item.text_edit, types.TextEdit)
    assert apply(text, item.text_edit.range, item.text_edit.new_text) == f"{FACE} = obj.update(a,\n    b)"


def test_behind_a_long_word_a_list_is_soon_asked_for() -> None:
    text = f"key = '{'c0ffee' * 10_000}', enc"
    params = types.CompletionParams(types.TextDocumentIdentifier(URI), types.Position(0, len(text)))
    begun = time.process_time()
    asked = listed_position(documents(text), params)
    assert time.process_time() - begun < 1
    assert asked is not None
    assert asked.kept == "enc"


def test_a_listed_item_that_begins_with_a_line_end_has_a_label_and_can_be_found() -> None:
    params = types.CompletionParams(types.TextDocumentIdentifier(URI), types.Position(0, 7))
    asked = listed_position(documents("if a b:"), params)
    assert asked is not None
    item = listed_item(asked, "\n    pass", 1)
    assert (item.label, item.filter_text, item.documentation) == ("pass", "pass", None)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_edit_brings_the_line_ends_of_its_line(end: str) -> None:
    text = f"x{end}  {FACE} = f({FACE}{end}y\n"
    params = types.CompletionParams(types.TextDocumentIdentifier(URI), types.Position(1, 11))
    asked = listed_position(documents(text), params)
    assert asked is not None
    item = listed_item(asked, "1,\n    2)", 1)
    assert isinstance(item.text_edit, types.TextEdit)
    assert (
        apply(text, item.text_edit.range, item.text_edit.new_text) == f"x{end}  {FACE} = f({FACE}1,{end}    2){end}y\n"
    )
    assert item.documentation == "1,\n    2)"
    asked = inline_position(documents(text), inline_params(1, 11))
    assert asked is not None
    assert asked.place.text == f"x\n  {FACE} = f({FACE}\ny\n"
    assert inline_item(asked, "1,\n    2)", 1).insert_text == f"1,{end}    2)"
    assert bare_inline_item(asked, "1,\n    2)", 1).insert_text == "1,\n    2)"


def test_a_document_of_one_line_has_bare_line_ends() -> None:
    document = documents("x").opened(URI)
    assert document is not None
    assert document.newline(0) == "\n"


@pytest.mark.parametrize(("line", "end"), [(0, "\n"), (1, "\r\n"), (2, "\r"), (3, "\r")])
def test_a_document_of_several_line_ends_keeps_that_of_the_line(line: int, end: str) -> None:
    document = documents("a\nb\r\nc\rd").opened(URI)
    assert document is not None
    assert document.newline(line) == end


def test_a_long_label_is_cut() -> None:
    params = types.CompletionParams(types.TextDocumentIdentifier(URI), types.Position(0, 0))
    asked = listed_position(documents(""), params)
    assert asked is not None
    item = listed_item(asked, "x" * 99, 1)
    assert item.label == "x" * 60 + "…"
    assert item.documentation == "x" * 99


def test_a_change_makes_what_was_asked_stale() -> None:
    opened = documents("a")
    asked = inline_position(opened, inline_params(0, 1))
    assert asked is not None
    assert not asked.is_stale
    change = types.TextDocumentContentChangeWholeDocument("ab")
    opened.update_text_document(types.VersionedTextDocumentIdentifier(2, URI), change)
    assert asked.is_stale
