"""The functions that a model may call: what a request says of them, and the calls of a reply."""

import json
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
_UNKNOWN = "this model has no way to call tools, or none that is known here"
_NOTHING = {"type": "object", "properties": {}}
"""The parameters of a function that has none."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Tools for an answer."""

    form: CallFormat
    tools: tuple[Tool, ...]
    """All that the model is told of."""
    grammar: Grammar
    """What an answer looks like that calls some of them."""
    called: tuple[Tool, ...]
    """Those that it can call."""


def read_tools(fields: Fields, form: CallFormat | None, answer: Grammar | None = None) -> Offer | None:
    """Read what may be called by a model that calls in this form; None for no tools. Raises Refused.

    `answer` is what an answer that calls nothing has to look like; None: as it likes.
    """
    choice = _choice(fields)
    # Who has to call, and is too small a model to know when it is enough, would call until the context is full.
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
        # Each of them can be small enough, and all together too large.
        fields.refuse("tools", f"can't be used together: {error[:_LONGEST_CAUSE].removesuffix('.')}")
    return Offer(form, tools, grammar, called)


def _rule(fields: Fields, answer: Grammar, form: CallFormat) -> str:
    """Return the rule of an answer that has a form where it calls nothing; raises Refused where both can't be."""
    if (rule := answer.rule) is None:
        fields.refuse("tools", "can't be called in an answer that follows a grammar; a JSON schema can be asked for")
    if form.is_bare:
        fields.refuse("tools", "can't be told from an answer in JSON, as this model writes its calls")
    return rule


def tool_call(piece: CallPiece) -> dict[str, Any]:
    """Return a piece of a call as clients read it, in a reply or, with its place beside it, in a stream."""
    if not piece.name:
        return {"function": {"arguments": piece.arguments}}
    function = {"name": piece.name, "arguments": piece.arguments}
    return {"id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}


def _choice(fields: Fields) -> str | tuple[str]:
    """Read what is to be called: one of `_CHOICES`, or the name of a function, alone in a tuple."""
    if isinstance(fields.raw("tool_choice"), dict):
        chosen = fields.part("tool_choice") or Fields({})
        if chosen.text("type") != "function":
            chosen.refuse("type", "must be 'function'")
        function = chosen.part("function") or chosen.refuse("function", "is required")
        return (function.text("name") or function.refuse("name", "is required"),)
    choice = fields.text("tool_choice") or "auto"
    return choice if choice in _CHOICES else fields.refuse("tool_choice", f"must be one of: {', '.join(_CHOICES)}")


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
    function = part.part("function") or part.refuse("function", "is required")
    name = function.text("name") or ""
    if not _NAME.fullmatch(name):
        function.refuse("name", "must have from 1 to 128 letters, digits, underscores, dashes, dots, colons or slashes")
    # Some templates take for granted that all three are there.
    parameters = _NOTHING if function.raw("parameters") in (None, {}) else function.raw("parameters")
    about = {"name": name, "description": function.text("description") or "", "parameters": parameters}
    try:
        json.dumps(parameters, ensure_ascii=False).encode()
        tool = Tool(name, {"type": "function", "function": about}, arguments_schema(parameters))
        if function.flag("strict"):
            check_tool(form, tool)
            return tool
        tool, loose = usable_tool(form, tool)
    except UnicodeEncodeError:
        function.refuse("parameters", "has half of a surrogate pair in it")
    except UsageError as error:
        function.refuse("parameters", f"can't be used: {error.cause}")
    if loose:
        named = ", ".join(f"'{key}'" for key in loose)
        function.warn("parameters", f"has {named}, which this server does not enforce: arguments may break it")
    return tool
