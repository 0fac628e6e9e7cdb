"""Tools of a request, and tool calls of a reply."""

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.serve.requests.fields import Fields
from app.serve.requests.openai_fields import refuse
from models.errors import UsageError
from models.forms.form_checker import fault
from models.forms.grammar import Grammar
from models.forms.tool_division import CallPiece
from models.forms.tool_grammar import arguments_schema, check_tool, tool_grammar, usable_tool
from models.text.tool_calls import CallFormat, Tool

_MOST_TOOLS = 256
_LONGEST_CAUSE = 600
_NAME = re.compile(r"[\w.:/-]{1,128}", re.ASCII)
_CHOICES = ("none", "auto", "required")
_UNKNOWN = "this model has no call format that localspec knows"
_NOTHING = {"type": "object", "properties": {}}
"""Parameters of a function that declares none."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools of one answer."""

    form: CallFormat
    tools: tuple[Tool, ...]
    """All tools that the template shows to the model."""
    grammar: Grammar
    """Grammar of an answer that calls one of them."""
    called: tuple[Tool, ...]
    """Tools that this answer may call."""


def read_tools(fields: Fields, form: CallFormat | None, answer: Grammar | None = None) -> Offer | None:
    """Read the tools for a model with this call format; None for no tools. Raises Refused.

    `answer` is the required form of an answer without calls; None: free text.
    """
    choice = _choice(fields)
    # A small model that must call would repeat calls until the context is full: by default, one call.
    several = fields.flag("parallel_tool_calls", default=choice == "auto")
    parts = fields.parts("tools", _MOST_TOOLS)
    if not parts and choice not in ("none", "auto"):
        fields.refuse("tool_choice", "asks for a call, but there are no 'tools'")
    if not parts or (form is None and choice == "none"):
        return None
    if form is None:
        refuse("tools", _UNKNOWN)
    tools = tuple(_tool(part, form) for part in parts)
    _refuse_namesakes(fields, tools)
    called = _callable(fields, tools, choice)
    several = several and not isinstance(choice, tuple)
    rule = ""
    if answer is not None and called:
        rule, form = _rule(fields, answer, form), replace(form, comes_first=True, may_be_loose=False)
    grammar = tool_grammar(form, called, must_call=choice not in ("none", "auto"), several=several, answer=rule)
    if error := fault(grammar.source):
        # Each grammar may be small enough while all together are too large.
        fields.refuse("tools", f"can't be used together: {error[:_LONGEST_CAUSE].removesuffix('.')}")
    return Offer(form, tools, grammar, called)


def _rule(fields: Fields, answer: Grammar, form: CallFormat) -> str:
    """Return the rule of an answer that has a form if it calls nothing; raises Refused if both can't be combined."""
    if (rule := answer.rule) is None:
        fields.refuse("tools", "can't be called in an answer that follows a grammar; a JSON schema can be asked for")
    if form.is_bare:
        fields.refuse("tools", "can't be combined with an answer in JSON: this model's calls are JSON too")
    return rule


def tool_call(piece: CallPiece) -> dict[str, Any]:
    """Return a part of a call as clients read it; in a stream with its index."""
    if not piece.name:
        return {"function": {"arguments": piece.arguments}}
    function = {"name": piece.name, "arguments": piece.arguments}
    return {"id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}


def _choice(fields: Fields) -> str | tuple[str]:
    """Read the tool choice: one of `_CHOICES`, or a function's name, alone in a tuple."""
    if isinstance(fields.raw("tool_choice"), dict):
        chosen = fields.part("tool_choice") or Fields({})
        if chosen.text("type") != "function":
            chosen.refuse("type", "must be 'function'")
        function = chosen.part("function") or chosen.refuse("function", "is required")
        return (_name(function) or function.refuse("name", "is required"),)
    choice = fields.text("tool_choice") or "auto"
    return choice if choice in _CHOICES else fields.refuse("tool_choice", f"must be one of: {', '.join(_CHOICES)}")


def _name(function: Fields) -> str | None:
    """Read a function's name; "_" stands for half of a surrogate pair, since a call has names in ASCII alone."""
    name = function.prose("name")
    return None if name is None else name.replace("\ufffd", "_")


def _refuse_namesakes(fields: Fields, tools: Sequence[Tool]) -> None:
    for place, tool in enumerate(tools):
        if any(tool.name == other.name for other in tools[:place]):
            fields.refuse(f"tools[{place}].function.name", "is that of another tool")


def _callable(fields: Fields, tools: tuple[Tool, ...], choice: str | tuple[str]) -> tuple[Tool, ...]:
    if isinstance(choice, str):
        return () if choice == "none" else tools
    named = tuple(tool for tool in tools if tool.name in choice)
    return named or fields.refuse("tool_choice", "names a function that is none of 'tools'")


def _tool(part: Fields, form: CallFormat) -> Tool:
    if part.text("type") != "function":
        part.refuse("type", "must be 'function'")
    function = (part.part("function") or part.refuse("function", "is required")).mended()
    name = _name(function) or ""
    if not _NAME.fullmatch(name):
        function.refuse("name", "must have from 1 to 128 letters, digits, underscores, dashes, dots, colons or slashes")
    # Some templates require all three members.
    parameters = _NOTHING if function.raw("parameters") in (None, {}) else function.raw("parameters")
    about = {"name": name, "description": function.text("description") or "", "parameters": parameters}
    try:
        tool = Tool(name, {"type": "function", "function": about}, arguments_schema(parameters))
        if function.flag("strict"):
            check_tool(form, tool)
            return tool
        tool, loose = usable_tool(form, tool)
    except UsageError as error:
        function.refuse("parameters", f"can't be used: {error.cause}")
    if loose:
        named = ", ".join(f"'{key}'" for key in loose)
        function.warn("parameters", f"has {named}, which this server does not enforce: arguments may break it")
    return tool
