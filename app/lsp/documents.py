"""The editor's open documents, with lines counted as the protocol does."""

import re
from collections.abc import Sequence
from pathlib import PurePath

from lsprotocol import types
from pygls.uris import to_fs_path
from pygls.workspace import PositionCodec, ServerTextPosition, TextDocument, Workspace

_LINE_STARTS = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")


def split_lines(text: str) -> tuple[str, ...]:
    r"""Return the lines with their ends; a text that ends with a line end has an empty last line.

    Only \n, \r\n and \r end a line in the protocol. `str.splitlines` also splits at form feeds and other separators,
    and every edit after one would go to the wrong line.
    """
    if text.count("\r") != text.count("\r\n"):
        return tuple(_LINE_STARTS.split(text))
    # Much faster for files with only \n: a long file is split at each key.
    *lines, last = text.split("\n")
    return (*(f"{line}\n" for line in lines), last)


class Columns(PositionCodec):
    """Converts the editor's columns to characters and back; positions outside move to the nearest valid one."""

    def position_from_client_units(self, lines: Sequence[str], position: types.Position) -> ServerTextPosition:
        """Return an editor's position with its column in characters."""
        if position.line >= len(lines):
            return ServerTextPosition(len(lines) - 1, len(_bare(lines[-1])))
        line = _bare(lines[position.line])
        return ServerTextPosition(position.line, len(self._begin(line, position.character)))

    def _begin(self, line: str, units: int) -> str:
        if self.encoding == types.PositionEncodingKind.Utf32:
            return line[:units]
        if self.encoding == types.PositionEncodingKind.Utf8:
            return line.encode()[:units].decode(errors="ignore")
        return line.encode("utf-16-le")[: 2 * units].decode("utf-16-le", errors="ignore")


class Document(TextDocument):
    """A document with lines as the editor counts them."""

    edited = 0
    """The last changed line."""
    _split: tuple[str, tuple[str, ...]] = "", ("",)
    """A text with its lines, cached: each position of a message needs them."""

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the lines with their ends."""
        text = self.source
        # Not cached by version: one message may hold several changes, each with columns of the text after the previous
        # one.
        if self._split[0] is not text:
            self._split = text, split_lines(text)
        return self._split[1]

    def newline(self, line: int) -> str:
        r"""Return the line end of a line or, for the last line, of the one before; \n for a single line."""
        for near in (line, line - 1):
            if 0 <= near < len(self.lines) and (end := self.lines[near][len(_bare(self.lines[near])) :]):
                return end
        return "\n"

    @property
    def text(self) -> str:
        r"""Return the text with \n for every line end; line and column stay those of the editor."""
        return self.source.replace("\r\n", "\n").replace("\r", "\n")


class Documents(Workspace):
    """The open documents of one editor."""

    def __init__(
        self, root_uri: str | None, folders: Sequence[types.WorkspaceFolder], encoding: types.PositionEncodingKind | str
    ) -> None:
        super().__init__(root_uri, types.TextDocumentSyncKind.Incremental, folders, encoding)
        self._position_codec = Columns(encoding)

    def opened(self, uri: str) -> Document | None:
        """Return an open document; None for one that the editor has not opened, even if the file exists."""
        document = self.get_text_document(uri)
        return document if isinstance(document, Document) and document.version is not None else None

    def name(self, uri: str) -> str:
        """Return a document's path within its workspace folder, else the whole path.

        With several folders, it begins with the folder's name, which distinguishes equal paths.
        """
        path = to_fs_path(uri)
        if path is None:
            return uri.rpartition(":")[2]
        paths = filter(None, (self.root_path, *(to_fs_path(one.uri) for one in self.folders.values())))
        folders = [*dict.fromkeys(map(PurePath, paths))]
        for folder in folders:
            if PurePath(path).is_relative_to(folder):
                return PurePath(path).relative_to(folder.parent if len(folders) > 1 else folder).as_posix()
        return path

    def put_text_document(self, text_document: types.TextDocumentItem, notebook_uri: str | None = None) -> None:
        """Add an opened document."""
        text_document.text = _clean(text_document.text)
        super().put_text_document(text_document, notebook_uri)

    def update_text_document(
        self, text_doc: types.VersionedTextDocumentIdentifier, change: types.TextDocumentContentChangeEvent
    ) -> None:
        """Apply a change; ignore one to a document that was not opened."""
        if self.opened(text_doc.uri) is not None:
            change.text = _clean(change.text)
            super().update_text_document(text_doc, change)

    def _create_text_document(
        self, doc_uri: str, source: str | None = None, version: int | None = None, language_id: str | None = None
    ) -> Document:
        return Document(doc_uri, source, version, language_id, position_codec=self._position_codec)


def _bare(line: str) -> str:
    return line.rstrip("\r\n")


def _clean(text: str) -> str:
    """Return a text without halves of surrogate pairs: JSON can hold them, and no tokenizer can read them."""
    return text.encode("utf-8", "replace").decode()
