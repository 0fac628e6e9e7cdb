"""The settings that can be changed in a running chat, by the names of their flags."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from enum import StrEnum
from typing import TypeVar

from app.engine.conversation.slot import FIXED_LENGTH
from app.engine.decoding.request import Question
from models.errors import UsageError
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams
from models.system.counted import counted
from models.text.thoughts import Effort

_SAMPLING = {
    {"temperature": "temp", "penalty_window": "repeat-last-n"}.get(entry.name, entry.name.replace("_", "-")): entry.name
    for entry in fields(SamplingParams)
    if entry.name not in ("bias", "dry")
}
_Choice = TypeVar("_Choice", bound=StrEnum)
_NO_FORM = "off"
_LONGEST_DRAFT, _MOST_TOKENS = 64, 2**31 - 1


def setting_values(settings: Question) -> Mapping[str, object]:
    """Return every setting with its value, as people write it."""
    sampling = {name: getattr(settings.sampling, attribute) for name, attribute in _SAMPLING.items()}
    longest = settings.draft_length
    return {
        **sampling,
        "draft-max": "-1 (adaptive)" if longest is None else longest,
        "predict": "-1 (no limit)" if settings.max_tokens is None else settings.max_tokens,
        "accept": f"{settings.accept} ({settings.accept.claim})",
        "think": str(settings.effort),
        "form": "as given at the start" if settings.grammar else _NO_FORM,
    }


def with_setting(settings: Question, name: str, value: str) -> Question:
    """Return the settings with one of them changed. Raises UsageError for an unknown name or an invalid value."""
    names = setting_values(settings)
    if name not in names:
        raise UsageError(f"Unknown setting '{name}'.", hint=f"The settings are: {', '.join(names)}.")
    if name == "accept":
        return replace(settings, accept=_one_of(Accept, name, value))
    if name == "form":
        _check_lifts(value)
        return replace(settings, grammar=None)
    if name == "think":
        return replace(settings, effort=_one_of(Effort, name, value))
    try:
        if name == "draft-max":
            return replace(settings, draft_length=_count(name, int(value), range(_LONGEST_DRAFT + 1)))
        if name == "predict":
            return replace(settings, max_tokens=_count(name, int(value), range(1, _MOST_TOKENS + 1)))
        attribute = _SAMPLING[name]
        wanted = type(getattr(settings.sampling, attribute))(value)
        if name == "seed" and wanted < 0:
            wanted = secrets.randbits(32)
        return replace(settings, sampling=replace(settings.sampling, **{attribute: wanted}))
    except ValueError:
        raise UsageError(f"{name} can't be '{value}'.", hint="Expected a number.") from None


def thinking_note(settings: Question, efforts: Sequence[Effort]) -> str | None:
    """Return a note about the efforts of a thinking model; None for any other."""
    if settings.raw or Effort.ON not in efforts:
        return None
    return f"The model thinks before it answers. /set think takes {', '.join(efforts)}."


def form_note(settings: Question) -> str | None:
    """Return a note about the grammar that constrains all answers; None without one."""
    return (
        "Every answer follows the JSON schema or grammar given at the start. /set form off removes it."
        if settings.grammar
        else None
    )


def draft_length_text(settings: Question) -> str:
    """Return the limit on draft length, in words."""
    if not settings.adapt:
        length = FIXED_LENGTH if settings.draft_length is None else settings.draft_length
        return f"{counted(length, 'draft token')} per round"
    if settings.draft_length is None:
        return "adaptive draft length"
    return f"at most {counted(settings.draft_length, 'draft token')} per round"


def _check_lifts(value: str) -> None:
    """Refuse all values but the one that lifts a form; raises UsageError."""
    if value != _NO_FORM:
        hint = f"Expected {_NO_FORM}. A form can only be set at the start, with --json-schema or --grammar."
        raise UsageError(f"form can't be '{value}'.", hint=hint)


def _count(name: str, value: int, allowed: range) -> int | None:
    """Return a number of tokens, None for -1; raises UsageError for one that its flag would refuse."""
    if value != -1 and value not in allowed:
        hint = f"Expected {allowed[0]} to {allowed[-1]:,}, or -1 for no limit."
        raise UsageError(f"{name} can't be {value}.", hint=hint)
    return None if value == -1 else value


def _one_of(choices: type[_Choice], name: str, value: str) -> _Choice:
    try:
        return choices(value)
    except ValueError:
        raise UsageError(f"{name} can't be '{value}'.", hint=f"Expected one of: {', '.join(choices)}.") from None
