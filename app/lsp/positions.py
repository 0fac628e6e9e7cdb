"""Positions of requested completions, and the items that answer them."""

import re
from dataclasses import dataclass

from lsprotocol import types
from pygls.workspace import ServerTextPosition

from app.complete.place import CursorPosition
from app.lsp.documents import Document, Documents

ACCEPTED = "localspec.accepted"
"""The command that an editor sends after an item was accepted."""
# From the word's beginning: otherwise each letter of a long word would be tried as a start.
_WORD = re.compile(r"(?<!\w)\w*\Z")
_LABEL = 60


@dataclass(frozen=True, slots=True)
class CompletionPosition:
    """A position to complete at, with the text at the time of the request."""

    document: Document
    version: int | None
    place: CursorPosition
    replaced: types.Range
    """The range that an item replaces, in the editor's columns."""
    kept: str = ""
    """The text before the completion that an item begins with."""

    @property
    def is_stale(self) -> bool:
        """Whether the text has changed since the request."""
        return self.document.version != self.version


def inline_position(documents: Documents, params: types.InlineCompletionParams) -> CompletionPosition | None:
    """Return the position of an inline request; None if no completion is possible there.

    While a list of completions is open, the position is after the selected one: an item has to extend that text.
    """
    document = documents.opened(params.text_document.uri)
    if document is None:
        return None
    name, selected = documents.name(document.uri), params.context.selected_completion_info
    if selected is None:
        return _at(document, name, document.position_from_client_units(params.position))
    start, end = (document.position_from_client_units(one) for one in (selected.range.start, selected.range.end))
    if start.line != end.line or not start <= document.position_from_client_units(params.position) <= end:
        return None
    text = document.text
    before, after = text[: _offset(text, start)], text[_offset(text, end) :]
    place = CursorPosition.between(name, before + selected.text, after)
    return CompletionPosition(document, document.version, place, selected.range, selected.text)


def listed_position(documents: Documents, params: types.CompletionParams) -> CompletionPosition | None:
    """Return the position of a plain request: after the word being written, with which its item begins.

    Editors compare items with that word, and hide items that don't begin with it.
    """
    document = documents.opened(params.text_document.uri)
    if document is None:
        return None
    position = document.position_from_client_units(params.position)
    where = _at(document, documents.name(document.uri), position)
    found = _WORD.search(where.place.behind)
    word = found.group() if found else ""
    start = document.position_to_client_units(ServerTextPosition(position.line, position.character - len(word)))
    return CompletionPosition(document, where.version, where.place, types.Range(start, where.replaced.end), word)


def inline_item(where: CompletionPosition, text: str, number: int) -> types.InlineCompletionItem:
    """Return an inline item with the line ends of the document."""
    whole = _with_ends(where, where.kept + text)
    return types.InlineCompletionItem(whole, range=where.replaced, command=_accepted(number))


def bare_inline_item(where: CompletionPosition, text: str, number: int) -> types.InlineCompletionItem:
    r"""Return an inline item with bare newlines.

    Neovim inserts line ends itself, and would keep each \r as a character of the text.
    """
    return types.InlineCompletionItem(where.kept + text, range=where.replaced, command=_accepted(number))


def listed_item(where: CompletionPosition, text: str, number: int) -> types.CompletionItem:
    """Return a list item: an edit, which needs the line ends of the document."""
    whole = where.kept + text
    first = next((line.strip() for line in whole.split("\n") if line.strip()), "")
    more = len(first) > _LABEL or "\n" in whole.strip()
    return types.CompletionItem(
        label=first[:_LABEL] + "…" * more,
        kind=types.CompletionItemKind.Text,
        detail="localspec",
        documentation=whole if more else None,
        filter_text=whole.split("\n", 1)[0] or first,
        insert_text_format=types.InsertTextFormat.PlainText,
        insert_text_mode=types.InsertTextMode.AsIs,
        text_edit=types.TextEdit(where.replaced, _with_ends(where, whole)),
        command=_accepted(number),
    )


def _with_ends(where: CompletionPosition, text: str) -> str:
    return text.replace("\n", where.document.newline(where.replaced.start.line))


def _at(document: Document, name: str, position: ServerTextPosition) -> CompletionPosition:
    cursor = document.position_to_client_units(position)
    place = CursorPosition(name, document.text, position.line, position.character)
    return CompletionPosition(document, document.version, place, types.Range(cursor, cursor))


def _offset(text: str, position: ServerTextPosition) -> int:
    start = 0
    for _ in range(position.line):
        start = text.index("\n", start) + 1
    return start + position.character


def _accepted(number: int) -> types.Command:
    return types.Command("localspec: accepted", ACCEPTED, arguments=[number])
