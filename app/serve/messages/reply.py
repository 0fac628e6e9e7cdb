"""An answer in Anthropic's protocol: blocks of thoughts, text and tool calls, as events and as one message."""

import json
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from app.engine.decoding.ending import Finish
from app.serve.messages.request import MessagesRequest
from app.serve.replies.answer_reader import AnswerParts
from app.serve.replies.warnings_list import with_warnings
from app.serve.requests.engine_request import Outcome, Piece
from models.forms.tool_division import CallPiece

_SIGNATURE = "localspec"
"""Signature of thoughts: clients send it back, and some drop thoughts without one. Nothing is checked by it."""
_DELTAS = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}
Event = dict[str, Any]


class MessageWriter:
    """Writes one answer: call `events` once; `message` is then the whole answer."""

    def __init__(self, wanted: MessagesRequest) -> None:
        self.message: dict[str, Any] = {
            "id": f"msg_{uuid.uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": wanted.chat.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(0, 0, 0),
        }
        self._wanted = wanted
        self._reader = wanted.chat.reader()
        self._open = -1
        """Index of the open block; -1: none is open."""
        self._arguments = ""

    async def events(self, speech: AsyncGenerator[Piece | Outcome]) -> AsyncGenerator[Event]:
        """Yield the events of an answer."""
        async with aclosing(speech):
            begins = True
            async for piece in speech:
                if begins:
                    begins = False
                    self._count_prompt(piece)
                    yield {"type": "message_start", "message": {**self.message, "content": []}}
                for event in self._blocks(self._reader.feed(piece)):
                    yield event
                if isinstance(piece, Outcome):
                    for event in self._end(piece):
                        yield event

    def _count_prompt(self, piece: Piece | Outcome) -> None:
        if isinstance(piece, Piece) and piece.reading is not None:
            self.message["usage"] = _usage(piece.reading.total, piece.reading.done, 0)

    def _blocks(self, parts: AnswerParts) -> Iterator[Event]:
        """Yield the events of more of the answer, and add it to the message."""
        if parts.thoughts:
            yield from self._say("thinking", parts.thoughts if self._wanted.shows_thoughts else "")
        if parts.text:
            yield from self._say("text", parts.text)
        for call in parts.calls:
            yield from self._call(call)

    def _say(self, kind: str, text: str) -> Iterator[Event]:
        delta, member = _DELTAS[kind]
        if self._open < 0 or self._block["type"] != kind:
            yield from self._begin({"type": kind, member: "", **({"signature": ""} if kind == "thinking" else {})})
        self._block[member] += text
        if text:
            yield self._delta({"type": delta, member: text})

    def _call(self, call: CallPiece) -> Iterator[Event]:
        if call.name:
            block = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex}", "name": call.name, "input": {}}
            yield from self._begin(block)
        self._arguments += call.arguments
        if call.arguments:
            yield self._delta({"type": "input_json_delta", "partial_json": call.arguments})

    @property
    def _block(self) -> dict[str, Any]:
        block: dict[str, Any] = self.message["content"][self._open]
        return block

    def _delta(self, delta: dict[str, Any]) -> Event:
        return {"type": "content_block_delta", "index": self._open, "delta": delta}

    def _begin(self, block: dict[str, Any]) -> Iterator[Event]:
        yield from self._close()
        self.message["content"].append(block)
        self._open = len(self.message["content"]) - 1
        yield {"type": "content_block_start", "index": self._open, "content_block": {**block}}

    def _close(self) -> Iterator[Event]:
        if self._open < 0:
            return
        if self._block["type"] == "thinking":
            self._block["signature"] = _SIGNATURE
            yield self._delta({"type": "signature_delta", "signature": _SIGNATURE})
        if self._block["type"] == "tool_use":
            self._block["input"] = _object(self._arguments)
        index, self._open, self._arguments = self._open, -1, ""
        yield {"type": "content_block_stop", "index": index}

    def _end(self, outcome: Outcome) -> Iterator[Event]:
        yield from self._close()
        reason = _stop_reason(outcome, has_called=self._reader.has_called)
        stop = outcome.stop if reason == "stop_sequence" else None
        stats, thinking = outcome.stats, self._reader.thinking_tokens
        usage = _usage(stats.prompt_tokens, stats.reused_tokens, stats.emitted)
        if thinking:
            usage["output_tokens_details"] = {"thinking_tokens": thinking}
        end = {"stop_reason": reason, "stop_sequence": stop}
        warnings = self._wanted.chat.warnings
        self.message = with_warnings({**self.message, **end, "usage": usage}, warnings)
        yield with_warnings({"type": "message_delta", "delta": end, "usage": usage}, warnings)
        yield {"type": "message_stop"}


def _stop_reason(outcome: Outcome, *, has_called: bool) -> str:
    """Return the reason why an answer ended, in Anthropic's terms."""
    if outcome.finish in (Finish.END, Finish.STOP):
        if has_called:
            return "tool_use"
        return "stop_sequence" if outcome.stop else "end_turn"
    return "model_context_window_exceeded" if outcome.finish is Finish.CONTEXT else "max_tokens"


def _usage(prompt: int, reused: int, emitted: int) -> dict[str, Any]:
    """Return the token counts of an answer; tokens from the cache are not among those of the input."""
    return {
        "input_tokens": prompt - reused,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": reused,
        "output_tokens": emitted,
    }


def _object(arguments: str) -> object:
    """Return the arguments of a call; {} for those of a call that was cut."""
    try:
        found = json.loads(arguments)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
