"""An answer in OpenAI's newer protocol: its response object, as events and whole."""

import time
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from app.serve.replies.errors import Refused
from app.serve.replies.figures import finish_reason
from app.serve.replies.warnings_list import with_warnings
from app.serve.requests.engine_request import Outcome, Piece
from app.serve.responses.kept import KeptResponses, Message
from app.serve.responses.output import Event, Output
from app.serve.responses.request import ResponseRequest


class ResponseWriter:
    """Writes one answer: call `events` once; `response` is then the whole answer."""

    def __init__(self, wanted: ResponseRequest, kept: KeptResponses) -> None:
        """Take the request, and where a response that is stored goes."""
        self.response: dict[str, Any] = {
            "id": f"resp_{uuid.uuid4().hex}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "model": wanted.chat.model,
            "output": [],
            "usage": None,
            **wanted.shown,
        }
        self._wanted = wanted
        self._kept = kept
        self._reader = wanted.chat.reader()
        self._output = Output(seals=wanted.seals, summarizes=wanted.summarizes)
        self._sent = 0

    async def events(self, speech: AsyncGenerator[Piece | Outcome]) -> AsyncGenerator[Event]:
        """Yield the events of an answer, numbered."""
        async with aclosing(speech):
            begins = True
            async for piece in speech:
                if begins:
                    begins = False
                    for kind in ("response.created", "response.in_progress"):
                        yield self._numbered({"type": kind, "response": {**self.response}})
                for event in self._output.add(self._reader.feed(piece)):
                    yield self._numbered(event)
                if isinstance(piece, Outcome):
                    for event in self._end(piece):
                        yield self._numbered(event)

    def failure(self, refused: Refused) -> Event:
        """Return the last event of an answer that failed."""
        error = {"code": refused.code or "server_error", "message": refused.message}
        failed = {**self.response, "status": "failed", "error": error, "output": self._output.items}
        return self._numbered({"type": "response.failed", "response": failed})

    def _numbered(self, event: Event) -> Event:
        self._sent += 1
        return {**event, "sequence_number": self._sent - 1}

    def _end(self, outcome: Outcome) -> Iterator[Event]:
        is_whole = finish_reason(outcome.finish) == "stop"
        status = "completed" if is_whole else "incomplete"
        yield from self._output.close(status)
        details = None if is_whole else {"reason": "max_output_tokens"}
        end = {"status": status, "incomplete_details": details, "output": self._output.items}
        usage = _usage(outcome, self._reader.thinking_tokens)
        self.response = with_warnings({**self.response, **end, "usage": usage}, self._wanted.chat.warnings)
        if self._wanted.keeps:
            self._kept.keep((*self._wanted.messages, *_answer(self._output.items)), self.response)
        yield {"type": f"response.{status}", "response": self.response}


def _answer(items: list[dict[str, Any]]) -> list[Message]:
    """Return the answer as a message of a chat, for a request that continues it."""
    answer: Message = {"role": "assistant", "content": ""}
    calls: list[object] = []
    for item in items:
        if item["type"] == "function_call":
            function = {"name": item["name"], "arguments": item["arguments"]}
            calls.append({"id": item["call_id"], "type": "function", "function": function})
        elif item["type"] == "message":
            answer["content"] = item["content"][0]["text"]
        else:
            answer["reasoning_content"] = (item["content"] or item["summary"])[0]["text"]
    return [{**answer, "tool_calls": calls} if calls else answer]


def _usage(outcome: Outcome, thinking: int) -> dict[str, Any]:
    stats = outcome.stats
    return {
        "input_tokens": stats.prompt_tokens,
        "input_tokens_details": {"cached_tokens": stats.reused_tokens, "cache_write_tokens": 0},
        "output_tokens": stats.emitted,
        "output_tokens_details": {"reasoning_tokens": thinking},
        "total_tokens": stats.prompt_tokens + stats.emitted,
    }
