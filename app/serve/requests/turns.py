"""The messages of a conversation in OpenAI's form, with tool calls and their results.

Every message that a server has sent is readable again: a cut call, or a result without its call, becomes text.
"""

import json

from app.serve.requests.body import is_too_deep, parse
from app.serve.requests.fields import Fields, whole_characters
from app.serve.requests.openai_fields import read_content
from models.text.json_parts import has_more_parts
from models.text.prompts import Message as Turn
from models.text.prompts import Role
from models.text.tool_calls import Call

_MOST_MESSAGES = 4096
_MOST_CALLS = 256
_MOST_PARTS = 1 << 16
"""Maximum commas, opening brackets and strings of a call's arguments; longer ones stay text."""
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_NAMED = ("system", "developer", "user", "assistant", "tool")
"""Roles that an error lists; the others belong to older protocols."""


def read_turns(fields: Fields) -> tuple[Turn, ...]:
    """Read the messages; raises Refused."""
    conversation = _Conversation()
    for part in fields.parts("messages", _MOST_MESSAGES):
        conversation.add(part)
    return conversation.turns() or fields.refuse("messages", "must have at least one message")


class _Conversation:
    """Collects turns: call `add` for each message in order, then `turns`."""

    def __init__(self) -> None:
        self._turns: list[Turn] = []
        self._open: list[Call] = []
        """Calls without results yet, those of the latest answer first: ids may repeat."""
        self._cut: list[Call] = []
        """Calls that became text, without results yet."""
        self._results: list[str] = []
        """Results without a call. They become one user turn after the last result."""

    def add(self, part: Fields) -> None:
        """Read one message; raises Refused."""
        role = _ROLES.get(part.text("role") or "")
        if role is None:
            part.refuse("role", f"must be one of: {', '.join(_NAMED)}")
        text = read_content(part, "content")
        if role == "tool":
            self._add_result(part, text or "")
        elif role == "assistant":
            self._add_answer(part, text or "")
        elif text is None:
            part.refuse("content", "is required")
        elif role == "user" and self._results:
            self._end_results(text)
        else:
            self._end_results()
            self._turns.append(Turn(role, text))

    def turns(self) -> tuple[Turn, ...]:
        """Return all turns."""
        self._end_results()
        return tuple(self._turns)

    def _add_answer(self, part: Fields, text: str) -> None:
        self._end_results()
        text = text or part.prose("refusal") or ""
        thoughts = part.prose("reasoning_content") or part.prose("reasoning") or ""
        calls = _calls(part)
        whole = tuple(call for call in calls if _is_object(call.arguments))
        self._cut = [call for call in calls if call not in whole]
        self._open = [*whole, *self._open]
        text = "\n".join(filter(None, (text, *map(_spelled, self._cut))))
        self._turns.append(Turn("assistant", text, thoughts, whole))

    def _add_result(self, part: Fields, text: str) -> None:
        id_ = part.prose("tool_call_id") or ""
        name = part.prose("name") or part.prose("tool_name") or ""
        if (call := _taken(self._open, id_, name)) is not None:
            self._turns.append(Turn("tool", text, answers=call))
            return
        cut = _taken(self._cut, id_, name)
        name = name if cut is None else cut.name
        self._results.append(f"Result of {name or 'a tool'}: {text}")

    def _end_results(self, *further: str) -> None:
        """Put results without a call into one user turn, together with the user's next text."""
        if not self._results:
            return
        # Templates that require alternating roles refuse two user turns in a row.
        before = (self._turns.pop().text,) if self._turns and self._turns[-1].role == "user" else ()
        self._turns.append(Turn("user", "\n\n".join((*before, *self._results, *further))))
        self._results = []


def _taken(calls: list[Call], id_: str, name: str) -> Call | None:
    """Take a result's call out of a list: by id, else by name, else the first one."""
    fitting = (place for place, call in enumerate(calls) if (call.id == id_ if id_ else name in ("", call.name)))
    place = next(fitting, None)
    return None if place is None else calls.pop(place)


def _calls(part: Fields) -> tuple[Call, ...]:
    """Read the calls of an answer; OpenAI's older form has one call without an id."""
    calls = tuple(_call(call, place) for place, call in enumerate(part.parts("tool_calls", _MOST_CALLS)))
    older = part.part("function_call")
    return calls if calls or older is None else (_function(older, "call_0"),)


def _call(part: Fields, place: int) -> Call:
    if (part.text("type") or "function") != "function":
        part.refuse("type", "must be 'function'")
    function = part.part("function") or part.refuse("function", "is required")
    return _function(function, part.prose("id") or f"call_{place}")


def _function(function: Fields, id_: str) -> Call:
    return Call(function.prose("name") or function.refuse("name", "is required"), _arguments(function), id_)


def _arguments(function: Fields) -> str:
    """Read the arguments of a call: a text, or an object as other servers send it."""
    given = function.raw("arguments")
    if isinstance(given, dict):
        return whole_characters(json.dumps(given, ensure_ascii=False))
    text = (function.prose("arguments") or "").strip() or "{}"
    # An escaped half of a surrogate pair appears only after parsing.
    return text if not _has_half(text) else whole_characters(json.dumps(json.loads(text), ensure_ascii=False))


def _has_half(text: str) -> bool:
    """Tell whether arguments are JSON with half of a surrogate pair in it."""
    parsed = _parsed(text) if "\\ud" in text.lower() else None
    return parsed is not None and any("\ud800" <= one <= "\udfff" for one in json.dumps(parsed, ensure_ascii=False))


def _parsed(text: str) -> object:
    """Return the value of a JSON text; None for other texts, and for those that take too long to parse."""
    try:
        return None if has_more_parts(text, _MOST_PARTS) else parse(text)
    except (ValueError, RecursionError):
        return None


def _is_object(text: str) -> bool:
    parsed = _parsed(text)
    return isinstance(parsed, dict) and not is_too_deep(parsed)


def _spelled(call: Call) -> str:
    """Return a call as text, as far as it is complete."""
    return call.spelled.removesuffix("}") if _parsed(call.arguments) is None else call.spelled
