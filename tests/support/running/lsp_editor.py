"""An editor without a screen: the real `localspec lsp --stdio` in a process, and what a person does to it."""

import asyncio
import json
import sys
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient
from run_localspec import ROOT, environment

T = TypeVar("T")
INVOKED = types.InlineCompletionTriggerKind.Invoked
AUTOMATIC = types.InlineCompletionTriggerKind.Automatic
_PATIENCE = 30.0


class Editor:
    """A client with a loop of its own; what the server tells is kept in lists."""

    def __init__(self, home: Path, *flags: str, model: str = "toy-fim") -> None:
        self.runner = asyncio.Runner()
        self.client = LanguageClient("test-editor", "1")
        self.messages: list[types.ShowMessageParams] = []
        self.logged: list[str] = []
        self.progress: list[types.ProgressParams] = []
        self.tokens: list[int | str] = []
        self.registered: list[types.Registration] = []
        self.configuration: object = None
        self.versions: dict[str, int] = {}
        self._listen()
        arguments = ["-m", "app", "lsp", *([model] if model else []), *flags, "--stdio"]
        self.run(self.client.start_io(sys.executable, *arguments, cwd=ROOT, env=environment(home)))

    @property
    def process(self) -> asyncio.subprocess.Process:
        process = self.client._server
        assert process is not None
        return process

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        async def patient() -> T:
            async with asyncio.timeout(_PATIENCE):
                return await work

        return self.runner.run(patient())

    def initialize(
        self,
        options: object = None,
        *,
        encodings: Sequence[str] | None = None,
        inline: bool = True,
        configuration: bool = False,
    ) -> types.InitializeResult:
        """Introduce this editor, and wait for nothing more."""
        texts = types.TextDocumentClientCapabilities(
            inline_completion=types.InlineCompletionClientCapabilities() if inline else None
        )
        capabilities = types.ClientCapabilities(
            text_document=texts,
            window=types.WindowClientCapabilities(work_done_progress=True),
            general=types.GeneralClientCapabilities(position_encodings=encodings),
            workspace=types.WorkspaceClientCapabilities(
                configuration=configuration,
                did_change_configuration=types.DidChangeConfigurationClientCapabilities(
                    dynamic_registration=configuration
                ),
            ),
        )
        params = types.InitializeParams(capabilities, root_uri="file:///src", initialization_options=options)
        answer = self.run(self.client.initialize_async(params))
        self.client.initialized(types.InitializedParams())
        return answer

    def start(self, options: object = None, **capabilities: Any) -> types.InitializeResult:
        """Introduce this editor, and wait until the model is there."""
        answer = self.initialize(options, **capabilities)
        self.wait_for(lambda: any(one.value["kind"] == "end" for one in self.progress))
        return answer

    def open(self, text: str, uri: str = "file:///src/a.py") -> None:
        self.versions[uri] = 1
        item = types.TextDocumentItem(uri, "python", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def change(self, where: types.Range, text: str, uri: str = "file:///src/a.py") -> None:
        self.versions[uri] += 1
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(self.versions[uri], uri),
                [types.TextDocumentContentChangePartial(where, text)],
            )
        )

    def type(self, line: int, column: int, text: str, uri: str = "file:///src/a.py") -> None:
        """Insert a text."""
        here = types.Position(line, column)
        self.change(types.Range(here, here), text, uri)

    async def inline(
        self,
        line: int,
        column: int,
        kind: types.InlineCompletionTriggerKind = INVOKED,
        selected: types.SelectedCompletionInfo | None = None,
        uri: str = "file:///src/a.py",
    ) -> Sequence[types.InlineCompletionItem]:
        params = types.InlineCompletionParams(
            types.InlineCompletionContext(kind, selected),
            types.TextDocumentIdentifier(uri),
            types.Position(line, column),
        )
        result = await self.client.text_document_inline_completion_async(params)
        assert isinstance(result, types.InlineCompletionList)
        return result.items

    async def at_once(self, *messages: tuple[str, object]) -> object:
        """Send messages as they are, right or wrong, in one piece, and return the result of the first, a request."""
        answer: Future[object] = Future()
        self.client.protocol._request_futures["mine"] = answer
        bodies = [{"jsonrpc": "2.0", "method": method, "params": params} for method, params in messages]
        bodies[0]["id"] = "mine"
        packed = [json.dumps(body).encode() for body in bodies]
        stdin = self.process.stdin
        assert stdin is not None
        stdin.write(b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in packed))
        return await asyncio.wrap_future(answer)

    async def refused(self, method: str, params: object) -> int:
        """Send a request as it is, and return the code of the error that answers it."""
        with pytest.raises(JsonRpcException) as error:
            await self.at_once((method, params))
        return error.value.code

    def wait_for(self, what: Any) -> None:
        async def waiting() -> None:
            while not what():
                await asyncio.sleep(0.01)

        self.run(waiting())

    def leave(self) -> int:
        """Shut down in order, and return the exit code."""
        self.run(self.client.shutdown_async(None))
        self.client.exit(None)
        return self.gone()

    def gone(self) -> int:
        """Wait for the end of the process, and return its exit code."""
        code = self.run(self.process.wait())
        self.run(self.client.stop())
        self.run(self._close_pipes())
        self.runner.close()
        return code

    async def _close_pipes(self) -> None:
        # asyncio closes them in later turns of the loop, and none would come.
        self.process._transport.close()  # type: ignore[attr-defined]
        for _ in range(3):
            await asyncio.sleep(0)

    def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
            self.gone()

    def _listen(self) -> None:
        client = self.client

        @client.feature(types.WINDOW_SHOW_MESSAGE)
        def shown(params: types.ShowMessageParams) -> None:
            self.messages.append(params)

        @client.feature(types.WINDOW_LOG_MESSAGE)
        def logged(params: types.LogMessageParams) -> None:
            self.logged.append(params.message)

        @client.feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)
        def created(params: types.WorkDoneProgressCreateParams) -> None:
            self.tokens.append(params.token)

        @client.feature(types.PROGRESS)
        def progressed(params: types.ProgressParams) -> None:
            self.progress.append(params)

        @client.feature(types.CLIENT_REGISTER_CAPABILITY)
        def registered(params: types.RegistrationParams) -> None:
            self.registered.extend(params.registrations)

        @client.feature(types.WORKSPACE_CONFIGURATION)
        def configured(params: types.ConfigurationParams) -> list[object]:
            return [self.configuration for _ in params.items]
