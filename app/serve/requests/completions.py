"""`/v1/completions`, with `suffix` and without."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from app.engine.decoding.logprobs import TokenLogprobs
from app.engine.decoding.request import Question
from app.serve.replies.figures import finish_reason, head, timings, usage
from app.serve.replies.logprobs import characters, read_listed, text_logprobs
from app.serve.replies.stream import DONE, event
from app.serve.replies.warnings_list import with_warnings
from app.serve.requests.engine_request import EngineRequest, Outcome, Piece, RequestKind
from app.serve.requests.fields import Fields
from app.serve.requests.native import require_filling
from app.serve.requests.openai_fields import (
    answers_to,
    read_answers,
    read_prediction,
    refuse_for_chats,
    refuse_unsupported,
    wants_usage,
)
from app.serve.requests.prompts import Prompt
from app.serve.requests.sampling import read_count, read_sampling, read_stops
from app.serve.requests.tokens import spelling
from app.serve.service import Service
from models.base import Vocab
from models.forms.grammar import Grammar
from models.text.fim import Infill

_MOST_ANSWERS = 64
_KIND, _PREFIX = "text_completion", "cmpl"


@dataclass(frozen=True, slots=True)
class CompletionsRequest:
    """Texts to continue, or gaps to fill, one after the other."""

    requests: Sequence[EngineRequest]
    stream: bool
    tells_usage: bool
    model: str
    answers: int = 1
    """Answers to each prompt."""
    warnings: tuple[str, ...] = ()
    """Fields that were changed or ignored."""
    echoes: Sequence[str] = ()
    """Text of the prompt of each request, which begins its answer; empty: prompts are not repeated."""
    bos: int | None = None
    """Token that the vocabulary puts before a text, and that is no part of it."""

    def reply(self, outcomes: Sequence[Outcome]) -> dict[str, Any]:
        """Return the reply to a request that does not stream."""
        choices = [
            _choice(
                place,
                (self.echoes[place] if self.echoes else "") + outcome.text,
                finish_reason(outcome.finish),
                self._logprobs((*self._of_prompt(place, outcome), *outcome.places)),
            )
            for place, outcome in enumerate(outcomes)
        ]
        reply = {**head(_KIND, _PREFIX, self.model), "choices": choices, "usage": usage(outcomes, self.answers)}
        reply = with_warnings(reply, self.warnings)
        return {**reply, "timings": timings(outcomes[0])} if len(outcomes) == 1 else reply

    async def events(self, first: AsyncGenerator[Piece | Outcome], service: Service) -> AsyncGenerator[bytes]:
        """Yield the answers in events; the first answer has begun."""
        base = head(_KIND, _PREFIX, self.model)
        if self.tells_usage:
            base["usage"] = None
        outcomes: list[Outcome] = []
        for place, request in enumerate(self.requests):
            start = 0
            async with aclosing(first if place == 0 else service.speak(request, further=True)) as speech:
                async for piece in speech:
                    if isinstance(piece, Outcome):
                        outcomes.append(piece)
                        last = {**base, "timings": timings(piece)}
                        if len(outcomes) == len(self.requests):
                            last = with_warnings(last, self.warnings)
                        yield event({**last, "choices": [_choice(place, piece.rest, finish_reason(piece.finish))]})
                    elif piece.text or piece.places:
                        logprobs = self._logprobs(piece.places, start)
                        yield event({**base, "choices": [_choice(place, piece.text, None, logprobs)]})
                        start += characters(piece.places)
        if self.tells_usage:
            yield event({**base, "choices": [], "usage": usage(outcomes, self.answers)})
        yield DONE

    def _of_prompt(self, place: int, outcome: Outcome) -> Sequence[TokenLogprobs]:
        """Return the prompt's tokens with their log probabilities, without one that is not in its text."""
        places, question = outcome.prompt_places, self.requests[place].question
        added = not question.tokens and places[:1] and places[0].emitted.token == self.bos
        begins = added and self.echoes[place].startswith(places[0].emitted.data.decode(errors="replace"))
        return places[1:] if added and not begins else places

    def _logprobs(self, places: Sequence[TokenLogprobs], start: int = 0) -> dict[str, Any] | None:
        return None if self.requests[0].question.listed is None else text_logprobs(places, start)


def read_completions(
    fields: Fields, service: Service, prompts: Sequence[Prompt], form: Grammar | None
) -> CompletionsRequest:
    """Read the request for prompts and a form that are already read; raises Refused."""
    refuse_unsupported(fields)
    refuse_for_chats(fields)
    fields.text("model")
    echoes, suffix = _read_echo(fields), fields.text("suffix")
    if suffix:
        require_filling(service)
    base = _question(
        fields, service.settings.filling if suffix else service.settings.completing, form, service.loaded.vocab
    )
    answers = read_answers(fields)
    if len(prompts) * answers > _MOST_ANSWERS:
        fields.refuse("n", f"asks for more than {_MOST_ANSWERS} answers to all prompts together")
    vocab = service.loaded.vocab
    if echoes:
        base = replace(base, scores=base.listed)
    questions = [one for prompt in prompts for one in answers_to(_on(base, prompt, suffix), answers)]
    return CompletionsRequest(
        [EngineRequest(one, RequestKind.COMPLETION) for one in questions],
        fields.flag("stream"),
        wants_usage(fields),
        service.loaded.name,
        answers,
        fields.warnings,
        [_text(prompt, vocab) for prompt in prompts for _ in range(answers)] if echoes else (),
        vocab.bos,
    )


def _read_echo(fields: Fields) -> bool:
    """Tell whether answers begin with their prompts; raises Refused."""
    echoes = fields.flag("echo")
    for other in ("stream", "suffix"):
        if echoes and fields.raw(other):
            fields.refuse("echo", f"can't be combined with '{other}'")
    return echoes


def _text(prompt: Prompt, vocab: Vocab) -> str:
    return b"".join(spelling(vocab, token) for token in prompt.tokens).decode(errors="replace") or prompt.text


def _question(fields: Fields, base: Question, form: Grammar | None, vocab: Vocab) -> Question:
    return replace(
        base,
        sampling=read_sampling(fields, base.sampling, vocab),
        stops=read_stops(fields),
        max_tokens=read_count(fields, "max_tokens", "n_predict", default=base.max_tokens),
        prediction=read_prediction(fields),
        listed=read_listed(fields, "logprobs"),
        grammar=form,
    )


def _on(base: Question, prompt: Prompt, suffix: str | None) -> Question:
    return replace(base, infill=Infill(prompt.text, suffix)) if suffix else prompt.to(base)


def _choice(place: int, text: str, finish: str | None, logprobs: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"index": place, "text": text, "logprobs": logprobs, "finish_reason": finish}
