"""Earlier calls and results: in every prompt, whether or not the chat template shows them."""

import pytest
from byte_vocab import ByteVocab
from tool_templates import FAMILIES

from app.engine.conversation.calls_as_text import calls_as_text
from app.engine.conversation.transcript import Transcript
from models.errors import LocalspecError
from models.text.prompts import ChatTemplate, Message
from models.text.tool_calls import Call, Tool
from models.toy import ToyModel

RAIN = Call("weather", '{"city": "Rom"}', "call_1")
LATE = Call("time", "{}", "call_2")
TOOL = Tool("weather", {"type": "function", "function": {"name": "weather", "description": "", "parameters": {}}}, {})
TALK = [
    Message("user", "rain?"),
    Message("assistant", "Let me look.", calls=(RAIN, LATE)),
    Message("tool", "wet", answers=RAIN),
    Message("tool", "noon", answers=LATE),
    Message("user", "so?"),
]
SAID = (
    'u.rain?|a.Let me look.\n{"name": "weather", "arguments": {"city": "Rom"}}\n{"name": "time", "arguments": {}}|'
    "u.Result of weather: wet\n\nResult of time: noon\n\nso?|a."
)
BARE = (
    "{% for message in messages %}{{ message.role[0] }}.{{ message.content }}|{% endfor %}"
    "{% if add_generation_prompt %}a.{% endif %}"
)
ONLY_WITH_TOOLS = BARE.replace("|", "{% if tools and message.tool_calls %}{{ message.tool_calls }}{% endif %}|")
REFUSES = "{% if messages[-1].role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}" + BARE


def prompt(template: str, *, tools: tuple[Tool, ...] = (), raw: bool = False) -> str:
    """Return the prompt of the conversation above for a model with a template ("" for none)."""
    model = ToyModel()
    model.vocab, model.chat_template = ByteVocab(), template  # type: ignore[assignment]
    tokens = Transcript(model).prompt(TALK, raw=raw, tools=tools)
    return b"".join(model.vocab.piece(token) for token in tokens).decode()


@pytest.mark.parametrize("template", [BARE, ONLY_WITH_TOOLS])
def test_a_template_that_shows_no_calls_gets_them_as_text(template: str) -> None:
    assert prompt(template) == SAID


def test_what_a_template_shows_with_tools_alone_is_left_to_it_there() -> None:
    shown = prompt(ONLY_WITH_TOOLS, tools=(TOOL,))
    assert "'function': {'name': 'weather'" in shown
    assert "Result of" not in shown


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_template_that_shows_calls_writes_them_itself(family: object) -> None:
    template = ChatTemplate(getattr(family, "template"))  # noqa: B009
    assert template.shows_calls(tools=True)


@pytest.mark.parametrize(("template", "raw"), [("", False), ("", True), (BARE, True)])
def test_without_a_template_they_are_text_too(template: str, raw: bool) -> None:
    said = prompt(template, raw=raw)
    assert said.startswith('rain?\nLet me look.\n{"name": "weather"')
    assert said.endswith("Result of weather: wet\n\nResult of time: noon\n\nso?")


def test_a_template_that_refuses_them_still_says_so() -> None:
    template = ChatTemplate(REFUSES)
    assert template.shows_calls(tools=False)
    with pytest.raises(LocalspecError, match="refuses these messages"):
        template.render(TALK[:3])


def test_two_turns_of_a_user_stay_two_where_no_result_is_between() -> None:
    talk = [Message("user", "a"), Message("user", "b"), Message("tool", "wet"), Message("assistant", "so")]
    assert [(each.role, each.text) for each in calls_as_text(talk)] == [
        ("user", "a"), ("user", "b\n\nResult of a tool: wet"), ("assistant", "so")
    ]  # fmt: skip
