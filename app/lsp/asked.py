"""Where a completion is asked for, and the items that answer."""

import re
from dataclasses import dataclass

from lsprotocol import types
from pygls.workspace import ServerTextPosition

from app.complete.place import Place
from app.lsp.documents import Document, Documents

ACCEPTED = "localspec.accepted"
"""The command that an editor sends back when an item was taken."""
# From its beginning on: each other letter of a long word in the line would be tried as one.
_WORD = re.compile(r"(?<!\w)\w*\Z")
_LABEL = 60


@dataclass(frozen=True, slots=True)
class Asked:
    """A place to complete at, in the text as it was when it was asked for."""

    document: Document
    version: int | None
    place: Place
    replaced: types.Range
    """What an item takes the place of, in the editor's columns."""
    kept: str = ""
    """What an item begins with, before what is said at the place."""

    @property
    def is_stale(self) -> bool:
        """Whether the text has changed since."""
        return self.document.version != self.version


def asked_inline(documents: Documents, params: types.InlineCompletionParams) -> Asked | None:
    """Return where an inline completion is wanted; None for where none can be.

    While a list of completions is open, it is behind the selected one: an item has to extend what that would write.
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
    place = Place.between(name, before + selected.text, after)
    return Asked(document, document.version, place, selected.range, selected.text)


def asked_listed(documents: Documents, params: types.CompletionParams) -> Asked | None:
    """Return where a plain completion is wanted: behind the word that is being written, which an item begins with.

    Editors compare items with that word, and hide those that don't begin with it.
    """
    document = documents.opened(params.text_document.uri)
    if document is None:
        return None
    position = document.position_from_client_units(params.position)
    asked = _at(document, documents.name(document.uri), position)
    found = _WORD.search(asked.place.behind)
    word = found.group() if found else ""
    start = document.position_to_client_units(ServerTextPosition(position.line, position.character - len(word)))
    return Asked(document, asked.version, asked.place, types.Range(start, asked.replaced.end), word)


def inline_item(asked: Asked, text: str, number: int) -> types.InlineCompletionItem:
    """Return the item that shows a completion in the text, with the line ends of the document."""
    whole = _with_ends(asked, asked.kept + text)
    return types.InlineCompletionItem(whole, range=asked.replaced, command=_accepted(number))


def bare_inline_item(asked: Asked, text: str, number: int) -> types.InlineCompletionItem:
    r"""Return the same with \n at the end of each line.

    Neovim ends the lines itself, and would keep each \r as a character of the text.
    """
    return types.InlineCompletionItem(asked.kept + text, range=asked.replaced, command=_accepted(number))


def listed_item(asked: Asked, text: str, number: int) -> types.CompletionItem:
    """Return the item that shows a completion in a list: an edit, which has to bring the line ends of the document."""
    whole = asked.kept + text
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
        text_edit=types.TextEdit(asked.replaced, _with_ends(asked, whole)),
        command=_accepted(number),
    )


def _with_ends(asked: Asked, text: str) -> str:
    return text.replace("\n", asked.document.newline(asked.replaced.start.line))


def _at(document: Document, name: str, position: ServerTextPosition) -> Asked:
    cursor = document.position_to_client_units(position)
    place = Place(name, document.text, position.line, position.character)
    return Asked(document, document.version, place, types.Range(cursor, cursor))


def _offset(text: str, position: ServerTextPosition) -> int:
    start = 0
    for _ in range(position.line):
        start = text.index("\n", start) + 1
    return start + position.character


def _accepted(number: int) -> types.Command:
    return types.Command("localspec: accepted", ACCEPTED, arguments=[number])
