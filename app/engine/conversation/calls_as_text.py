"""Tool calls and their results as text, for chat templates that show neither: they would vanish from the prompt."""

from collections.abc import Sequence
from dataclasses import replace

from models.text.prompts import Message


def calls_as_text(messages: Sequence[Message]) -> list[Message]:
    """Return messages in which each call is text of its answer, and each result text of the user's next turn."""
    said: list[Message] = []
    after_result = False
    for message in messages:
        is_result = message.role == "tool"
        text = _result(message) if is_result else _answer(message)
        if said and said[-1].role == "user" and (is_result or (after_result and message.role == "user")):
            # Many templates refuse two turns of a user in a row.
            said[-1] = replace(said[-1], text=f"{said[-1].text}\n\n{text}")
        elif is_result:
            said.append(Message("user", text))
        else:
            said.append(replace(message, text=text, calls=()))
        after_result = is_result
    return said


def _answer(message: Message) -> str:
    return "\n".join(filter(None, (message.text, *(call.spelled for call in message.calls))))


def _result(message: Message) -> str:
    return f"Result of {message.answers.name if message.answers else 'a tool'}: {message.text}"
