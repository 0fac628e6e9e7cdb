"""What clients say of a model's thoughts, in the fields of llama.cpp's server and of OpenAI's."""

from collections.abc import Mapping
from typing import TypeVar

from app.serve.fields import Fields
from app.serve.openai_fields import refuse
from models.prompts import LEVEL, SWITCHES
from models.thoughts import Effort

T = TypeVar("T")
_LEVELS = {
    "none": Effort.OFF,
    "minimal": Effort.LOW,
    "low": Effort.LOW,
    "medium": Effort.MEDIUM,
    "high": Effort.HIGH,
}
_FORMATS = {"none": False, "auto": True, "deepseek": True}


def read_effort(fields: Fields, default: Effort) -> Effort:
    """Read how much is to be thought before the answer; raises Refused."""
    options = fields.part("chat_template_kwargs") or Fields({})
    for name in options.names():
        if name not in (*SWITCHES, LEVEL):
            refuse(f"chat_template_kwargs.{name}", "chat templates are given the messages, and how much to think")
    said = [options.flag(name) for name in SWITCHES if options.has(name)]
    if said:
        return Effort.ON if said[0] else Effort.OFF
    return _level(options) or _level(fields) or default


def read_divides(fields: Fields) -> bool:
    """Read whether thoughts are to be told apart from the answer; raises Refused."""
    divides = _chosen(fields, "reasoning_format", _FORMATS)
    return True if divides is None else divides


def _level(fields: Fields) -> Effort | None:
    return _chosen(fields, LEVEL, _LEVELS)


def _chosen(fields: Fields, name: str, choices: Mapping[str, T]) -> T | None:
    wanted = fields.text(name)
    if wanted is None:
        return None
    return choices[wanted] if wanted in choices else fields.refuse(name, f"must be one of: {', '.join(choices)}")
