"""Messages and loading progress for the user of the editor."""

import asyncio
import logging
from uuid import uuid4

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from models.errors import LocalspecError

_log = logging.getLogger("localspec.lsp")


class Editor:
    """Sends messages to the editor; each failure only once."""

    def __init__(self, server: LanguageServer) -> None:
        self._server = server
        self._shown_texts: set[str] = set()

    def fail(self, error: LocalspecError) -> None:
        """Show an error with its cause and hint."""
        _log.warning("%s", error)
        self._show(types.MessageType.Error, " ".join(part for part in (error.title, error.cause, error.hint) if part))

    def warn(self, text: str) -> None:
        """Show a warning."""
        self._show(types.MessageType.Warning, text)

    def note(self, text: str) -> None:
        """Write a line to the editor's log of this server."""
        self._server.window_log_message(types.LogMessageParams(types.MessageType.Info, text))

    def forget(self) -> None:
        """Report known failures again: a change may have fixed them."""
        self._shown_texts.clear()

    def loading(self) -> "Loading":
        """Return the progress display of a load that has begun."""
        window = self._server.client_capabilities.window
        return Loading(self._server, shown=bool(window and window.work_done_progress))

    def _show(self, kind: types.MessageType, text: str) -> None:
        if text not in self._shown_texts:
            self._shown_texts.add(text)
            self._server.window_show_message(types.ShowMessageParams(kind, f"localspec: {text}"))


class Loading:
    """The progress display of a load."""

    def __init__(self, server: LanguageServer, *, shown: bool) -> None:
        self._progress = server.work_done_progress
        self._token = str(uuid4())
        self._begun = False
        self._shown = ("", 0)
        self._ended: str | None = None
        # The load continues meanwhile: an editor that never answers must not block it.
        self._opening = asyncio.ensure_future(self._open()) if shown else None

    def report(self, name: str, share: float | None) -> None:
        """Show the share read so far; it never decreases, as the protocol requires."""
        shown = name, max(self._shown[1], min(100, int(100 * (share or 0))))
        if self._begun and shown != self._shown:
            self._shown = shown
            report = types.WorkDoneProgressReport(message=name, percentage=shown[1])
            self._progress.report(self._token, report)

    def end(self, text: str) -> None:
        """Show the result of the load."""
        self._ended = text
        if self._begun:
            self._progress.end(self._token, types.WorkDoneProgressEnd(message=text))

    async def _open(self) -> None:
        try:
            await self._progress.create_async(self._token)
        except JsonRpcException:
            return  # the editor supports no progress
        begin = types.WorkDoneProgressBegin(title="localspec", message="loading", percentage=0)
        self._progress.begin(self._token, begin)
        self._begun = True
        if self._ended is not None:
            self.end(self._ended)
