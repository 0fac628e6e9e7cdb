"""A thousand keys at the speed of the wire: nothing waits in a line, and nothing is shown that is out of date."""

import asyncio
import random
from collections.abc import Iterator

import pytest
from lsp_editor import AUTOMATIC, Editor
from lsprotocol import types
from pygls.exceptions import JsonRpcException

KEYS = 1000
URI = "file:///src/typed.py"
LONG = "file:///src/long.py"


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    editor = Editor(tmp_path_factory.mktemp("home"))
    yield editor
    editor.kill()


def request(column: int) -> tuple[str, object]:
    here = {"line": 0, "character": column}
    params = {"textDocument": {"uri": LONG}, "position": here, "context": {"triggerKind": 1}}
    return "textDocument/inlineCompletion", params


class Typist:
    """Types and deletes in one document, asks after each key, and writes down every answer."""

    def __init__(self, editor: Editor, seed: int) -> None:
        self.editor = editor
        self.random = random.Random(seed)
        self.lines = ["def first(a, b):", "    return a + b", "", "def second(c):", "    "]
        self.column = 4
        self.answered: list[int] = []
        self.shown: list[int] = []
        self.refused: list[int] = []

    async def press(self) -> None:
        line = len(self.lines) - 1
        kind = self.random.random()
        if kind < 0.1 and self.column > 4:
            where = types.Range(types.Position(line, self.column - 1), types.Position(line, self.column))
            self.editor.change(where, "", URI)
            self.column -= 1
        elif kind < 0.15 and line < 60:
            self.editor.type(line, self.column, "\n    ", URI)
            self.lines.append("    ")
            self.column = 4
        else:
            self.editor.type(line, self.column, self.random.choice("abc ("), URI)
            self.column += 1

    async def ask(self, number: int) -> None:
        line, column = len(self.lines) - 1, self.column
        try:
            items = await self.editor.inline(line, column, AUTOMATIC, uri=URI)
        except JsonRpcException as refused:
            self.refused.append(refused.code)
            items = ()
        self.answered.append(number)
        if items:
            here = types.Position(line, column)
            assert items[0].range == types.Range(here, here)
            self.shown.append(number)

    async def run(self) -> None:
        tasks = []
        for number in range(KEYS):
            await self.press()
            tasks.append(asyncio.ensure_future(self.ask(number)))
            if self.random.random() < 0.05:
                await tasks[-1]  # a moment of thought
            else:
                await asyncio.sleep(self.random.choice([0.0, 0.001, 0.003]))
        await asyncio.gather(*tasks)


def test_a_thousand_keys(editor: Editor) -> None:
    editor.start({"debounce_ms": 4, "max_tokens": 6, "time_limit_ms": 60_000, "context": 4096})
    typist = Typist(editor, seed=7)
    editor.open("\n".join(typist.lines), URI)
    editor.run(typist.run())
    # Each was answered, and the answers came in order: when one came, none before it was still in a line.
    assert typist.answered == list(range(KEYS))
    # Nothing is shown after the answer to something newer.
    assert typist.shown == sorted(typist.shown)
    assert typist.shown[-1] == KEYS - 1
    # This editor cancels nothing: what is out of date is answered with nothing.
    assert typist.refused == []
    assert 10 < len(typist.shown) < KEYS / 2
    assert editor.messages == []


def test_a_long_answer_is_cancelled_while_it_is_given(editor: Editor) -> None:
    editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams({"max_tokens": 4000}))
    editor.open("x = ", LONG)

    async def story() -> int:
        asked = asyncio.ensure_future(editor.refused(*request(4)))
        # The engine is busy by now, and has seconds to go.
        await asyncio.sleep(0.3)
        editor.client.cancel_request(types.CancelParams("mine"))
        return await asked

    assert editor.run(story()) == types.LSPErrorCodes.RequestCancelled
    editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams({"max_tokens": 3}))
    [item] = editor.run(editor.inline(0, 3, uri=LONG))
    assert len(item.insert_text) == 3
    assert [one.value["kind"] for one in editor.progress].count("end") == 1, "nothing was loaded again"
    assert editor.leave() == 0
