"""`/v1/chat/completions`."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from app.engine.decoding.logprobs import TokenLogprobs
from app.engine.decoding.request import Question
from app.serve.replies.answer_reader import AnswerParts, AnswerReader
from app.serve.replies.figures import head, timings, usage
from app.serve.replies.logprobs import chat_logprobs, read_chat_listed
from app.serve.replies.stream import DONE, event
from app.serve.replies.warnings_list import with_warnings
from app.serve.requests.answer_form import read_form
from app.serve.requests.engine_request import EngineRequest, Outcome, Piece, RequestKind
from app.serve.requests.fields import Fields
from app.serve.requests.openai_fields import (
    answers_to,
    read_answers,
    read_prediction,
    refuse_unsupported,
    wants_usage,
)
from app.serve.requests.sampling import read_count, read_sampling, read_stops
from app.serve.requests.thinking import read_divides, read_effort
from app.serve.requests.tools import Offer, read_tools, tool_call
from app.serve.requests.turns import read_turns
from app.serve.service import Service


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat request: a conversation whose next message is to be generated."""

    engine_request: EngineRequest
    stream: bool
    tells_usage: bool
    model: str
    divides: bool = True
    """Whether thoughts are returned in a field of their own."""
    offer: Offer | None = None
    """Tools that the model may call; None: none."""
    warnings: tuple[str, ...] = ()
    """Fields that were changed or ignored."""
    further: tuple[EngineRequest, ...] = ()
    """Requests for further answers to the conversation."""

    @property
    def requests(self) -> tuple[EngineRequest, ...]:
        """The requests for all answers, in the order of the choices."""
        return self.engine_request, *self.further

    def reply(self, outcomes: Sequence[Outcome]) -> dict[str, Any]:
        """Return the reply to a request that does not stream."""
        choices = [self._choice(place, outcome) for place, outcome in enumerate(outcomes)]
        reply = head("chat.completion", "chatcmpl", self.model)
        reply = {**reply, "choices": choices, "usage": usage(outcomes, len(outcomes))}
        reply = reply if self.further else {**reply, "timings": timings(outcomes[0])}
        return with_warnings(reply, self.warnings)

    def _choice(self, place: int, outcome: Outcome) -> dict[str, Any]:
        reader = self.reader()
        parts = reader.read(outcome.text, last=True)
        return {
            "index": place,
            "message": _message(parts),
            "logprobs": self._logprobs(outcome.places),
            "finish_reason": reader.finish_reason(outcome.finish),
        }

    async def events(self, first: AsyncGenerator[Piece | Outcome], service: Service) -> AsyncGenerator[bytes]:
        """Yield the answers in events, one after the other; the first answer has begun."""
        base = head("chat.completion.chunk", "chatcmpl", self.model)
        if self.tells_usage:
            base["usage"] = None
        outcomes: list[Outcome] = []
        for place, request in enumerate(self.requests):
            async with aclosing(first if place == 0 else service.speak(request, further=True)) as speech:
                async for chunk in self._chunks(speech, base, place, outcomes):
                    yield chunk
        if self.tells_usage:
            yield event({**base, "choices": [], "usage": usage(outcomes, len(outcomes))})
        yield DONE

    async def _chunks(
        self, speech: AsyncGenerator[Piece | Outcome], base: dict[str, Any], place: int, outcomes: list[Outcome]
    ) -> AsyncGenerator[bytes]:
        """Yield the events of one answer, and add its outcome to the others."""
        reader, begins = self.reader(), True
        async for piece in speech:
            if begins:
                yield _chunk(base, place, {"role": "assistant", "content": None if self.offer else ""})
                begins = False
            logprobs = self._logprobs(piece.places) if isinstance(piece, Piece) else None
            for delta in _deltas(reader.feed(piece)):
                # All log probabilities go into the first delta: its tokens hold thoughts and text together.
                yield _chunk(base, place, delta, logprobs=logprobs)
                logprobs = None
            if logprobs and logprobs["content"]:
                yield _chunk(base, place, {"content": ""}, logprobs=logprobs)
            if isinstance(piece, Outcome):
                outcomes.append(piece)
                warnings = self.warnings if len(outcomes) == len(self.requests) else ()
                last = with_warnings({**base, "timings": timings(piece)}, warnings)
                yield _chunk(last, place, {}, reader.finish_reason(piece.finish))

    def reader(self) -> AnswerReader:
        """Return a reader for one answer."""
        if self.offer is None:
            return AnswerReader(None, (), divides=self.divides)
        return AnswerReader(self.offer.form, self.offer.called, divides=self.divides)

    def _logprobs(self, places: Sequence[TokenLogprobs]) -> dict[str, Any] | None:
        return None if self.engine_request.question.listed is None else chat_logprobs(places)


def read_chat(fields: Fields, service: Service) -> ChatRequest:
    """Read a conversation; raises Refused."""
    refuse_unsupported(fields)
    fields.text("model")
    base = service.settings.chatting
    count = read_count(fields, "max_completion_tokens", "max_tokens", "n_predict", default=base.max_tokens)
    question = replace(
        base,
        turns=read_turns(fields),
        sampling=read_sampling(fields, base.sampling, service.loaded.vocab),
        stops=read_stops(fields),
        max_tokens=count,
        prediction=read_prediction(fields),
        effort=read_effort(fields, base.effort, service.loaded.ready.efforts),
        listed=read_chat_listed(fields),
        grammar=read_form(fields),
    )
    offer, divides = read_tools(fields, service.loaded.calls, question.grammar), read_divides(fields)
    if offer is not None:
        question = _offering(fields, question, offer, divides=divides)
    questions = answers_to(question, read_answers(fields))
    engine_request, *further = (EngineRequest(one, RequestKind.CHAT) for one in questions)
    stream, tells_usage, name = fields.flag("stream"), wants_usage(fields), service.loaded.name
    return ChatRequest(engine_request, stream, tells_usage, name, divides, offer, fields.warnings, tuple(further))


def _offering(fields: Fields, question: Question, offer: Offer, *, divides: bool) -> Question:
    if not divides:
        fields.refuse("reasoning_format", "must be 'auto' where there are 'tools'")
    has_a_form = question.grammar is not None and not offer.called
    return replace(question, tools=offer.tools, grammar=question.grammar if has_a_form else offer.grammar)


def _message(parts: AnswerParts) -> dict[str, Any]:
    content = None if parts.calls and not parts.text else parts.text
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if parts.thoughts:
        message["reasoning_content"] = parts.thoughts
    if parts.calls:
        message["tool_calls"] = [tool_call(piece) for piece in parts.calls]
    return {**message, "refusal": None}


def _deltas(parts: AnswerParts) -> Iterator[dict[str, Any]]:
    """Yield the additions to each field of a message."""
    if parts.thoughts:
        yield {"reasoning_content": parts.thoughts}
    if parts.text:
        yield {"content": parts.text}
    if parts.calls:
        yield {"tool_calls": [{"index": piece.index, **tool_call(piece)} for piece in parts.calls]}


def _chunk(
    base: dict[str, Any],
    place: int,
    delta: dict[str, Any],
    finish: str | None = None,
    logprobs: dict[str, Any] | None = None,
) -> bytes:
    choice = {"index": place, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
    return event({**base, "choices": [choice]})
