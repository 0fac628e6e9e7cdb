"""Items of a response's input as messages of a chat: messages, thoughts, calls and their results.

The thoughts, the text and the calls of one answer are items of their own here, and one message there.
"""

import base64
import binascii
from collections.abc import Callable, Mapping

from app.serve.requests.fields import Fields
from app.serve.requests.openai_fields import read_content
from app.serve.responses.kept import Message

_MOST_ITEMS = 16384
_MOST_PARTS = 4096
_ROLES = ("user", "assistant", "system", "developer")
_TEXTS = ("text", "input_text", "output_text")
_ONLY_TEXT = "this server accepts only text"
_SEAL = "localspec:"
"""Beginning of thoughts that this server gave to a client that keeps the conversation itself."""


def sealed(thoughts: str) -> str:
    """Return thoughts for `encrypted_content`: encoded, so that a client sends them back as they are."""
    return _SEAL + base64.b64encode(thoughts.encode()).decode()


def chat_messages(fields: Fields) -> list[Message]:
    """Return the input as messages of a chat; raises Refused."""
    if not isinstance(fields.raw("input"), list):
        text = fields.prose("input")
        return [] if text is None else [{"role": "user", "content": text}]
    items = _Items()
    for part in fields.parts("input", _MOST_ITEMS):
        items.add(part)
    return items.messages


class _Items:
    """Collects messages: call `add` for each item in order, then read `messages`."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._answer: Message | None = None
        """The answer that further items may belong to; None: the last item was no part of an answer."""

    def add(self, part: Fields) -> None:
        """Add an item; raises Refused."""
        kind = part.text("type") or ("message" if part.has("role") else "")
        if kind not in _READERS:
            part.refuse("type", f"must be one of: {', '.join(_READERS)}")
        _READERS[kind](self, part)

    def message(self, part: Fields) -> None:
        """Add a message."""
        role = part.text("role")
        if role not in _ROLES:
            part.refuse("role", f"must be one of: {', '.join(_ROLES)}")
        text = read_content(part, "content")
        if role == "assistant":
            self._open("content", "tool_calls")["content"] = text or ""
            return
        if text is None:
            part.refuse("content", "is required")
        self._append({"role": role, "content": text})

    def reasoning(self, part: Fields) -> None:
        """Add thoughts: the text that this server has sent, else a summary."""
        thoughts = _unsealed(part.text("encrypted_content") or "")
        for name in ("content", "summary"):
            texts = [one.prose("text") or "" for one in part.parts(name, _MOST_PARTS)]
            thoughts = thoughts or "\n".join(texts)
        if thoughts:
            self._open("reasoning_content", "content", "tool_calls")["reasoning_content"] = thoughts

    def call(self, part: Fields) -> None:
        """Add a call of a function."""
        self._call(part, part.prose("arguments") or "{}")

    def custom_call(self, part: Fields) -> None:
        """Add a call of a tool whose input is a text."""
        self._call(part, {"input": part.prose("input") or ""})

    def result(self, part: Fields) -> None:
        """Add the result of a call."""
        message: Message = {"role": "tool", "content": _output(part)}
        for name, given in (("tool_call_id", "call_id"), ("name", "name")):
            if text := part.prose(given):
                message[name] = text
        self._append(message)

    def _call(self, part: Fields, arguments: object) -> None:
        function = {"name": part.prose("name") or part.refuse("name", "is required"), "arguments": arguments}
        id_ = part.prose("call_id") or part.prose("id") or ""
        calls = self._open().setdefault("tool_calls", [])
        assert isinstance(calls, list), "the list is made here"
        calls.append({**({"id": id_} if id_ else {}), "type": "function", "function": function})

    def _open(self, *unless: str) -> Message:
        """Return the answer to add to; a new one where the last one has one of these members already."""
        if self._answer is None or any(name in self._answer for name in unless):
            answer: Message = {"role": "assistant"}
            self._append(answer)
            self._answer = answer
        return self._answer

    def _append(self, message: Message) -> None:
        self.messages.append(message)
        self._answer = None


_READERS: Mapping[str, Callable[[_Items, Fields], None]] = {
    "message": _Items.message,
    "reasoning": _Items.reasoning,
    "function_call": _Items.call,
    "function_call_output": _Items.result,
    "custom_tool_call": _Items.custom_call,
    "custom_tool_call_output": _Items.result,
}


def _output(part: Fields) -> str:
    """Return the text of a result; what is no text in it is left out, as it is sent again with each request."""
    if not isinstance(part.raw("output"), list):
        return part.prose("output") or ""
    texts = []
    for one in part.parts("output", _MOST_PARTS):
        if one.text("type") in _TEXTS:
            texts.append(one.prose("text") or "")
        else:
            one.warn("type", f"is left out: {_ONLY_TEXT}")
            texts.append(f"[content left out: {_ONLY_TEXT}]")
    return "\n".join(texts)


def _unsealed(text: str) -> str:
    """Return thoughts that this server has sent; "" for those of others."""
    if not text.startswith(_SEAL):
        return ""
    try:
        return base64.b64decode(text.removeprefix(_SEAL), validate=True).decode(errors="replace")
    except (binascii.Error, ValueError):
        return ""
