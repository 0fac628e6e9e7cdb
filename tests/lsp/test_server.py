"""The server on a line without a process: what it asks for, what it tells, and what it refuses."""

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from lsprotocol import types

from app.complete.completer import Completion
from app.complete.place import CursorPosition
from app.complete.settings import Limits
from app.lsp.server import Server
from app.lsp.settings import Settings
from models.errors import LocalspecError

URI = "file:///src/a.py"
DOCUMENT = {"uri": URI, "languageId": "python", "version": 1, "text": "one\ntwo\n"}
FULL = LocalspecError("The context is full.", hint="Start with a larger one.")


class Remembering:
    """A completer that says "more", and remembers what it was told."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None, error: LocalspecError | None = None) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.meanwhile = meanwhile
        self.error = error
        self.typed_along = ""

    async def complete(self, place: CursorPosition, limits: Limits) -> Completion:
        self.calls.append(("complete", place.line, place.column, limits))
        if self.error is not None:
            raise self.error
        self.meanwhile()
        return Completion("more", place, None)

    def known(self, place: CursorPosition, limits: Limits) -> Completion | None:  # noqa: ARG002
        return Completion(self.typed_along, place, None) if self.typed_along else None

    def prefetch(self, completion: Completion) -> None:
        self.calls.append(("prefetch", completion.text))

    def visited(self, *what: object) -> None:
        self.calls.append(("visited", *what))

    def edited(self, *what: object) -> None:
        self.calls.append(("edited", *what))

    def closed(self, *what: object) -> None:
        self.calls.append(("closed", *what))


class Loaded:
    """Models that are there at once."""

    def __init__(self) -> None:
        self.completer: Remembering | None = None
        self.used: list[Settings] = []

    def use(self, settings: Settings, _: object) -> None:
        self.used.append(settings)

    async def ready(self, _: float) -> Remembering | None:
        return self.completer


class Line:
    """A server, and both directions of the line to it."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.loaded = Loaded()
        self.server = Server(lambda _: self.loaded, settings or Settings(debounce_ms=0))
        self.server.protocol.on_exit = lambda: self.left.append(True)
        self.server.protocol.set_writer(self)
        self.left: list[bool] = []
        self.received: list[dict[str, Any]] = []

    def write(self, data: bytes) -> None:
        self.received.append(json.loads(data.partition(b"\r\n\r\n")[2]))

    def send(self, method: str, params: object = None, number: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}
        text = json.dumps(message if number is None else {**message, "id": number})
        self.server.protocol.handle_message(json.loads(text, object_hook=self.server.protocol.structure_message))

    def begin(self, options: object = None, text: dict[str, object] | None = None) -> dict[str, Any]:
        capabilities = {"textDocument": {"inlineCompletion": {}} if text is None else text}
        params = {"processId": None, "rootUri": "file:///src", "capabilities": capabilities}
        self.send("initialize", {**params, "initializationOptions": options}, 0)
        self.send("initialized", {})
        answer: dict[str, Any] = self.answer(0)["result"]["capabilities"]
        return answer

    def answer(self, number: int) -> dict[str, Any]:
        [answer] = [one for one in self.received if one.get("id") == number and "method" not in one]
        return answer

    def told(self) -> list[str]:
        return [one["params"]["message"] for one in self.received if one.get("method") == "window/showMessage"]

    async def inline(self, number: int, line: int = 1, column: int = 3) -> list[dict[str, Any]]:
        params = {"textDocument": {"uri": URI}, "position": {"line": line, "character": column}}
        self.send("textDocument/inlineCompletion", {**params, "context": {"triggerKind": 1}}, number)
        items: list[dict[str, Any]] = (await self.answered(number))["result"]["items"]
        return items

    async def answered(self, number: int) -> dict[str, Any]:
        async with asyncio.timeout(10):
            while not any(one.get("id") == number for one in self.received):
                await asyncio.sleep(0)
        return self.answer(number)


def opened(options: object = None, completer: Remembering | None = None) -> Line:
    line = Line()
    line.loaded.completer = completer or Remembering()
    line.begin(options)
    line.send("textDocument/didOpen", {"textDocument": DOCUMENT})
    return line


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def change(line: Line, text: str = "x") -> None:
    where = {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 0}}
    changes = [{"range": where, "text": text}]
    document = {"uri": URI, "version": 2}
    line.send("textDocument/didChange", {"textDocument": document, "contentChanges": changes})


def test_what_is_shown_is_followed_by_what_comes_after_it_and_so_is_what_is_taken() -> None:
    async def story() -> None:
        line = opened({"max_lines": 2, "max_tokens": 9, "time_limit_ms": 500})
        [item] = await line.inline(1)
        assert item["insertText"] == "more"
        completer = line.loaded.completer
        assert completer is not None
        limits = Limits(tokens=9, lines=2, seconds=0.5)
        assert completer.calls == [
            ("visited", "a.py", "one\ntwo\n", 0),
            ("complete", 1, 3, limits),
            ("prefetch", "more"),
        ]
        line.send("workspace/executeCommand", item["command"], 2)
        assert line.answer(2)["result"] is None
        assert completer.calls[3:] == [("prefetch", "more")]
        await line.inline(3)
        line.send("workspace/executeCommand", item["command"], 4)
        assert completer.calls[5:] == [("prefetch", "more")], "an item that is no longer shown is none"

    run(story())


def test_nothing_is_fetched_ahead_where_that_is_not_wanted() -> None:
    async def story() -> None:
        line = opened({"prefetch": False})
        assert await line.inline(1)
        assert line.loaded.completer is not None
        assert [call[0] for call in line.loaded.completer.calls] == ["visited", "complete"]

    run(story())


def test_an_answer_for_a_text_that_has_changed_meanwhile_is_none() -> None:
    async def story() -> None:
        completer = Remembering()
        line = opened(None, completer)
        document = line.server.documents.opened(URI)
        assert document is not None

        def overtaken() -> None:
            document.version = 2

        completer.meanwhile = overtaken
        assert await line.inline(1) == []
        assert "prefetch" not in [call[0] for call in completer.calls]

    run(story())


def test_what_is_known_is_shown_without_waiting_for_the_keys_to_rest() -> None:
    async def story() -> None:
        line = opened({"debounce_ms": 60_000})
        assert line.loaded.completer is not None
        line.loaded.completer.typed_along = "re"
        params = {"textDocument": {"uri": URI}, "position": {"line": 1, "character": 3}}
        line.send("textDocument/inlineCompletion", {**params, "context": {"triggerKind": 2}}, 1)
        [item] = (await line.answered(1))["result"]["items"]
        assert item["insertText"].endswith("re")
        assert "complete" not in [call[0] for call in line.loaded.completer.calls]

    run(story())


def test_a_key_calls_off_what_has_not_begun_and_it_is_answered_at_once() -> None:
    async def story() -> None:
        line = opened({"debounce_ms": 30})
        params = {"textDocument": {"uri": URI}, "position": {"line": 1, "character": 3}}
        line.send("textDocument/inlineCompletion", {**params, "context": {"triggerKind": 2}}, 1)
        await asyncio.sleep(0)
        change(line)
        assert (await line.answered(1))["result"] == {"items": []}
        await asyncio.sleep(0.05)
        assert line.loaded.completer is not None
        assert [call[0] for call in line.loaded.completer.calls] == ["visited", "edited"]

    run(story())


def test_the_numbers_and_ranges_of_vs_codes_client_up_to_9_are_understood() -> None:
    async def story() -> None:
        line = opened({"debounce_ms": 60_000})
        params = {"textDocument": {"uri": URI}, "position": {"line": 1, "character": 3}}
        pair = [{"line": 1, "character": 0}, {"line": 1, "character": 3}]
        chosen = {"triggerKind": 0, "selectedCompletionInfo": {"range": pair, "text": "ret"}}
        line.send("textDocument/inlineCompletion", {**params, "context": chosen}, 1)
        assert "error" not in await line.answered(1)
        line.send("textDocument/inlineCompletion", {**params, "context": {"triggerKind": 0}}, 2)
        assert (await line.answered(2))["result"]["items"]
        line.send("textDocument/inlineCompletion", {**params, "context": {"triggerKind": 1}}, 3)
        await asyncio.sleep(0.05)
        assert not [one for one in line.received if one.get("id") == 3], "its 1 is automatic, and waits for the keys"

    run(story())


class Patient(Remembering):
    """A completer that says "more" when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.let = asyncio.Event()
        self.called_off = False

    async def complete(self, place: CursorPosition, limits: Limits) -> Completion:
        try:
            await self.let.wait()
        except asyncio.CancelledError:
            self.called_off = True
            raise
        return await super().complete(place, limits)


async def running(line: Line) -> Patient:
    """Request a completion in a line; return the task that computes it."""
    completer = line.loaded.completer
    assert isinstance(completer, Patient)
    params = {"textDocument": {"uri": URI}, "position": {"line": 1, "character": 3}}
    line.send("textDocument/inlineCompletion", {**params, "context": {"triggerKind": 1}}, 1)
    await asyncio.sleep(0.01)
    return completer


def test_a_document_that_is_closed_meanwhile_gets_nothing_and_at_once() -> None:
    async def story() -> None:
        line = opened(None, Patient())
        completer = await running(line)
        line.send("textDocument/didClose", {"textDocument": {"uri": URI}})
        assert (await line.answered(1))["result"] == {"items": []}
        assert completer.called_off
        assert completer.calls[-1] == ("closed", "a.py")

    run(story())


def test_what_happens_in_other_documents_disturbs_nobody() -> None:
    async def story() -> None:
        line = opened(None, Patient())
        other = {"uri": "file:///src/b.py", "languageId": "python", "version": 1, "text": "b\n"}
        line.send("textDocument/didOpen", {"textDocument": other})
        completer = await running(line)
        changed = {"uri": "file:///src/b.py", "version": 2}
        line.send("textDocument/didChange", {"textDocument": changed, "contentChanges": [{"text": "c\n"}]})
        line.send("textDocument/didClose", {"textDocument": {"uri": "file:///src/b.py"}})
        completer.let.set()
        [item] = (await line.answered(1))["result"]["items"]
        assert item["insertText"] == "more"

    run(story())


def test_a_cancellation_that_comes_after_the_answer_says_and_disturbs_nothing() -> None:
    async def story() -> None:
        line = opened()
        assert await line.inline(1)
        before = len(line.received)
        line.send("$/cancelRequest", {"id": 1})
        line.send("$/cancelRequest", {"id": 77})
        await asyncio.sleep(0.01)
        assert len(line.received) == before
        assert await line.inline(2)

    run(story())


def test_nothing_is_kept_of_messages_that_were_dealt_with() -> None:
    async def story() -> None:
        line = opened()
        change(line)
        assert await line.inline(1)
        line.send("workspace/didChangeConfiguration", {"settings": None})
        await asyncio.sleep(0.01)
        assert line.server.protocol._request_futures == {}

    run(story())


def test_the_ring_is_fed_with_what_is_opened_changed_saved_and_closed() -> None:
    line = opened()
    change(line)
    line.send("textDocument/didSave", {"textDocument": {"uri": URI}})
    line.send("textDocument/didClose", {"textDocument": {"uri": URI}})
    assert line.loaded.completer is not None
    assert line.loaded.completer.calls == [
        ("visited", "a.py", "one\ntwo\n", 0),
        ("edited", "a.py", "one\nxtwo\n", 1),
        ("visited", "a.py", "one\nxtwo\n", 1),
        ("closed", "a.py"),
    ]


def test_a_failure_is_told_once_until_the_settings_change() -> None:
    async def story() -> None:
        line = opened(None, Remembering(error=FULL))
        assert await line.inline(1) == []
        assert await line.inline(2) == []
        assert line.told() == ["localspec: The context is full. Start with a larger one."]
        line.send("workspace/didChangeConfiguration", {"settings": {"max_tokens": 5}})
        assert await line.inline(3) == []
        assert len(line.told()) == 2

    run(story())


def test_changed_settings_take_the_place_of_the_former_changes_alone() -> None:
    async def story() -> None:
        line = opened({"max_tokens": 7})
        line.send("workspace/didChangeConfiguration", {"settings": {"max_lines": 3, "modell": 1}})
        line.send("workspace/didChangeConfiguration", {"settings": {"localspec": {"context": 99}}})
        await asyncio.sleep(0)
        assert line.loaded.used[1:] == [
            Settings(debounce_ms=0, max_tokens=7, max_lines=3),
            Settings(debounce_ms=0, max_tokens=7, context=99),
        ]
        assert ["'model'" in one for one in line.told()] == [True]

    run(story())


def test_what_an_editor_learns_at_the_start_stays_and_another_value_is_said_to_be_too_late() -> None:
    async def story() -> None:
        line = opened({"completion": "on", "trigger": ["."]})
        line.send("workspace/didChangeConfiguration", {"settings": {"completion": "on", "max_lines": 3}})
        await asyncio.sleep(0)
        assert line.told() == []
        line.send("workspace/didChangeConfiguration", {"settings": {"completion": "off", "trigger": [":"]}})
        await asyncio.sleep(0)
        assert ["'completion' is read at startup" in one for one in line.told()] == [True, False]
        assert "'trigger' is read at startup" in line.told()[1]
        assert line.loaded.used[-1] == Settings(debounce_ms=0, completion="on", trigger=(".",))

    run(story())


@pytest.mark.parametrize(
    ("options", "text", "offered"),
    [
        ({}, {"inlineCompletion": {}}, False),
        # An editor that supports them and sends null: it can't be distinguished from one without support.
        ({}, {"inlineCompletion": None}, True),
        ({}, {}, True),
        ({"completion": "on"}, {"inlineCompletion": {}}, True),
        ({"completion": "off"}, {}, False),
    ],
)
def test_plain_completions_are_offered_to_those_who_know_no_others(
    options: object, text: dict[str, object], offered: bool
) -> None:
    capabilities = Line().begin(options, text)
    assert ("completionProvider" in capabilities) is offered
    assert capabilities["inlineCompletionProvider"] == {}


def test_before_the_first_message_nothing_is_answered_and_after_the_last_neither() -> None:
    line = Line()
    line.send("workspace/executeCommand", {"command": "localspec.accepted"}, 1)
    assert line.answer(1)["error"]["code"] == types.ErrorCodes.ServerNotInitialized
    line.begin()
    line.send("shutdown", None, 2)
    assert line.answer(2)["result"] is None
    line.send("workspace/executeCommand", {"command": "localspec.accepted"}, 3)
    assert line.answer(3)["error"]["code"] == types.ErrorCodes.InvalidRequest
    assert line.left == []
    line.send("exit")
    assert line.left == [True]
    assert line.server.protocol.received_shutdown


def test_the_log_tells_where_a_handler_failed_and_nothing_of_the_text(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        completer = Remembering()
        text = " ".join(["top", "secret"])
        completer.meanwhile = lambda: int(text)
        line = opened(None, completer)
        params = {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 0}}
        line.send("textDocument/inlineCompletion", {**params, "context": {"triggerKind": 1}}, 1)
        assert (await line.answered(1))["error"]["code"] == types.ErrorCodes.InternalError

    with caplog.at_level(logging.ERROR, "localspec.lsp"):
        run(story())
    own = "\n".join(record.getMessage() for record in caplog.records if record.name == "localspec.lsp")
    assert own.startswith("ValueError (FeatureRequestError)")
    assert "complete" in own
    assert "top secret" not in own
