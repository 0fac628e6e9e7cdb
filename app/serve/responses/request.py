"""A request of OpenAI's newer protocol, read as a chat request."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.serve.replies.errors import Refused
from app.serve.requests.chat import ChatRequest, read_chat
from app.serve.requests.fields import Fields, whole_characters
from app.serve.requests.known_fields import READ, Route
from app.serve.requests.openai_fields import refuse
from app.serve.responses.items import chat_messages
from app.serve.responses.kept import KeptResponses, Message
from app.serve.service import Service

_MOST_TOOLS = 256
_MOST_INCLUDED = 32
_CONVERTED = frozenset(
    ("input", "instructions", "tools", "tool_choice", "text", "include", "store", "truncation", "background",
     "conversation", "prompt", "previous_response_id", "metadata")
)  # fmt: skip
"""Fields that a chat has in another form, or not at all; the others are read as those of a chat."""
_CHOICES = ("none", "auto", "required")
_TRUNCATIONS = ("auto", "disabled")
_FUNCTION = re.compile(r"^(tools\[\d+\]|tool_choice)\.function\b")
_THOUGHTS = "reasoning.encrypted_content"
_LOGPROBS = "message.output_text.logprobs"


@dataclass(frozen=True, slots=True)
class ResponseRequest:
    """A conversation whose next answer is to be generated."""

    chat: ChatRequest
    messages: tuple[Message, ...]
    """All messages of the conversation but the instructions, for a later request that continues it."""
    keeps: bool
    """Whether a later request may continue the response."""
    seals: bool
    """Whether thoughts are also sent in the form that comes back unchanged."""
    summarizes: bool
    """Whether thoughts are sent as a summary, as clients ask that show them."""
    shown: dict[str, Any]
    """Members of the response that repeat the request."""


def read_response(fields: Fields, service: Service, kept: KeptResponses) -> ResponseRequest:
    """Read a request; raises Refused."""
    _refuse_unsupported(fields)
    members = {name: fields.raw(name) for name in sorted(READ[Route.RESPONSES] - _CONVERTED)}
    messages = [*_previous(fields, kept), *chat_messages(fields)]
    if not messages:
        fields.refuse("input", "is required")
    instructions = fields.prose("instructions")
    begins: list[Message] = [{"role": "system", "content": instructions}] if instructions else []
    members["messages"], members["tools"] = [*begins, *messages], _tools(fields)
    members["tool_choice"], members["response_format"] = _choice(fields), _form(fields)
    names = {"response_format": "text.format", "messages": "input"}
    chat = _shortening(fields, read_chat(fields.converted(members, names, _spelled), service))
    included = fields.texts("include", _MOST_INCLUDED)
    reasoning = fields.part("reasoning") or Fields({})
    summarizes = any(reasoning.text(name) is not None for name in ("summary", "generate_summary"))
    keeps = fields.flag("store", default=True)
    return ResponseRequest(chat, tuple(messages), keeps, _THOUGHTS in included, summarizes, _shown(fields, chat, keeps))


def _spelled(name: str) -> str:
    """Return a field of a chat under its name in this protocol."""
    return _FUNCTION.sub(r"\1", name)


def _refuse_unsupported(fields: Fields) -> None:
    if fields.flag("background"):
        refuse("background", "an answer is sent while it is generated; use 'stream'")
    if fields.has("conversation"):
        refuse("conversation", "this server keeps no conversations; use 'previous_response_id'")
    if fields.has("prompt"):
        refuse("prompt", "this server keeps no prompts; send the text in 'input'")
    if _LOGPROBS in fields.texts("include", _MOST_INCLUDED):
        refuse("include", "log probabilities come from /v1/chat/completions")


def _previous(fields: Fields, kept: KeptResponses) -> Sequence[Message]:
    name = fields.text("previous_response_id")
    if name is None:
        return ()
    if (found := kept.find(name)) is None:
        message = "There is no such response: it was not stored, was dropped, or the server has started anew since."
        hint = "Send the conversation in 'input'."
        raise Refused(400, f"{message} {hint}", param="previous_response_id", code="previous_response_not_found")
    return found.messages


def _tools(fields: Fields) -> list[object]:
    """Return the functions; tools that OpenAI's own servers run are left out beside functions, else refused."""
    tools: list[object] = []
    others = []
    for part in fields.parts("tools", _MOST_TOOLS):
        kind = part.text("type") or part.refuse("type", "is required")
        if kind == "function":
            tools.append(_function(part))
        else:
            others.append(part)
    for part in others:
        if not tools:
            part.refuse("type", "must be 'function': this server runs no tools")
        part.warn("type", "is left out: it must be 'function', for this server runs no tools")
    return tools


def _function(part: Fields) -> dict[str, object]:
    members = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {name: part.raw(name) for name in members}}


def _choice(fields: Fields) -> object:
    """Return the choice of tools as a chat has it."""
    if not isinstance(fields.raw("tool_choice"), dict):
        choice = fields.text("tool_choice") or "auto"
        return choice if choice in _CHOICES else fields.refuse("tool_choice", f"must be one of: {', '.join(_CHOICES)}")
    chosen = fields.part("tool_choice") or Fields({})
    if chosen.text("type") != "function":
        chosen.refuse("type", "must be 'function'")
    return {"type": "function", "function": {"name": chosen.prose("name") or chosen.refuse("name", "is required")}}


def _form(fields: Fields) -> object:
    """Return the form of the answer as a chat has it."""
    text = fields.part("text") or Fields({})
    if text.has("verbosity") and text.text("verbosity") != "medium":
        fields.warn("text.verbosity", "has no effect: ask for a long or a short answer in 'input'")
    form = text.part("format")
    return None if form is None else {name: form.raw(name) for name in ("type", "schema", "strict") if form.has(name)}


def _shortening(fields: Fields, chat: ChatRequest) -> ChatRequest:
    """Let the oldest messages be left out where the client allows it."""
    wanted = fields.text("truncation") or "disabled"
    if wanted not in _TRUNCATIONS:
        fields.refuse("truncation", f"must be one of: {', '.join(_TRUNCATIONS)}")
    question = replace(chat.engine_request.question, drops_oldest=wanted == "auto")
    return replace(chat, engine_request=replace(chat.engine_request, question=question))


def _shown(fields: Fields, chat: ChatRequest, keeps: bool) -> dict[str, Any]:
    """Return the members of a response that repeat its request."""
    question = chat.engine_request.question
    metadata = fields.part("metadata")
    several = fields.flag("parallel_tool_calls", default=True)
    shown = {
        "instructions": fields.prose("instructions"),
        "max_output_tokens": question.max_tokens,
        "metadata": {} if metadata is None else {name: metadata.text(name) for name in metadata.names()},
        "parallel_tool_calls": several,
        "previous_response_id": fields.text("previous_response_id"),
        "reasoning": fields.raw("reasoning") or {"effort": None, "summary": None},
        "store": keeps,
        "temperature": question.sampling.temperature,
        "text": {"format": (fields.part("text") or Fields({})).raw("format") or {"type": "text"}},
        "tool_choice": fields.raw("tool_choice") or "auto",
        "tools": fields.raw("tools") or [],
        "top_p": question.sampling.top_p,
        "truncation": fields.text("truncation") or "disabled",
    }
    # Half of a surrogate pair, which JSON can spell, has no bytes to be sent.
    repeated: dict[str, Any] = json.loads(whole_characters(json.dumps(shown, ensure_ascii=False)))
    return repeated
