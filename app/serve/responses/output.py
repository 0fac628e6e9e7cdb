"""Items of a response as they come: thoughts, a message, calls; each with its events."""

import uuid
from collections.abc import Iterator
from typing import Any

from app.serve.replies.answer_reader import AnswerParts
from app.serve.responses.items import sealed
from models.forms.tool_division import CallPiece

Event = dict[str, Any]
_REASONING = ("response.reasoning_text", "response.content_part", "content", "reasoning_text")
_SUMMARY = ("response.reasoning_summary_text", "response.reasoning_summary_part", "summary", "summary_text")
_MESSAGE = ("response.output_text", "response.content_part", "content", "output_text")
_CALL = "response.function_call_arguments"


class Output:
    """Makes the items of one answer: call `add` for all its parts in order, then `close`."""

    def __init__(self, *, seals: bool, summarizes: bool) -> None:
        """Take whether thoughts are also sent encoded, and whether they are sent as a summary."""
        self.items: list[dict[str, Any]] = []
        """All items; the last one may be incomplete."""
        self._seals = seals
        self._thinking = _SUMMARY if summarizes else _REASONING
        self._is_open = False

    def add(self, parts: AnswerParts) -> Iterator[Event]:
        """Yield the events of more of the answer."""
        if parts.thoughts:
            yield from self._say("reasoning", self._thinking, parts.thoughts)
        if parts.text:
            yield from self._say("message", _MESSAGE, parts.text)
        for call in parts.calls:
            yield from self._call(call)

    def close(self, status: str = "completed") -> Iterator[Event]:
        """Yield the events that end the open item, if there is one, with its status."""
        if not self._is_open:
            return
        self._is_open = False
        item = self.items[-1]
        if item["type"] == "function_call":
            yield {"type": f"{_CALL}.done", **self._place, "name": item["name"], "arguments": item["arguments"]}
        else:
            names = _MESSAGE if item["type"] == "message" else self._thinking
            part = item[names[2]][0]
            yield {"type": f"{names[0]}.done", **self._part_place(names), "text": part["text"], **_logprobs(names)}
            yield {"type": f"{names[1]}.done", **self._part_place(names), "part": part}
            if item["type"] == "reasoning" and self._seals:
                item["encrypted_content"] = sealed(part["text"])
        item["status"] = status
        yield {"type": "response.output_item.done", "output_index": len(self.items) - 1, "item": item}

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1}

    def _part_place(self, names: tuple[str, str, str, str]) -> dict[str, Any]:
        place: dict[str, Any] = self._place
        return {**place, "summary_index" if names is _SUMMARY else "content_index": 0}

    def _begin(self, item: dict[str, Any]) -> Iterator[Event]:
        yield from self.close()
        self.items.append(item)
        self._is_open = True
        # Copied, as the item is filled later while this event may still wait to be sent.
        shown = {name: [*value] if isinstance(value, list) else value for name, value in item.items()}
        yield {"type": "response.output_item.added", "output_index": len(self.items) - 1, "item": shown}

    def _say(self, kind: str, names: tuple[str, str, str, str], text: str) -> Iterator[Event]:
        if not self._is_open or self.items[-1]["type"] != kind:
            yield from self._begin(_thoughts() if kind == "reasoning" else _message())
            part: dict[str, Any] = {"type": names[3], "text": ""}
            if kind == "message":
                part = {**part, "annotations": [], "logprobs": []}
            self.items[-1][names[2]] = [part]
            yield {"type": f"{names[1]}.added", **self._part_place(names), "part": {**part}}
        self.items[-1][names[2]][0]["text"] += text
        yield {"type": f"{names[0]}.delta", **self._part_place(names), "delta": text, **_logprobs(names)}

    def _call(self, call: CallPiece) -> Iterator[Event]:
        if call.name:
            yield from self._begin(_function_call(call.name))
        self.items[-1]["arguments"] += call.arguments
        if call.arguments:
            yield {"type": f"{_CALL}.delta", **self._place, "delta": call.arguments}


def _thoughts() -> dict[str, Any]:
    return {"id": f"rs_{uuid.uuid4().hex}", "type": "reasoning", "status": "in_progress", "summary": [], "content": []}


def _message() -> dict[str, Any]:
    id_ = f"msg_{uuid.uuid4().hex}"
    return {"id": id_, "type": "message", "status": "in_progress", "role": "assistant", "content": []}


def _function_call(name: str) -> dict[str, Any]:
    id_, call = f"fc_{uuid.uuid4().hex}", f"call_{uuid.uuid4().hex}"
    kind = "function_call"
    return {"id": id_, "type": kind, "status": "in_progress", "call_id": call, "name": name, "arguments": ""}


def _logprobs(names: tuple[str, str, str, str]) -> dict[str, Any]:
    return {"logprobs": []} if names is _MESSAGE else {}
