"""`/v1/chat/completions`."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from app.engine.likelihood import Place
from app.serve.answer_form import read_form
from app.serve.asked import Asked, Kind, Outcome, Piece
from app.serve.fields import Fields
from app.serve.logprobs import chat_logprobs, read_chat_listed
from app.serve.openai_fields import read_content, read_prediction, refuse_unsupported, wants_usage
from app.serve.replies import finish_reason, head, timings, usage
from app.serve.sampling import read_count, read_sampling, read_stops
from app.serve.service import Service
from app.serve.stream import DONE, event
from app.serve.thinking import read_divides, read_effort
from models.prompts import Message as Turn
from models.prompts import Role
from models.thoughts import Thoughts, divided

_MOST_MESSAGES = 4096
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A conversation that wants its next message."""

    asked: Asked
    stream: bool
    tells_usage: bool
    model: str
    divides: bool = True
    """Whether thoughts have a field of their own."""

    def reply(self, outcome: Outcome) -> dict[str, Any]:
        """Return the answer to a request that does not stream."""
        parts = divided(outcome.text, divides=self.divides)
        thoughts = {"reasoning_content": parts.thoughts} if parts.thoughts else {}
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": parts.said, **thoughts, "refusal": None},
            "logprobs": self._logprobs(outcome.places),
            "finish_reason": finish_reason(outcome.finish),
        }
        reply = head("chat.completion", "chatcmpl", self.model)
        return {**reply, "choices": [choice], "usage": usage([outcome]), "timings": timings(outcome)}

    async def events(self, speech: AsyncGenerator[Piece | Outcome]) -> AsyncGenerator[bytes]:
        """Yield the answer in pieces."""
        base = head("chat.completion.chunk", "chatcmpl", self.model)
        if self.tells_usage:
            base["usage"] = None
        thoughts = Thoughts(divides=self.divides)
        async with aclosing(speech):
            yield _chunk(base, {"role": "assistant", "content": ""})
            async for said in speech:
                logprobs = self._logprobs(said.places) if isinstance(said, Piece) else None
                for delta in _deltas(thoughts, said):
                    # All in the first: it is the tokens of both that came together.
                    yield _chunk(base, delta, logprobs=logprobs)
                    logprobs = None
                if logprobs and logprobs["content"]:
                    yield _chunk(base, {"content": ""}, logprobs=logprobs)
                if not isinstance(said, Outcome):
                    continue
                last = {**base, "timings": timings(said)}
                yield _chunk(last, {}, finish_reason(said.finish))
                if self.tells_usage:
                    yield event({**base, "choices": [], "usage": usage([said])})
        yield DONE

    def _logprobs(self, places: Sequence[Place]) -> dict[str, Any] | None:
        return None if self.asked.question.listed is None else chat_logprobs(places)


def read_chat(fields: Fields, service: Service) -> ChatRequest:
    """Read a conversation; raises Refused."""
    refuse_unsupported(fields)
    fields.text("model")
    base = service.settings.chatting
    count = read_count(fields, "max_completion_tokens", "max_tokens", "n_predict", default=base.max_tokens)
    question = replace(
        base,
        turns=_turns(fields),
        sampling=read_sampling(fields, base.sampling),
        stops=read_stops(fields),
        max_tokens=count,
        prediction=read_prediction(fields),
        effort=read_effort(fields, base.effort),
        listed=read_chat_listed(fields),
        grammar=read_form(fields),
    )
    asked, divides = Asked(question, Kind.CHAT), read_divides(fields)
    return ChatRequest(asked, fields.flag("stream"), wants_usage(fields), service.loaded.name, divides)


def _turns(fields: Fields) -> tuple[Turn, ...]:
    turns = tuple(_turn(part) for part in fields.parts("messages", _MOST_MESSAGES))
    return turns or fields.refuse("messages", "must have at least one message")


def _turn(part: Fields) -> Turn:
    role = _ROLES.get(part.text("role") or "")
    if role is None:
        part.refuse("role", f"must be one of: {', '.join(_ROLES)}")
    if part.raw("tool_calls"):
        part.refuse("tool_calls", "can't be read: this server does not call tools")
    text = read_content(part, "content")
    if text is None and role != "assistant":
        part.refuse("content", "is required")
    thoughts = part.text("reasoning_content") or part.text("reasoning") or ""
    return Turn(role, text or "", thoughts if role == "assistant" else "")


def _deltas(thoughts: Thoughts, said: Piece | Outcome) -> Iterator[dict[str, str]]:
    """Yield what a piece of an answer adds to its fields, thoughts first."""
    parts = thoughts.feed(said.rest, last=True) if isinstance(said, Outcome) else thoughts.feed(said.text)
    if parts.thoughts:
        yield {"reasoning_content": parts.thoughts}
    if parts.said:
        yield {"content": parts.said}


def _chunk(
    base: dict[str, Any], delta: dict[str, Any], finish: str | None = None, logprobs: dict[str, Any] | None = None
) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
    return event({**base, "choices": [choice]})
