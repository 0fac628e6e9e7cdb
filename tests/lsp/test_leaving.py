"""How it ends: in order, without a word, or in the middle of something; the process never stays."""

import asyncio
import os
from collections.abc import Iterator

import pytest
from lsp_editor import INVOKED, Editor
from lsprotocol import types

ENDLESS = {"max_tokens": 4000, "time_limit_ms": 600_000, "context": 8192, "completion": "off"}
URI = "file:///src/a.py"


@pytest.fixture
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    editor = Editor(tmp_path_factory.mktemp("home"))
    yield editor
    editor.kill()


def begun(editor: Editor) -> asyncio.Future[object]:
    """Ask for something long, and return when the engine is at it."""

    async def story() -> asyncio.Future[object]:
        context = types.InlineCompletionContext(INVOKED)
        params = types.InlineCompletionParams(context, types.TextDocumentIdentifier(URI), types.Position(0, 4))
        asked = editor.client.protocol.send_request_async("textDocument/inlineCompletion", params)
        waiting = asyncio.ensure_future(asked)
        await asyncio.sleep(0.3)
        assert not waiting.done()
        return waiting

    editor.start(ENDLESS)
    editor.open("x = ")
    return editor.run(story())


def test_in_order_while_it_loads(editor: Editor) -> None:
    editor.initialize(ENDLESS)
    assert editor.leave() == 0


def test_in_order_while_it_answers(editor: Editor) -> None:
    waiting = begun(editor)
    assert editor.leave() == 0
    waiting.cancel()


def test_without_a_word_while_it_answers(editor: Editor) -> None:
    waiting = begun(editor)
    editor.client.exit(None)
    assert editor.gone() == 1
    waiting.cancel()


def test_an_editor_that_dies_while_it_answers(editor: Editor) -> None:
    waiting = begun(editor)
    assert editor.process.stdin is not None
    editor.process.stdin.close()
    assert editor.gone() == 1
    waiting.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(editor.process.pid, 0)


def test_an_editor_that_dies_while_it_loads(editor: Editor) -> None:
    editor.initialize(ENDLESS)
    assert editor.process.stdin is not None
    editor.process.stdin.close()
    assert editor.gone() == 1
