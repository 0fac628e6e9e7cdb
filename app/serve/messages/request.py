"""A request of Anthropic's protocol, read as a chat request."""

import re
from dataclasses import dataclass

from app.serve.messages.conversation import chat_messages
from app.serve.requests.chat import ChatRequest, read_chat
from app.serve.requests.fields import Fields
from app.serve.requests.known_fields import READ, Route
from app.serve.requests.openai_fields import refuse
from app.serve.service import Service

_MOST_TOOLS = 256
_CONVERTED = frozenset(["messages", "system", "tools", "tool_choice", "output_config", "output_format", "thinking"])
"""Fields that a chat has in another form; the others are read as those of a chat."""
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_HIDDEN = ("summarized", "omitted")
_FUNCTION = re.compile(r"^(tools\[\d+\]|tool_choice)\.function\b")


@dataclass(frozen=True, slots=True)
class MessagesRequest:
    """A conversation whose next message is to be generated."""

    chat: ChatRequest
    shows_thoughts: bool
    """Whether the text of thoughts is sent; else their blocks are empty."""


def read_messages(fields: Fields, service: Service) -> MessagesRequest:
    """Read a conversation; raises Refused."""
    members = {name: fields.raw(name) for name in sorted(READ[Route.MESSAGES] - _CONVERTED)}
    members["messages"] = chat_messages(fields) or fields.refuse("messages", "must have at least one message")
    members["tools"] = _tools(fields)
    members["tool_choice"], members["parallel_tool_calls"] = _choice(fields)
    thinking, shows = _thinking(fields)
    effort, form, name = _output(fields)
    members["thinking"], members["response_format"] = thinking, form
    # What is switched off has no effort.
    members["reasoning_effort"] = None if thinking == {"type": "disabled"} else effort
    names = {"reasoning_effort": "output_config.effort", "response_format": name}
    return MessagesRequest(read_chat(fields.converted(members, names, _spelled), service), shows)


def _spelled(name: str) -> str:
    """Return a field of a chat under its name in this protocol."""
    name = _FUNCTION.sub(r"\1", name)
    if name.startswith("tools["):
        name = name.replace(".parameters", ".input_schema")
    return "tool_choice.disable_parallel_tool_use" if name == "parallel_tool_calls" else name


def _tools(fields: Fields) -> list[object]:
    return [_tool(part) for part in fields.parts("tools", _MOST_TOOLS)]


def _tool(part: Fields) -> dict[str, object]:
    kind = part.text("type") or "custom"
    if kind != "custom":
        part.refuse("type", "must be 'custom': this server runs no tools, and knows a tool by its 'input_schema' alone")
    members = {"name": "name", "description": "description", "parameters": "input_schema", "strict": "strict"}
    return {"type": "function", "function": {name: part.raw(given) for name, given in members.items()}}


def _choice(fields: Fields) -> tuple[object, bool | None]:
    """Return the choice of tools, and whether several may be called; None: not said."""
    choice = fields.part("tool_choice")
    if choice is None:
        return None, None
    several = None
    if choice.has("disable_parallel_tool_use"):
        several = not choice.flag("disable_parallel_tool_use")
    kind = choice.text("type") or ""
    if kind == "tool":
        name = choice.prose("name") or choice.refuse("name", "is required")
        return {"type": "function", "function": {"name": name}}, several
    if kind not in _CHOICES:
        choice.refuse("type", f"must be one of: {', '.join((*_CHOICES, 'tool'))}")
    return _CHOICES[kind], several


def _thinking(fields: Fields) -> tuple[object, bool]:
    """Return how to think, as a chat has it, and whether thoughts are shown."""
    thinking = fields.part("thinking")
    if thinking is None:
        return None, True
    display = thinking.text("display")
    if display not in (None, *_HIDDEN):
        thinking.refuse("display", f"must be one of: {', '.join(_HIDDEN)}")
    members = {name: thinking.raw(name) for name in ("type", "budget_tokens") if thinking.has(name)}
    return members, display != "omitted"


def _output(fields: Fields) -> tuple[object, object, str]:
    """Return the effort, the form of the answer, and the name of the field that has the form."""
    config = fields.part("output_config") or Fields({})
    inner, outer = config.part("format"), fields.part("output_format")
    if inner is not None and outer is not None:
        fields.refuse("output_format", "can't be combined with 'output_config.format'")
    form, name = (outer, "output_format") if inner is None else (inner, "output_config.format")
    if form is None:
        return config.text("effort"), None, name
    if form.text("type") != "json_schema":
        form.refuse("type", "must be 'json_schema'")
    if not form.has("schema"):
        form.refuse("schema", "is required")
    return config.text("effort"), {"type": "json_schema", "schema": form.raw("schema"), "strict": True}, name


def refuse_streams(fields: Fields) -> None:
    """Refuse a stream of a number; raises Refused."""
    if fields.flag("stream"):
        refuse("stream", "a count of tokens is one number")
