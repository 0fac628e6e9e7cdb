"""The messages of a conversation, in OpenAI's form, with calls of tools and their results."""

import json
from collections.abc import Mapping

from app.serve.body import is_too_deep, no_number
from app.serve.fields import Fields
from app.serve.openai_fields import read_content
from models.prompts import Message as Turn
from models.prompts import Role
from models.tool_calls import Call

_MOST_MESSAGES = 4096
_MOST_CALLS = 256
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def read_turns(fields: Fields) -> tuple[Turn, ...]:
    """Read the messages; raises Refused."""
    turns: list[Turn] = []
    called: dict[str, Call] = {}
    for part in fields.parts("messages", _MOST_MESSAGES):
        turns.append(_turn(part, called))
        called |= {call.id: call for call in turns[-1].calls}
    return tuple(turns) or fields.refuse("messages", "must have at least one message")


def _turn(part: Fields, called: Mapping[str, Call]) -> Turn:
    role = _ROLES.get(part.text("role") or "")
    if role is None:
        part.refuse("role", f"must be one of: {', '.join(_ROLES)}")
    text = read_content(part, "content")
    if text is None and role != "assistant":
        part.refuse("content", "is required")
    if role == "tool":
        return Turn(role, text or "", answers=_answered(part, called))
    if role != "assistant":
        return Turn(role, text or "")
    thoughts = part.text("reasoning_content") or part.text("reasoning") or ""
    return Turn(role, text or "", thoughts, tuple(_call(call) for call in part.parts("tool_calls", _MOST_CALLS)))


def _answered(part: Fields, called: Mapping[str, Call]) -> Call:
    """Return the call whose result a message is."""
    name = part.text("tool_call_id") or part.refuse("tool_call_id", "is required")
    if name not in called:
        part.refuse("tool_call_id", "is the id of no call before it")
    return called[name]


def _call(part: Fields) -> Call:
    if (part.text("type") or "function") != "function":
        part.refuse("type", "must be 'function'")
    function = part.part("function") or part.refuse("function", "is required")
    name = function.text("name") or function.refuse("name", "is required")
    return Call(name, _arguments(function), part.text("id") or part.refuse("id", "is required"))


def _arguments(function: Fields) -> str:
    """Read the arguments of a call: the text of an object, or, as other servers have it, the object itself."""
    given = function.raw("arguments")
    if isinstance(given, dict):
        return json.dumps(given, ensure_ascii=False)
    text = (function.text("arguments") or "").strip() or "{}"
    try:
        parsed = json.loads(text, parse_constant=no_number)
        json.dumps(parsed, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict) or is_too_deep(parsed):
        function.refuse("arguments", "must be the text of a JSON object")
    return text
