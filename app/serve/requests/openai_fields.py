"""Features of the protocols that localspec does not support: refused with a reason, never ignored."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from app.engine.decoding.request import Question
from app.serve.replies.errors import Refused
from app.serve.requests.fields import Fields

MOST_ANSWERS = 8
"""Maximum answers to one prompt."""
_SEEDS = 1 << 64
_TEXTS = ("text", "input_text", "output_text", "refusal")
"""Types of message parts that are text."""


def refuse_unsupported(fields: Fields) -> None:
    """Refuse unsupported fields that would otherwise be ignored."""
    if fields.whole("best_of", 0, 1 << 16) not in (None, 1, read_answers(fields)):
        refuse("best_of", "all answers are returned: use 'n'")
    refuse_probabilities(fields, "n_probs")
    _refuse_calls(fields, "function_call", "this server calls functions that are named in 'tools'")
    if fields.has("web_search_options"):
        # Even an empty object requests a search.
        refuse("web_search_options", "this server does not search the web")
    _refuse_modalities(fields)


def read_answers(fields: Fields) -> int:
    """Read how many answers one prompt gets; raises Refused."""
    count = fields.whole("n", 1, MOST_ANSWERS)
    return 1 if count is None else count


def answers_to(question: Question, count: int) -> Sequence[Question]:
    """Return a question for each of several answers; the first has the given seed, and each other one the next seed."""
    sampling, seeds = question.sampling, range(question.sampling.seed, question.sampling.seed + count)
    return [replace(question, sampling=replace(sampling, seed=seed % _SEEDS)) for seed in seeds]


def refuse_for_chats(fields: Fields) -> None:
    """Refuse fields that only conversations support."""
    _refuse_calls(fields, "tool_choice", "texts go to the model without a template")
    refuse_probabilities(fields, "top_logprobs")


def refuse_native(fields: Fields) -> None:
    """Refuse fields that llama.cpp's server supports and this one does not."""
    refuse_probabilities(fields, "logprobs")
    _refuse_more_than_one(fields, "n")
    _refuse_modalities(fields)


def refuse_several(fields: Fields) -> None:
    """Refuse several answers to one prompt. llama.vscode sends the field with each infill and needs no effect there."""
    _refuse_more_than_one(fields, "n_cmpl")


def read_prediction(fields: Fields) -> str:
    """Read the predicted text of the answer; "" for none."""
    if isinstance(fields.raw("prediction"), str):
        return fields.text("prediction") or ""
    part = fields.part("prediction")
    if part is None:
        return ""
    if part.text("type") != "content":
        part.refuse("type", "must be 'content'")
    return read_content(part, "content") or ""


def read_content(fields: Fields, name: str) -> str | None:
    """Read a text, or a list of parts that are texts; None for a missing member."""
    if not isinstance(fields.raw(name), list):
        return fields.prose(name)
    texts = []
    for part in fields.parts(name, 4096):
        kind = part.text("type")
        if kind not in _TEXTS:
            part.refuse("type", "must be 'text': this server accepts only text")
        texts.append(part.prose("refusal" if kind == "refusal" else "text") or "")
    return "\n".join(texts)


def wants_usage(fields: Fields) -> bool:
    """Tell whether a stream ends with the token counts."""
    options = fields.part("stream_options")
    return options is not None and options.flag("include_usage")


def refuse(name: str, why: str) -> NoReturn:
    """Refuse a field that is not supported."""
    raise Refused(400, f"'{name}' is not supported: {why}.", param=name, code="unsupported_parameter")


def refuse_probabilities(fields: Fields, name: str) -> None:
    """Refuse a request for probabilities under a field that this path does not support."""
    if (fields.whole(name, -1, 1 << 16) or 0) > 0:
        refuse(name, "this path returns no probabilities for this field")


def _refuse_modalities(fields: Fields) -> None:
    if any(kind != "text" for kind in fields.texts("modalities", 8)):
        refuse("modalities", "this server answers in text")


def _refuse_more_than_one(fields: Fields, *names: str) -> None:
    for name in names:
        if fields.whole(name, 0, 1 << 16) not in (None, 1):
            refuse(name, "on this path each prompt gets one answer")


def _refuse_calls(fields: Fields, name: str, why: str) -> None:
    if fields.raw(name) not in (None, "none", "auto"):
        refuse(name, why)
