"""`/infill` and `/completion` as llama.cpp's server defines them."""

from collections.abc import AsyncGenerator, Hashable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from app.engine.decoding.ending import Finish
from app.engine.decoding.logprobs import TokenLogprobs
from app.engine.decoding.request import Question
from app.serve.replies.errors import Refused
from app.serve.replies.figures import stop_type, timings
from app.serve.replies.logprobs import native_probabilities, read_listed
from app.serve.replies.stream import event
from app.serve.replies.warnings_list import with_warnings
from app.serve.requests.engine_request import EngineRequest, Outcome, Piece, RequestKind
from app.serve.requests.fields import Fields
from app.serve.requests.openai_fields import refuse_native, refuse_probabilities, refuse_several
from app.serve.requests.prompts import Prompt
from app.serve.requests.sampling import read_count, read_sampling, read_stops
from app.serve.service import Loaded, Service
from models.base import Vocab
from models.forms.grammar import Grammar
from models.text.fim import Chunk, Infill

_MOST_CHUNKS = 1024
_MOST_FIELDS = 256
_MOST_INDENT = 1 << 20
_MOST_BEGUN = 4
"""Divisor of the context size: the maximum share that the beginning of an answer may take."""
_LONGEST = 1e9
"""Maximum milliseconds."""


@dataclass(frozen=True, slots=True)
class NativeRequest:
    """A request of llama.cpp's own protocol."""

    request: EngineRequest
    stream: bool
    fields: tuple[str, ...] | None
    """Members of the reply that the client requests; None: all."""
    index: int = 0
    """Index of the prompt in the request."""
    warnings: tuple[str, ...] = ()
    """Fields that were changed or ignored."""

    def reply(self, outcome: Outcome, loaded: Loaded) -> dict[str, Any]:
        """Return the reply to a request that does not stream."""
        reply = {**self._end(outcome, loaded), "content": outcome.text, **self._probabilities(outcome.places)}
        return with_warnings(_chosen(reply, self.fields), self.warnings)

    async def events(self, speech: AsyncGenerator[Piece | Outcome], loaded: Loaded) -> AsyncGenerator[bytes]:
        """Yield the answer in events, the last with all figures."""
        async with aclosing(speech):
            async for piece in speech:
                if isinstance(piece, Outcome):
                    end = {**self._end(piece, loaded), "content": piece.rest}
                    yield event(with_warnings(_chosen(end, self.fields), self.warnings))
                elif piece.text or piece.places:
                    reply = {"index": self.index, "content": piece.text, "tokens": [], "stop": False, "id_slot": -1}
                    yield event({**reply, **self._probabilities(piece.places)})

    def _end(self, outcome: Outcome, loaded: Loaded) -> dict[str, Any]:
        stats = outcome.stats
        return {
            "index": self.index,
            "content": "",
            "tokens": [],
            "id_slot": -1,
            "stop": True,
            "model": loaded.name,
            "tokens_predicted": stats.emitted,
            "tokens_evaluated": stats.prompt_tokens,
            "tokens_cached": stats.prompt_tokens + stats.emitted,
            "generation_settings": self._settings(loaded),
            "has_new_line": "\n" in outcome.text,
            "truncated": outcome.finish is Finish.CONTEXT,
            "stop_type": stop_type(outcome.finish),
            "stopping_word": outcome.stop,
            "timings": timings(outcome),
        }

    def _probabilities(self, places: Sequence[TokenLogprobs]) -> dict[str, Any]:
        listed = self.request.question.listed is not None
        return {"completion_probabilities": native_probabilities(places)} if listed else {}

    def _settings(self, loaded: Loaded) -> dict[str, Any]:
        question = self.request.question
        settings = sampling_settings(question)
        return {"n_ctx": loaded.ready.context_size, **settings, "n_indent": self.request.indent, "stream": self.stream}


def read_infill(fields: Fields, service: Service, client: Hashable, form: Grammar | None) -> NativeRequest:
    """Read an infill request and its form; the client's last ones are remembered. Raises Refused."""
    require_filling(service)
    prefix, suffix = fields.text("input_prefix"), fields.text("input_suffix")
    if prefix is None or suffix is None:
        fields.refuse("input_prefix" if prefix is None else "input_suffix", "is required")
    begun, most = fields.text("prompt") or "", service.loaded.ready.context_size // _MOST_BEGUN
    if len(begun.encode()) > most:
        # Text before the gap can be cut to the context, a beginning of the answer can't.
        prefix, begun = prefix + begun, ""
    infill, keeps = Infill(prefix, suffix, chunks=_chunks(fields), begun=begun), fields.flag("cache_prompt")
    refuse_probabilities(fields, "n_probs")
    wanted = _request(
        fields,
        EngineRequest(
            _question(fields, service.settings.filling, form, service.loaded.vocab), RequestKind.INFILL, _indent(fields)
        ),
    )
    # Last step: a refused request must not be remembered.
    infill = service.prompt_reuse.infill(client, infill, most) if keeps else infill
    return replace(wanted, request=replace(wanted.request, question=replace(wanted.request.question, infill=infill)))


def read_completion(
    fields: Fields, service: Service, prompts: Sequence[Prompt], form: Grammar | None
) -> list[NativeRequest]:
    """Read the request for prompts and a form that are already read; raises Refused."""
    refuse_several(fields)
    base = _question(fields, service.settings.completing, form, service.loaded.vocab)
    # 0 means no probabilities there, not the emitted tokens' own.
    base = replace(base, listed=read_listed(fields, "n_probs") or None)
    requests = [EngineRequest(prompt.to(base), RequestKind.COMPLETION, _indent(fields)) for prompt in prompts]
    return [replace(_request(fields, one), index=place) for place, one in enumerate(requests)]


async def events_of(
    requests: Sequence[NativeRequest], first: AsyncGenerator[Piece | Outcome], service: Service
) -> AsyncGenerator[bytes]:
    """Yield the answers to several requests in order; the first answer has begun."""
    for place, one in enumerate(requests):
        speech = first if place == 0 else service.speak(one.request, further=True)
        async with aclosing(one.events(speech, service.loaded)) as events:
            async for piece in events:
                yield piece


def require_filling(service: Service) -> None:
    """Refuse infill for a model without infill markers; raises Refused."""
    loaded = service.loaded
    if not loaded.fills:
        message = f"{loaded.name} can't fill in code: its vocabulary has no fill-in-the-middle tokens."
        raise Refused(400, message, code="not_supported")


def sampling_settings(question: Question) -> dict[str, Any]:
    """Return the settings of a question under llama.cpp's names."""
    sampling = question.sampling
    return {
        "n_predict": -1 if question.max_tokens is None else question.max_tokens,
        "seed": sampling.seed,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repeat_last_n": sampling.penalty_window,
        "repeat_penalty": sampling.repeat_penalty,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "stop": list(question.stops),
    }


def _question(fields: Fields, base: Question, form: Grammar | None, vocab: Vocab) -> Question:
    refuse_native(fields)
    # Checked but not followed, as in llama.cpp: llama.vim sends it with each request, and would keep an empty answer.
    _seconds(fields, "t_max_prompt_ms")
    return replace(
        base,
        sampling=read_sampling(fields, base.sampling, vocab),
        stops=read_stops(fields),
        max_tokens=read_count(fields, "n_predict", "max_completion_tokens", "max_tokens", default=base.max_tokens),
        seconds=_seconds(fields, "t_max_predict_ms"),
        grammar=form,
    )


def _request(fields: Fields, request: EngineRequest) -> NativeRequest:
    # An empty list requests all members, as in llama.cpp.
    wanted = fields.texts("response_fields", _MOST_FIELDS) or None
    return NativeRequest(request, fields.flag("stream"), wanted, warnings=fields.warnings)


def _chunks(fields: Fields) -> tuple[Chunk, ...]:
    chunks = []
    for part in fields.parts("input_extra", _MOST_CHUNKS):
        text = part.text("text")
        if text is None:
            part.refuse("text", "is required")
        chunks.append(Chunk(part.text("filename") or "", text))
    return tuple(chunks)


def _indent(fields: Fields) -> int:
    """Return the minimum indentation; 0 for values of 0 and less, as in llama.cpp."""
    return max(0, fields.whole("n_indent", -_MOST_INDENT, _MOST_INDENT) or 0)


def _seconds(fields: Fields, name: str) -> float | None:
    """Return a time limit in seconds; None for 0 and less, as in llama.cpp."""
    limit = fields.number(name, -_LONGEST, _LONGEST)
    return limit / 1000 if limit is not None and limit > 0 else None


def _chosen(reply: Mapping[str, Any], wanted: tuple[str, ...] | None) -> dict[str, Any]:
    """Return the requested members, each under its path, without the missing ones."""
    if wanted is None:
        return dict(reply)
    found = ((path, _at(reply, path)) for path in wanted)
    return {path: value for path, value in found if value is not _NOTHING}


_NOTHING = object()


def _at(reply: Mapping[str, Any], path: str) -> object:
    value: object = reply
    for name in path.split("/"):
        if not isinstance(value, Mapping) or name not in value:
            return _NOTHING
        value = value[name]
    return value
