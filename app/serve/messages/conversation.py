"""Messages of Anthropic's protocol as messages of a chat: texts, thoughts, tool calls and their results."""

from app.serve.requests.fields import Fields

_MOST_MESSAGES = 4096
_MOST_BLOCKS = 4096
_ROLES = ("user", "assistant", "system")
_OF_CLIENT = "x-anthropic-billing-header:"
"""Beginning of a block that Claude Code adds to the system prompt. It changes with each request, so the cache of the
whole conversation would be lost; it says nothing to the model."""
_ONLY_TEXT = "this server accepts only text"
Message = dict[str, object]
"""A message of a chat, as a client of `/v1/chat/completions` sends it."""


def chat_messages(fields: Fields) -> list[Message]:
    """Return system prompt and messages as those of a chat; raises Refused."""
    system = _system(fields)
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    for part in fields.parts("messages", _MOST_MESSAGES):
        role = part.text("role")
        if role not in _ROLES:
            part.refuse("role", f"must be one of: {', '.join(_ROLES)}")
        messages += [_answer(part)] if role == "assistant" else _said(part, role)
    return messages


def _system(fields: Fields) -> str:
    texts = [block.prose("text") or "" for block in _blocks(fields, "system") if _kind(block, ("text",))]
    return "\n".join(text for text in texts if not text.startswith(_OF_CLIENT))


def _answer(part: Fields) -> Message:
    """Return an answer of the model; thoughts that are encrypted elsewhere are left out."""
    texts, thoughts, calls = [], [], []
    for block in _blocks(part, "content"):
        kind = _kind(block, ("text", "thinking", "redacted_thinking", "tool_use"))
        if kind == "text":
            texts.append(block.prose("text") or "")
        elif kind == "thinking":
            thoughts.append(block.prose("thinking") or "")
        elif kind == "tool_use":
            calls.append(_call(block))
    answer: Message = {"role": "assistant", "content": "\n".join(texts)}
    if any(thoughts):
        answer["reasoning_content"] = "\n".join(thoughts)
    return {**answer, "tool_calls": calls} if calls else answer


def _call(block: Fields) -> Message:
    name = block.prose("name") or block.refuse("name", "is required")
    function = {"name": name, "arguments": _input(block)}
    return {"id": block.prose("id") or "", "type": "function", "function": function}


def _input(block: Fields) -> object:
    return {} if block.part("input") is None else block.raw("input")


def _said(part: Fields, role: str) -> list[Message]:
    """Return what a user or the system says: results of calls first, as templates want them behind the calls."""
    texts: list[str] = []
    results: list[Message] = []
    if not part.has("content"):
        part.refuse("content", "is required")
    kinds = ("text", "tool_result", "document", "search_result") if role == "user" else ("text",)
    for block in _blocks(part, "content"):
        kind = _kind(block, kinds)
        if kind == "tool_result":
            results.append(_result(block))
        else:
            texts.append(_text(block, kind))
    if texts or not results:
        return [*results, {"role": role, "content": "\n".join(texts)}]
    return results


def _result(block: Fields) -> Message:
    texts = []
    for inner in _blocks(block, "content"):
        kind = inner.text("type") or ""
        if kind in ("text", "document", "search_result"):
            texts.append(_text(inner, kind))
        else:
            # A refusal would end the conversation for good: the result is sent again with each further message.
            inner.warn("type", f"is left out: {_ONLY_TEXT}")
            texts.append(f"[{'image' if kind == 'image' else 'content'} left out: {_ONLY_TEXT}]")
    text = "\n".join(texts)
    name = block.prose("tool_use_id") or ""
    return {"role": "tool", "tool_call_id": name, "content": f"Error: {text}" if block.flag("is_error") else text}


def _text(block: Fields, kind: str) -> str:
    if kind == "document":
        return _document(block)
    if kind == "search_result":
        texts = (one.prose("text") or "" for one in block.parts("content", _MOST_BLOCKS))
        return "\n".join(filter(None, (block.prose("title"), block.prose("source"), *texts)))
    return block.prose("text") or ""


def _document(block: Fields) -> str:
    source = block.part("source") or block.refuse("source", "is required")
    kind = source.text("type")
    if kind not in ("text", "content"):
        source.refuse("type", f"must be 'text' or 'content': {_ONLY_TEXT}")
    if kind == "text":
        text = source.prose("data") or ""
    else:
        text = "\n".join(one.prose("text") or "" for one in _blocks(source, "content") if _kind(one, ("text",)))
    return "\n".join(filter(None, (block.prose("title"), block.prose("context"), text)))


def _blocks(part: Fields, name: str) -> list[Fields]:
    """Return the blocks of a member; a text is a block of text, and nothing is none."""
    if isinstance(part.raw(name), list):
        return part.parts(name, _MOST_BLOCKS)
    text = part.prose(name)
    return [] if text is None else [Fields({"type": "text", "text": text})]


def _kind(block: Fields, known: tuple[str, ...]) -> str:
    kind = block.text("type") or ""
    return kind if kind in known else block.refuse("type", f"must be one of: {', '.join(known)}; {_ONLY_TEXT}")
