"""Hours of typing in a server: what it holds stays what it holds, whatever was typed, asked, shown or called off."""

import asyncio
import gc
import json
import random
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from lsprotocol import types

from app.complete.settings import CompletionSettings
from app.engine.runtime.load import LoadPlan
from app.lsp.loaded import Models
from app.lsp.server import Server
from app.lsp.settings import Settings
from drafters.registry import parse_drafter
from models.llama.load import LlamaOptions

KEYS = 250
"""Between two looks at the memory. Before the first of them all that is kept on purpose fills."""
LOOKS = 4
NOISE = 5_000
"""Bytes by which two looks differ; seen were mostly up to 2,500. Twenty bytes a key are more."""
URI = "file:///src/typed.py"
SETTINGS = Settings(debounce_ms=1, max_tokens=2, time_limit_ms=60_000, context=2048)


class SmallMemory(Models):
    """Models that remember few completions: what is kept on purpose is soon all there is."""

    def _completion(self, settings: Settings) -> CompletionSettings:
        return replace(super()._completion(settings), results=10)


class Typist:
    """Types in a document of some lines in front of a server, and hears its answers."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._random = random.Random(3)
        self._version = self._number = 0
        self._line = self._column = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.shown = self.asked = 0

    def write(self, data: bytes) -> None:
        message = json.loads(data.partition(b"\r\n\r\n")[2])
        if "method" not in message and (waiting := self._waiting.pop(message["id"], None)) is not None:
            waiting.set_result(message["result"])
            self.shown += bool(message["result"] and message["result"].get("items"))

    def send(self, method: str, params: object, number: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        text = json.dumps(message if number is None else {**message, "id": number})
        protocol = self._server.protocol
        protocol.handle_message(json.loads(text, object_hook=protocol.structure_message))

    def ask(self, method: str, params: object) -> asyncio.Future[Any]:
        self._number += 1
        answer = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        self.send(method, params, self._number)
        return answer

    async def begin(self) -> None:
        capabilities = {"textDocument": {"inlineCompletion": {}}}
        await self.ask("initialize", {"processId": None, "rootUri": "file:///src", "capabilities": capabilities})
        self.send("initialized", {})
        self.send("textDocument/didOpen", {"textDocument": self._document(text="\n" * 9, languageId="python")})
        while self._server.models.completer is None:
            await asyncio.sleep(0.01)

    async def type(self, keys: int) -> None:
        for _ in range(keys):
            self._press()
            answer = self._ask()
            if self._random.random() < 0.2:
                await self._read(answer)
            else:
                await asyncio.sleep(self._random.choice((0.0, 0.0, 0.002)))
        await self._read(answer)
        while self._waiting:
            await asyncio.sleep(0.001)

    def _press(self) -> None:
        """Put in a letter, or take a line of some away and go on in another one."""
        start, text = self._column, self._random.choice("abc (")
        if self._column >= 8:
            start, text = 0, ""
        self._change(start, self._column, text)
        self._column = start + len(text)
        if not text:
            self._line = self._random.randrange(9)

    def _change(self, start: int, end: int, text: str) -> None:
        where = {"start": {"line": self._line, "character": start}, "end": {"line": self._line, "character": end}}
        changes = [{"range": where, "text": text}]
        self.send("textDocument/didChange", {"textDocument": self._document(), "contentChanges": changes})

    def _ask(self) -> asyncio.Future[Any]:
        here = {"line": self._line, "character": self._column}
        kind = types.InlineCompletionTriggerKind.Automatic
        self.asked += 1
        params = {"textDocument": {"uri": URI}, "position": here, "context": {"triggerKind": kind}}
        return self.ask("textDocument/inlineCompletion", params)

    async def _read(self, answer: asyncio.Future[Any]) -> None:
        """Look at what is shown, and take it now and then: the line then is what it was."""
        for item in (await answer)["items"]:
            if self._random.random() < 0.5:
                await self.ask("workspace/executeCommand", item["command"])

    def _document(self, **more: object) -> dict[str, object]:
        self._version += 1
        return {"uri": URI, "version": self._version, **more}


@asynccontextmanager
async def served(memory: Path) -> AsyncIterator[Typist]:
    plan = LoadPlan("toy-fim", parse_drafter("lookup"), LlamaOptions(), memory)
    server = Server(lambda editor: SmallMemory(editor, plan, None), SETTINGS)
    typist = Typist(server)
    server.protocol.set_writer(typist)
    try:
        await typist.begin()
        yield typist
    finally:
        await server.models.close()


async def held() -> int:
    """Return the bytes that Python holds once everything that is over is gone."""
    await asyncio.sleep(0.2)
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_what_is_held_does_not_grow_with_the_keys(tmp_path: Path) -> None:
    async def story() -> list[int]:
        looks = []
        async with served(tmp_path / "memory.json") as typist:
            tracemalloc.start()
            for _ in range(LOOKS):
                await typist.type(KEYS)
                looks.append(await held())
            tracemalloc.stop()
            assert typist.asked == LOOKS * KEYS
            assert KEYS / 10 < typist.shown < LOOKS * KEYS / 2, "some are shown, and more called off"
        return looks

    _, *looks = asyncio.run(story())
    assert grown(looks) < NOISE


def grown(looks: list[int]) -> int:
    """Return the least growth between two looks: what grows with the keys grows each time, a late import once."""
    return min(after - before for before, after in pairwise(looks))


def test_what_grows_with_the_keys_is_told_from_what_grows_once() -> None:
    assert grown([200_000, 216_000, 216_500]) < NOISE
    assert grown([200_000, 200_000 + 20 * KEYS, 200_000 + 40 * KEYS]) >= NOISE
