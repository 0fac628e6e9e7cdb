"""Grammar of an answer with tools: free text, and calls whose arguments match the tools' schemas."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from models.errors import UsageError
from models.forms.form_checker import fault
from models.forms.grammar import Grammar, closed_schema
from models.forms.loose_calls import AFTER_ARGUMENTS, before_arguments
from models.forms.relaxed_schema import relaxed
from models.text.tool_calls import CallFormat, Tool

_MOST_CALLS = 32
"""Calls in one answer: small models would repeat the same one for ever."""
_ANY = r"/(.|\n)*/"
_AS_WRITTEN = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""JSON as templates write it: read again in the next turn, it is as it was said."""
_KEPT_APART = {"type", "properties", "required", "additionalProperties", "title", "description", "$schema"}
_SHARED = ("$defs", "definitions")
"""Keys of parameters that can be kept where each argument stands by itself, and those that each of them needs."""
_NOTES = {"type", "title", "description", "default", "examples", "deprecated"}
"""Keys of a schema that leave a string as free as it is without them."""
_ODD = re.compile(r"[<>\n]|^$")
"""Names of arguments that would be read as a mark."""
_LONGEST_CAUSE = 600


def arguments_schema(parameters: object) -> Mapping[str, Any]:
    """Return the schema of a function's arguments, from its `parameters`.

    Raises UsageError for what is no schema of an object; whether it can be kept tells `check_tool`.
    """
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise _unusable("They have to be the JSON schema of an object.")
    return {**closed_schema({"type": "object", **parameters}), "x-guidance": _AS_WRITTEN}


def is_text(schema: object) -> bool:
    """Return whether an argument that stands by itself is written as a bare text, and not as JSON."""
    if not isinstance(schema, Mapping) or schema.get("type") != "string":
        return False
    return _choices(schema) is not None or schema.keys() <= _NOTES


def tool_grammar(
    form: CallFormat, tools: Sequence[Tool], *, must_call: bool, several: bool, answer: str = ""
) -> Grammar:
    """Return the form of an answer that may, or must, call some of these tools, once or `several` times.

    Without tools it calls none. All of them have to be checked. One that calls nothing is as the rule `answer` says:
    see `Grammar.rule`; "": as the model likes. With a rule calls come first, in `form` too.
    """
    kind = _ChannelRules if form.has_channels else _Rules
    rules = kind(form, several=several, answer=answer)
    return Grammar(rules.source(tools, must_call=must_call), form.has_channels)


def check_tool(form: CallFormat, tool: Tool) -> None:
    """Raise UsageError for a tool whose parameters can't be kept in this format."""
    # By itself first: what is wrong with a schema is then told without the grammar around it.
    if error := fault(json.dumps({"grammars": [{"json_schema": tool.schema}]})):
        raise _unusable(error)
    if error := fault(tool_grammar(form, [tool], must_call=True, several=False).source):
        raise _unusable(error)


def usable_tool(form: CallFormat, tool: Tool) -> tuple[Tool, list[str]]:
    """Return a tool as it can be called in this format, and the keywords of its schema that are not enforced then.

    Raises UsageError where more is wrong with it.
    """
    schema, names = dict(tool.schema), []
    if form.around is not None:
        names = sorted(schema.keys() - _KEPT_APART - {*_SHARED, "x-guidance"})
        schema = {key: value for key, value in schema.items() if key not in names}
    loose, further = relaxed(schema, lambda one: fault(json.dumps({"grammars": [{"json_schema": one}]})))
    if not names and not further:
        check_tool(form, tool)
        return tool, []
    tool = replace(tool, schema=loose)
    check_tool(form, tool)
    return tool, [*names, *(name for name in further if name not in names)]


class _Rules:
    """The rules of an answer that ends with its calls, in Lark's form."""

    def __init__(self, form: CallFormat, *, several: bool, answer: str = "") -> None:
        self._form = form
        self._answer = answer
        self._most = _MOST_CALLS if several and form.joins is not None else 1
        self._mark = re.compile(f"({'|'.join(map(re.escape, form.marks))})") if form.marks else None

    def source(self, tools: Sequence[Tool], *, must_call: bool) -> str:
        """Return the whole grammar."""
        answers = " | ".join(self._answers(tools, must_call=must_call))
        return "\n".join(["%llguidance {}", f"start: {answers}", *self._rules(tools)])

    def _answers(self, tools: Sequence[Tool], *, must_call: bool) -> Iterator[str]:
        form, opens = self._form, self._literal(self._form.opens)
        if self._answer and not must_call:
            # The model may spell what opens calls in other tokens than its own, and means it.
            yield f"answer | {opens} calls | {_quoted(form.opens)} calls" if tools else "answer"
            return
        if not must_call:
            yield "TEXT"
        if tools and form.is_bare:
            yield "calls"
        if tools:
            yield f"{opens} calls" if must_call else f"TEXT {opens} calls | opened calls"
        if tools and form.may_be_loose and not must_call:
            yield " | ".join(f"loose_{place}" for place in range(len(tools)))

    def _rules(self, tools: Sequence[Tool]) -> Iterator[str]:
        if self._answer:
            yield f"answer: {self._answer}"
        yield f"FREE: {self._free(tools)}"
        yield f"TEXT: {_without(self._form.opens)} & FREE"
        yield f"opened[lazy]: FREE {_quoted(self._form.opens)}"
        if tools:
            yield from self._calls(tools)
        if self._form.may_be_loose:
            yield from self._loose_calls(tools)

    def _free(self, tools: Sequence[Tool]) -> str:
        """Return what text may look like: what begins as a bare call does is one."""
        if self._form.is_bare:
            return r"/([^{](.|\n)*|\{([^\x22](.|\n)*)?)?/"
        if self._form.may_be_loose and tools:
            return rf"{_ANY} & ~/{before_arguments([tool.name for tool in tools])}(.|\n)*/"
        return _ANY

    def _loose_calls(self, tools: Sequence[Tool]) -> Iterator[str]:
        for place, tool in enumerate(tools):
            yield f"loose_{place}: /{before_arguments([tool.name])}/ arguments_{place} /{AFTER_ARGUMENTS}/"

    def _calls(self, tools: Sequence[Tool]) -> Iterator[str]:
        form = self._form
        more = f"({self._literal(form.joins or '')} call){{0,{self._most - 1}}} " if self._most > 1 else ""
        yield f"calls: call {more}{self._literal(form.closes)}"
        yield f"call: {' | '.join(f'call_{place}' for place in range(len(tools)))}"
        for place, tool in enumerate(tools):
            before, after = self._literal(form.before + tool.name + form.between), self._literal(form.after)
            yield f"call_{place}: {before} arguments_{place} {after}"
            yield from self._arguments(f"arguments_{place}", tool.schema)
        if form.around is not None:
            after = form.around[-1]
            # A lexeme of its own ends where this first comes; a token ends it anyway.
            lazy = not (form.marks.keys() & set(self._split(after)))
            yield f"value[lazy]: {_ANY} {_quoted(after)}" if lazy else f"value: VALUE {self._literal(after)}"
            yield f"VALUE: {_without(after)}"

    def _arguments(self, rule: str, schema: Mapping[str, Any]) -> Iterator[str]:
        if self._form.around is None:
            yield f"{rule}: %json {json.dumps(schema)}"
            return
        before, between, after = self._form.around
        if strange := schema.keys() - _KEPT_APART - {*_SHARED, "x-guidance"}:
            raise _unusable(f"Unimplemented keys: {sorted(strange)}.")
        if odd := [key for key in schema.get("properties") or () if _ODD.search(key)]:
            raise _unusable(f"This can't be the name of an argument: {odd[0]!r}.")
        shared = {key: schema[key] for key in (*_SHARED, "x-guidance") if key in schema}
        required, parts = schema.get("required") or (), []
        for place, (key, inner) in enumerate((schema.get("properties") or {}).items()):
            yield f"{rule}_{place}: {self._literal(before + key + between)} {self._value(inner, shared, after)}"
            parts.append(f"{rule}_{place}" + "?" * (key not in required))
        yield f"{rule}: {' '.join(parts) or _quoted('')}"

    def _value(self, schema: Any, shared: Mapping[str, Any], after: str) -> str:
        if not is_text(schema):
            inner = schema if isinstance(schema, Mapping) else {} if schema else {"not": {}}
            return f"%json {json.dumps({**inner, **shared})} {self._literal(after)}"
        if (choices := _choices(schema)) is None:
            return "value"
        return f"({' | '.join(map(_quoted, choices))}) {self._literal(after)}"

    def _literal(self, text: str) -> str:
        """Return a text as the model writes it: its marks as the tokens that they are."""
        marks = self._form.marks
        return " ".join(f"<[{marks[part]}]>" if part in marks else _quoted(part) for part in self._split(text))

    def _split(self, text: str) -> list[str]:
        return [part for part in (self._mark.split(text) if self._mark else [text]) if part]


class _ChannelRules(_Rules):
    """Those of an answer whose thoughts, text and calls are messages in channels."""

    def _answers(self, tools: Sequence[Tool], *, must_call: bool) -> Iterator[str]:
        yield from () if must_call else ("thought* final",)
        yield from ("thought* calls",) if tools else ()

    def _rules(self, tools: Sequence[Tool]) -> Iterator[str]:
        begins, ends = self._literal("<|channel|>"), self._literal("<|end|><|start|>assistant")
        message, kind = self._literal("<|message|>"), self._literal("<|constrain|>")
        yield f"TEXT: {_ANY}"
        yield f'thought: {begins} ("analysis" | "commentary") {message} TEXT {ends}'
        if self._answer:
            yield f"answer: {self._answer}"
        content = "answer" if self._answer else "TEXT"
        yield f'final: {begins} "final" (" "? {kind} /[a-z]{{1,32}}/)? {message} {content}'
        yield f'json: (" "? {kind} "json" | " json")?'
        yield f"calls: {' | '.join(f'call_{place}' for place in range(len(tools)))}" if tools else ""
        for place, tool in enumerate(tools):
            named = self._literal(self._form.opens + tool.name)
            yield f"call_{place}: {named} json {message} %json {json.dumps(tool.schema)}"


def _unusable(cause: str) -> UsageError:
    hint = "Leave out or replace what is named there; the arguments could otherwise break it."
    return UsageError("The parameters can't be used.", cause=cause[:_LONGEST_CAUSE], hint=hint)


def _choices(schema: Mapping[str, Any]) -> Sequence[str] | None:
    """Return the texts that a schema names; None where it does not."""
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    is_texts = isinstance(choices, list) and choices and all(isinstance(one, str) for one in choices)
    return choices if is_texts and schema.keys() <= _NOTES | {"const", "enum"} else None


def _without(text: str) -> str:
    return f"{_ANY} & ~({_ANY} {_quoted(text)} {_ANY})"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
