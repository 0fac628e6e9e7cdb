"""The real process with a real client: what an editor sees from the first message to the end of the process."""

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from lsp_editor import AUTOMATIC, INVOKED, Editor
from lsprotocol import types
from pygls.exceptions import JsonRpcException

URI = "file:///src/a.py"
FACE = "\N{GRINNING FACE}"
SETTINGS = {"debounce_ms": 500, "max_tokens": 8, "time_limit_ms": 60_000, "prefetch": True}


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    editor = Editor(tmp_path_factory.mktemp("home"))
    try:
        editor.start({"localspec": {**SETTINGS, "debounceMs": 1}})
        yield editor
        assert editor.leave() == 0
    finally:
        editor.kill()


@pytest.fixture
def another(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    editor = Editor(tmp_path_factory.mktemp("home"), model=getattr(request, "param", "toy-fim"))
    yield editor
    editor.kill()


def inserted(items: Sequence[types.InlineCompletionItem]) -> str:
    [item] = items
    assert isinstance(item.insert_text, str)
    assert item.insert_text
    return item.insert_text


def test_an_editor_sees_the_load_and_is_told_of_a_setting_that_is_none(editor: Editor) -> None:
    assert editor.progress[0].value["kind"] == "begin"
    assert editor.progress[-1].value["kind"] == "end"
    assert {one.token for one in editor.progress} == set(editor.tokens)
    assert "toy-0" in editor.progress[-1].value["message"]
    [warning] = editor.messages
    assert warning.type is types.MessageType.Warning
    assert "debounceMs" in warning.message
    assert "'debounce_ms'" in warning.message


def test_an_item_goes_to_the_cursor_behind_wide_characters(editor: Editor) -> None:
    editor.open(f"x = '{FACE}'; y = \nz")
    items = editor.run(editor.inline(0, 14, INVOKED))
    assert inserted(items)
    here = types.Position(0, 14)
    assert items[0].range == types.Range(here, here)
    assert items[0].command is not None
    done = types.ExecuteCommandParams(items[0].command.command, items[0].command.arguments)
    assert editor.run(editor.client.workspace_execute_command_async(done)) is None


def test_what_was_typed_along_belongs_to_the_new_text(editor: Editor) -> None:
    editor.open("def f(a, b):\n    c =")
    first = inserted(editor.run(editor.inline(1, 7)))
    editor.type(1, 7, first[:3])
    assert inserted(editor.run(editor.inline(1, 10))) == first[3:]
    editor.change(types.Range(types.Position(1, 7), types.Position(1, 10)), "zz")
    items = editor.run(editor.inline(1, 9))
    assert items[0].range == types.Range(types.Position(1, 9), types.Position(1, 9))


def test_an_item_extends_what_is_selected_in_a_list(editor: Editor) -> None:
    editor.open("a.app")
    where = types.Range(types.Position(0, 2), types.Position(0, 5))
    items = editor.run(editor.inline(0, 5, selected=types.SelectedCompletionInfo(where, "append")))
    assert inserted(items).startswith("append")
    assert len(inserted(items)) > len("append")
    assert items[0].range == where


def test_a_file_that_was_closed_or_never_opened_gets_nothing(editor: Editor) -> None:
    editor.open("a", uri="file:///src/gone.py")
    closing = types.DidCloseTextDocumentParams(types.TextDocumentIdentifier("file:///src/gone.py"))
    editor.client.text_document_did_close(closing)
    assert editor.run(editor.inline(0, 1, uri="file:///src/gone.py")) == ()
    assert editor.run(editor.inline(0, 0, uri="file:///src/never.py")) == ()


def test_a_cancelled_request_is_answered_as_cancelled_at_once(editor: Editor) -> None:
    editor.open("cancel me ")

    async def story() -> JsonRpcException:
        context = types.InlineCompletionContext(AUTOMATIC)
        here = types.Position(0, 10)
        params = types.InlineCompletionParams(context, types.TextDocumentIdentifier(URI), here)
        asked = editor.client.protocol.send_request_async("textDocument/inlineCompletion", params, msg_id="mine")
        editor.client.cancel_request(types.CancelParams("mine"))
        with pytest.raises(JsonRpcException) as refused:
            await asked
        return refused.value

    assert editor.run(story()).code == types.LSPErrorCodes.RequestCancelled


def test_the_newer_request_is_answered_and_the_older_gets_nothing(editor: Editor) -> None:
    editor.open("one two ")

    async def story() -> tuple[Sequence[types.InlineCompletionItem], Sequence[types.InlineCompletionItem]]:
        older = asyncio.ensure_future(editor.inline(0, 4, AUTOMATIC))
        newer = asyncio.ensure_future(editor.inline(0, 8))
        return await older, await newer

    older, newer = editor.run(story())
    assert older == ()
    assert inserted(newer)


def test_a_key_that_comes_in_one_piece_with_a_request_calls_it_off(editor: Editor) -> None:
    editor.open("typing")
    here = {"line": 0, "character": 6}
    asked = {"textDocument": {"uri": URI}, "position": here, "context": {"triggerKind": 2}}
    changes = [{"range": {"start": here, "end": here}, "text": "x"}]
    key = {"textDocument": {"uri": URI, "version": 2}, "contentChanges": changes}
    messages = (("textDocument/inlineCompletion", asked), ("textDocument/didChange", key))
    result = editor.run(editor.at_once(*messages))
    assert list(result.items) == []


def test_what_is_not_known_is_refused_and_the_server_goes_on(editor: Editor) -> None:
    assert editor.run(editor.refused("textDocument/nothing", {})) == types.ErrorCodes.MethodNotFound
    wrong = {"position": 7}
    assert editor.run(editor.refused("textDocument/inlineCompletion", wrong)) == types.ErrorCodes.InvalidParams
    again = {"capabilities": {}, "processId": None, "rootUri": None}
    assert editor.run(editor.refused("initialize", again)) == types.ErrorCodes.InvalidRequest
    editor.open("still there ")
    assert inserted(editor.run(editor.inline(0, 12)))


def test_who_asks_while_it_loads_is_answered_when_it_is_loaded(another: Editor) -> None:
    another.initialize(SETTINGS)
    another.open("early ")
    assert inserted(another.run(another.inline(0, 6)))


def test_who_types_on_while_it_loads_is_answered_for_the_new_text_alone(another: Editor) -> None:
    another.initialize(SETTINGS)
    another.open("early ")

    async def story() -> tuple[Sequence[types.InlineCompletionItem], Sequence[types.InlineCompletionItem]]:
        older = asyncio.ensure_future(another.inline(0, 6))
        await asyncio.sleep(0)
        another.type(0, 6, "bird ")
        return await older, await another.inline(0, 11)

    older, newer = another.run(story())
    assert older == ()
    assert newer[0].range.start == types.Position(0, 11)


def test_bytes_of_another_encoding_do_not_cost_the_rest_of_the_change(another: Editor) -> None:
    another.start(SETTINGS, encodings=["utf-8"])
    another.open("a\n")
    here = b'{"line":0,"character":0}'
    change = b'{"range":{"start":%s,"end":%s},"text":"\xe9 = "}' % (here, here)
    document = b'{"uri":"file:///src/a.py","version":2}'
    params = b'{"textDocument":%s,"contentChanges":[%s]}' % (document, change)
    body = b'{"jsonrpc":"2.0","method":"textDocument/didChange","params":%s}' % params
    assert another.process.stdin is not None
    another.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    [item] = another.run(another.inline(0, 5))
    assert item.range.start == types.Position(0, 5)


def test_an_editor_of_bytes_that_dies_takes_the_server_with_it(another: Editor) -> None:
    answer = another.start(SETTINGS, encodings=["utf-8", "utf-16"])
    assert answer.capabilities.position_encoding == types.PositionEncodingKind.Utf8
    assert answer.capabilities.inline_completion_provider
    assert answer.capabilities.completion_provider is None
    assert answer.capabilities.text_document_sync.change is types.TextDocumentSyncKind.Incremental
    another.open(f"e\u0301{FACE}=\n")
    assert another.run(another.inline(0, 8))[0].range.start == types.Position(0, 8)
    another.process.stdin.close()
    assert another.gone() == 1


def test_an_editor_without_inline_completions_gets_a_list(another: Editor) -> None:
    answer = another.start({**SETTINGS, "trigger": ["."]}, encodings=["utf-32"], inline=False)
    assert answer.capabilities.position_encoding == types.PositionEncodingKind.Utf32
    assert answer.capabilities.completion_provider.trigger_characters == (".",)
    another.open(f"{FACE}.up")

    def listed(kind: types.CompletionTriggerKind, character: str | None = None) -> types.CompletionList:
        context = types.CompletionContext(kind, character)
        params = types.CompletionParams(types.TextDocumentIdentifier(URI), types.Position(0, 4), context)
        result = another.run(another.client.text_document_completion_async(params))
        assert isinstance(result, types.CompletionList)
        return result

    found = listed(types.CompletionTriggerKind.Invoked)
    [item] = found.items
    assert found.is_incomplete
    assert item.text_edit.range == types.Range(types.Position(0, 2), types.Position(0, 4))
    assert item.text_edit.new_text.startswith("up")
    assert item.filter_text.startswith("up")
    assert listed(types.CompletionTriggerKind.TriggerCharacter, ".").items
    assert listed(types.CompletionTriggerKind.TriggerCharacter, ",").items == ()
    another.client.exit(None)
    assert another.gone() == 1


def test_an_editor_that_lists_and_shows_inline_gets_both_of_one_answer(another: Editor) -> None:
    another.start({"completion": "on"})
    another.open("one two ")
    here, uri = types.Position(0, 8), types.TextDocumentIdentifier(URI)

    async def story() -> tuple[object, Sequence[types.InlineCompletionItem]]:
        listed = another.client.text_document_completion_async(types.CompletionParams(uri, here))
        inline = asyncio.ensure_future(another.inline(0, 8, AUTOMATIC))
        return await listed, await inline

    listed, inline = another.run(story())
    assert isinstance(listed, types.CompletionList)
    assert [item.text_edit.new_text for item in listed.items] == [inserted(inline)]


@pytest.mark.parametrize("another", ["/nowhere/at all.gguf"], indirect=True)
def test_a_missing_model_is_told_once_and_another_may_be_named(another: Editor) -> None:
    another.start(SETTINGS, configuration=True)
    another.open("a ")
    assert another.run(another.inline(0, 2)) == ()
    assert another.run(another.inline(0, 2)) == ()
    [missing] = another.messages
    assert missing.type is types.MessageType.Error
    assert "/nowhere/at all.gguf" in missing.message
    [registered] = another.registered
    assert registered.method == "workspace/didChangeConfiguration"

    def reconfigure(settings: object) -> None:
        another.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings))

    reconfigure({"localspec": {"model": "toy"}})
    another.wait_for(lambda: len(another.messages) == 2)
    assert "markers" in another.messages[1].message
    another.configuration = {"model": "toy-fim", "draft": "off"}
    reconfigure(None)
    # The end of the progress may come after what is logged.
    another.wait_for(lambda: another.logged and "drafter off" in another.progress[-1].value.get("message", ""))
    assert inserted(another.run(another.inline(0, 2)))
    reconfigure({"model": "toy-fim", "draft": "lookup"})
    another.wait_for(lambda: "drafter lookup" in another.progress[-1].value["message"])
    assert inserted(another.run(another.inline(0, 2)))
    assert len(another.messages) == 2
    assert another.leave() == 0
