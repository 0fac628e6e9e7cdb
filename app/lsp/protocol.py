"""pygls's Language Server Protocol, corrected where the specification requires more."""

from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.protocol import LanguageServerProtocol, lsp_method

from app.lsp.documents import Documents


class Protocol(LanguageServerProtocol):
    """Rejects requests at the wrong time, splits documents into lines, and ends with the editor."""

    on_exit: Callable[[], None]
    """Called when the editor requests the end of the process."""
    _counts_from_0 = False
    """Whether the editor numbers trigger kinds from 0, as VS Code does."""

    @property
    def received_shutdown(self) -> bool:
        """Whether the editor sent `shutdown` before `exit`."""
        return self._shutdown

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        """Return the server's capabilities."""
        steps = super().lsp_initialize(params)
        first = next(steps)  # the workspace exists before the first step, and its handler needs ours
        made = self.workspace
        self._workspace = Documents(made.root_uri, [*made.folders.values()], made.position_encoding or "utf-16")
        yield first
        return (yield from steps)

    @lsp_method(types.EXIT)
    def lsp_exit(self, *_: object) -> Generator[Any, Any, None]:
        """End the process by leaving the loop, so that loaded models are freed."""
        self.on_exit()
        yield from ()

    def _execute_handler(self, msg_id: str | int, *given: Any, **named: Any) -> None:
        """Run a handler, and drop its result.

        pygls keeps the result of each notification for ever: a kilobyte per key.
        """
        super()._execute_handler(msg_id, *given, **named)
        if (future := self._request_futures.get(msg_id)) is not None:
            future.add_done_callback(lambda done: self._let_go(msg_id, done))

    def _let_go(self, msg_id: str | int, done: Future[Any]) -> None:
        if self._request_futures.get(msg_id) is done:
            del self._request_futures[msg_id]

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Return a message as a value; answer an invalid request with an error, because the editor waits."""
        if data.get("method") == types.TEXT_DOCUMENT_INLINE_COMPLETION:
            self._as_specified(data.get("params"))
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if "id" in data and "method" in data:
                self._send_response(data["id"], error=error.to_response_error())
            raise

    def _as_specified(self, params: Any) -> None:
        """Correct two forms of VS Code's client up to version 9: kinds from 0, ranges as pairs."""
        context = params.get("context") if isinstance(params, dict) else None
        if not isinstance(context, dict):
            return
        kind, chosen = context.get("triggerKind"), context.get("selectedCompletionInfo")
        # Until its first 0, its 1 is ambiguous; the only cost is a pause before the first completion.
        self._counts_from_0 |= kind == 0
        if self._counts_from_0 and isinstance(kind, int):
            context["triggerKind"] = kind + 1
        if isinstance(chosen, dict) and isinstance(chosen.get("range"), list):
            chosen["range"] = dict(zip(("start", "end"), chosen["range"], strict=False))

    def handle_message(self, message: Any) -> None:
        """Answer a request at the wrong time with the specified error, and handle all others."""
        if (code := self._untimely(message)) is None:
            super().handle_message(message)
        elif hasattr(message, "id"):
            self._send_response(message.id, error=types.ResponseError(code=code, message=code.name))

    def _untimely(self, message: Any) -> types.ErrorCodes | None:
        method = getattr(message, "method", None)
        if method in (None, types.EXIT):
            return None
        if self._shutdown:
            return types.ErrorCodes.InvalidRequest
        begun = self._workspace is not None
        if begun and method == types.INITIALIZE:
            return types.ErrorCodes.InvalidRequest
        return None if begun or method == types.INITIALIZE else types.ErrorCodes.ServerNotInitialized
