"""Handlers of the editor's messages."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from app import __version__
from app.complete.completer import Completion
from app.complete.settings import Limits
from app.lsp.documents import Document, Documents
from app.lsp.editor import Editor
from app.lsp.latest import Latest
from app.lsp.loaded import Models
from app.lsp.positions import (
    ACCEPTED,
    CompletionPosition,
    bare_inline_item,
    inline_item,
    inline_position,
    listed_item,
    listed_position,
)
from app.lsp.protocol import Protocol
from app.lsp.settings import SECTION, Settings, with_changes, with_settings
from models.errors import LocalspecError

_log = logging.getLogger("localspec.lsp")
Item = TypeVar("Item")
_PATIENCE = 8.0
"""Seconds that a request waits for a load, because no editor repeats it. Emacs gives up after ten."""

_ENDS_LINES = frozenset({"Neovim"})
"""Editors that would keep a carriage return as a character of the text."""


class Server(LanguageServer):
    """A language server that only completes at the cursor."""

    protocol: Protocol

    def __init__(self, make_models: Callable[[Editor], Models], settings: Settings) -> None:
        """Take the models and the settings of the command line."""
        super().__init__("localspec", __version__, protocol_cls=Protocol)
        self.editor = Editor(self)
        self.models = make_models(self.editor)
        self.settings = settings
        self._start = settings
        self._wrong: list[str] = []
        self._latest = Latest()
        self._turn = asyncio.Lock()
        """Lock for the two requests that an editor sends per key if it shows lists and inline completions.

        The second request mostly finds the result of the first in memory.
        """
        self._position: CompletionPosition | None = None
        self.ends_lines = False
        """Whether the editor inserts the document's line ends itself."""
        self._shown: tuple[int, Completion | None] = (0, None)
        for method, handler in _HANDLERS.items():
            self.feature(method)(handler)
        self.feature(types.TEXT_DOCUMENT_INLINE_COMPLETION, types.InlineCompletionOptions())(inline)
        self.command(ACCEPTED)(accepted)

    @property
    def documents(self) -> Documents:
        """The open documents."""
        documents = self.workspace
        assert isinstance(documents, Documents)
        return documents

    def begin(self, params: types.InitializeParams) -> None:
        """Read the editor's initial settings, and choose the capabilities to offer."""
        self._start, self._wrong = with_settings(self.settings, params.initialization_options)
        self.settings = self._start
        self.ends_lines = params.client_info is not None and params.client_info.name in _ENDS_LINES
        texts = params.capabilities.text_document
        knows_inline = texts is not None and texts.inline_completion is not None
        if self.settings.completion == "on" or (self.settings.completion == "auto" and not knows_inline):
            options = types.CompletionOptions(trigger_characters=[*self.settings.trigger] or None)
            self.feature(types.TEXT_DOCUMENT_COMPLETION, options)(listed)

    def load(self) -> None:
        """Load the models of the settings, and report errors in them."""
        for sentence in self._wrong:
            self.editor.warn(sentence)
        self.models.use(self.settings, self.documents)

    def change(self, given: object) -> None:
        """Replace the settings that the editor gave while running."""
        self._latest.call_off()
        self.settings, self._wrong = with_changes(self._start, given)
        self.editor.forget()
        self.load()

    async def completed(
        self,
        position: CompletionPosition | None,
        pause: float,
        item: Callable[[CompletionPosition, str, int], Item],
        patience: float = 0.0,
    ) -> list[Item]:
        """Return one item, or none: for no text worth showing, no model, or a newer request.

        Waits `pause` seconds first, because further typing makes a new request; waits for a loading model at most
        `patience` seconds.
        """
        if position is None:
            self._latest.call_off()
            return []
        self._position = position
        completion = await self._latest.run(self._complete(position, pause, patience), item)
        if completion is None or not completion.text or position.is_stale:
            return []
        self._shown = self._shown[0] + 1, completion
        self._prefetch(completion)
        return [item(position, completion.text, self._shown[0])]

    def accept(self, number: int) -> None:
        """Start the completion after an accepted one."""
        last, completion = self._shown
        if number == last and completion is not None:
            self._prefetch(completion)

    def call_off(self, uri: str) -> Document | None:
        """Cancel work on a document whose text has changed; return the document."""
        document = self.documents.opened(uri)
        if self._position is not None and self._position.document.uri == uri:
            self._latest.call_off()
            self._position = None
        return document

    def report_server_error(self, error: Exception, source: object) -> None:
        """Log type and place of an error in a handler; its message may quote the user's text."""
        data = getattr(error, "data", None)
        where = "".join(data.get("traceback", ())) if isinstance(data, dict) else ""
        kind = str(error).split(":", 1)[0] if where else type(error).__name__
        _log.error("%s (%s)\n%s", kind, getattr(source, "__name__", source), where)

    async def _complete(self, position: CompletionPosition, pause: float, patience: float) -> Completion | None:
        completer, limits = await self.models.ready(patience), self._limits()
        if completer is None:
            return None
        # A typed-along completion is known at once; only the model waits for a pause in typing.
        if (known := completer.known(position.place, limits)) is not None:
            return known
        await asyncio.sleep(pause)
        async with self._turn:
            if (completer := self.models.completer) is None:
                return None
            try:
                return await completer.complete(position.place, limits)
            except LocalspecError as error:
                self.editor.fail(error)
                return None

    def _limits(self) -> Limits:
        settings = self.settings
        seconds = settings.time_limit_ms / 1000
        return Limits(tokens=settings.max_tokens, lines=settings.max_lines or None, seconds=seconds)

    def _prefetch(self, completion: Completion) -> None:
        if self.settings.prefetch and self.models.completer is not None:
            self.models.completer.prefetch(completion)


def initialize(server: Server, params: types.InitializeParams) -> None:
    """Answer the first message."""
    server.begin(params)


def initialized(server: Server, _: types.InitializedParams) -> None:
    """Start loading; requests are possible from now on."""
    workspace = server.client_capabilities.workspace
    change = workspace and workspace.did_change_configuration
    if change and change.dynamic_registration:
        options = types.DidChangeConfigurationRegistrationOptions(SECTION)
        wanted = types.Registration("settings", types.WORKSPACE_DID_CHANGE_CONFIGURATION, options)
        server.client_register_capability(types.RegistrationParams([wanted]))
    server.load()


async def reconfigured(server: Server, params: types.DidChangeConfigurationParams) -> None:
    """Take changed settings; if the editor sends none, ask for them."""
    given, workspace = params.settings, server.client_capabilities.workspace
    if given is None and workspace and workspace.configuration:
        wanted = types.ConfigurationParams([types.ConfigurationItem(section=SECTION)])
        try:
            given = next(iter(await server.workspace_configuration_async(wanted)), None)
        except JsonRpcException:
            return
    server.change(given)


def opened(server: Server, params: types.DidOpenTextDocumentParams) -> None:
    """Note the opened document."""
    if (document := server.documents.opened(params.text_document.uri)) and (completer := server.models.completer):
        completer.visited(server.documents.name(document.uri), document.text, 0)


def changed(server: Server, params: types.DidChangeTextDocumentParams) -> None:
    """Cancel completions of the old text, and note the changed line."""
    document, completer = server.call_off(params.text_document.uri), server.models.completer
    if document and completer and params.content_changes:
        last = params.content_changes[-1]
        document.edited = last.range.start.line if isinstance(last, types.TextDocumentContentChangePartial) else 0
        completer.edited(server.documents.name(document.uri), document.text, document.edited)


def saved(server: Server, params: types.DidSaveTextDocumentParams) -> None:
    """Note the saved document."""
    if (document := server.documents.opened(params.text_document.uri)) and (completer := server.models.completer):
        completer.visited(server.documents.name(document.uri), document.text, document.edited)


def closed(server: Server, params: types.DidCloseTextDocumentParams) -> None:
    """Cancel work on a closed document."""
    server.call_off(params.text_document.uri)
    if completer := server.models.completer:
        completer.closed(server.documents.name(params.text_document.uri))


async def inline(server: Server, params: types.InlineCompletionParams) -> types.InlineCompletionList:
    """Return the text to show at the cursor: at once for an explicit request, else after a pause in typing."""
    automatic = params.context.trigger_kind is types.InlineCompletionTriggerKind.Automatic
    pause = server.settings.debounce_ms / 1000 if automatic else 0.0
    position = inline_position(server.documents, params)
    item = bare_inline_item if server.ends_lines else inline_item
    return types.InlineCompletionList(await server.completed(position, pause, item, _PATIENCE))


async def listed(server: Server, params: types.CompletionParams) -> types.CompletionList:
    """Return one item for a list; the editor must ask again when the user types on."""
    context = params.context
    by_character = context is not None and context.trigger_kind is types.CompletionTriggerKind.TriggerCharacter
    if by_character and context is not None and context.trigger_character not in server.settings.trigger:
        return types.CompletionList(is_incomplete=False, items=[])
    position = listed_position(server.documents, params)
    # Editors send "invoked" for typed keys too. Emacs blocks until the answer, so it does not wait for a load.
    items = await server.completed(position, server.settings.debounce_ms / 1000, listed_item)
    return types.CompletionList(is_incomplete=True, items=items)


def accepted(server: Server, number: int) -> None:
    """Note that an item was accepted."""
    server.accept(number)


_HANDLERS: dict[str, Callable[..., Awaitable[object] | None]] = {
    types.INITIALIZE: initialize,
    types.INITIALIZED: initialized,
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: reconfigured,
    types.TEXT_DOCUMENT_DID_OPEN: opened,
    types.TEXT_DOCUMENT_DID_CHANGE: changed,
    types.TEXT_DOCUMENT_DID_SAVE: saved,
    types.TEXT_DOCUMENT_DID_CLOSE: closed,
}
