"""Thinking effort of a chat, from the fields of llama.cpp's server, OpenAI's and others.

An effort is a preference: a model without that effort gets the nearest one, and the reply has a warning.
"""

from collections.abc import Collection, Mapping
from typing import TypeVar

from app.serve.requests.fields import Fields
from app.serve.requests.openai_fields import refuse
from models.text.prompts import LEVEL, SWITCHES
from models.text.thoughts import Effort, nearest_effort

T = TypeVar("T")
_LEVELS = {
    "none": Effort.OFF,
    "minimal": Effort.LOW,
    "low": Effort.LOW,
    "medium": Effort.MEDIUM,
    "high": Effort.HIGH,
    "xhigh": Effort.HIGH,
    "max": Effort.HIGH,
}
_AUTO = ("auto", "default")
_LEAST = "minimal"
_BEYOND = ("minimal", "xhigh", "max")
"""Values beyond every effort of a chat template."""
_KINDS = {
    "enabled": Effort.ON,
    "disabled": Effort.OFF,
    **dict.fromkeys(("auto", "adaptive", "between_tools"), Effort.AUTO),
}
"""Values of `type` in the object `thinking`."""
_FORMATS = {"none": False, "auto": True, "deepseek": True}
_BUDGETS = ("thinking_budget", "thinking_budget_tokens", "reasoning_budget", "thinking_token_budget")
_MOST_BUDGET = 1 << 31
_NO_BUDGET = "is not followed: this server does not count the tokens of thoughts"


def read_effort(fields: Fields, default: Effort, known: Collection[Effort]) -> Effort:
    """Read the thinking effort for a model with the efforts `known`; () means all. The first field present counts.

    Raises Refused for a value that names no effort.
    """
    fields_given = [*_of_template(fields), *_of_openai(fields), *_of_others(fields)]
    return fields_given[0].of(known) if fields_given else nearest_effort(default, known)


class _EffortField:
    """A requested effort, with the field that names it."""

    def __init__(self, fields: Fields, name: str, value: str | bool) -> None:
        """Take field and value; raises Refused for a text that names no effort."""
        self._fields, self._name, self._value = fields, name, value
        if isinstance(value, bool):
            self._effort: Effort | None = Effort.ON if value else Effort.OFF
        else:
            self._value = value.strip().lower()
            self._effort = None if self._value in _AUTO else _LEVELS.get(self._value)
            if self._effort is None and self._value not in _AUTO:
                fields.refuse(name, f"must be one of: {', '.join(_LEVELS)}")

    def of(self, known: Collection[Effort]) -> Effort:
        """Return the effort that the model gets; add a warning if it differs from the request."""
        if self._effort is None or (self._effort is Effort.OFF and Effort.ON not in known):
            return Effort.AUTO
        wanted = self._effort
        if self._value == _LEAST and wanted not in known and {Effort.ON, Effort.OFF} <= {*known}:
            wanted = Effort.OFF
        effort = nearest_effort(wanted, known)
        if effort is not self._effort or self._value in _BEYOND:
            self._warn(effort, known)
        return effort

    def _warn(self, effort: Effort, known: Collection[Effort]) -> None:
        if Effort.ON not in known:
            self._fields.warn(self._name, "has no effect: this model does not think before it answers")
        elif self._effort is Effort.OFF:
            self._fields.warn(self._name, f"is '{effort}' here: this model can't be kept from thinking")
        else:
            wanted = self._value if isinstance(self._value, str) else str(self._effort)
            self._fields.warn(self._name, f"is '{effort}' here: this model has no '{wanted}'")


def _of_template(fields: Fields) -> list[_EffortField]:
    """Read the variables of chat templates."""
    options = fields.part("chat_template_kwargs") or Fields({})
    for name in options.names():
        if name not in (*SWITCHES, LEVEL):
            refuse(f"chat_template_kwargs.{name}", "chat templates are given the messages, and how much to think")
    switches = [_EffortField(options, name, options.flag(name)) for name in SWITCHES if options.has(name)]
    return [*switches, *_level(options, LEVEL)]


def _of_openai(fields: Fields) -> list[_EffortField]:
    """Read OpenAI's field, and the object of OpenRouter and OpenAI's newer protocol."""
    options = fields.part("reasoning") or Fields({})
    if options.has("max_tokens"):
        options.warn("max_tokens", _NO_BUDGET)
    if options.flag("exclude"):
        options.warn("exclude", "is not followed: thoughts come in 'reasoning_content'")
    return [*_level(fields, LEVEL), *_level(options, "effort"), *_switch(options, "enabled")]


def _of_others(fields: Fields) -> list[_EffortField]:
    """Read `thinking` of Anthropic, DeepSeek and GLM, `think` of Ollama, and separate switches."""
    fields_given = [*_thinking(fields), *_switch(fields, "enable_thinking")]
    fields_given += _switch(fields, "think") if isinstance(fields.raw("think"), bool) else _level(fields, "think")
    for name in _BUDGETS:
        budget = fields.whole(name, -1, _MOST_BUDGET)
        if budget == 0:
            fields_given.append(_EffortField(fields, name, value=False))
        elif budget is not None and budget > 0:
            fields.warn(name, _NO_BUDGET)
    return fields_given


def _thinking(fields: Fields) -> list[_EffortField]:
    if isinstance(fields.raw("thinking"), bool):
        return _switch(fields, "thinking")
    options = fields.part("thinking") or Fields({})
    if options.has("budget_tokens"):
        options.warn("budget_tokens", _NO_BUDGET)
    kind = _chosen(options, "type", _KINDS)
    return [] if kind in (None, Effort.AUTO) else [_EffortField(options, "type", kind is Effort.ON)]


def _level(fields: Fields, name: str) -> list[_EffortField]:
    wanted = fields.text(name)
    return [] if wanted is None else [_EffortField(fields, name, wanted)]


def _switch(fields: Fields, name: str) -> list[_EffortField]:
    return [_EffortField(fields, name, fields.flag(name))] if fields.has(name) else []


def read_divides(fields: Fields) -> bool:
    """Read whether thoughts get a field of their own; raises Refused."""
    divides = _chosen(fields, "reasoning_format", _FORMATS)
    return True if divides is None else divides


def _chosen(fields: Fields, name: str, choices: Mapping[str, T]) -> T | None:
    wanted = fields.text(name)
    if wanted is None:
        return None
    return choices[wanted] if wanted in choices else fields.refuse(name, f"must be one of: {', '.join(choices)}")
