"""How models call tools: told by their templates, which are given tools, calls and results as they want them."""

import pytest
from byte_vocab import MARKS, ByteVocab
from tool_templates import ARGUMENTS, FAMILIES, Family

from models.errors import LocalspecError
from models.text.prompts import ChatTemplate, Message
from models.text.tool_calls import TOOL_MARKS, Arguments, Call, CallFormat, Tool

VOCAB = ByteVocab((*MARKS, *TOOL_MARKS, "<|start|>", "<|end|>", "<|constrain|>"))
TOOL = Tool("weather", {"type": "function", "function": {"name": "weather", "description": "", "parameters": {}}}, {})
QUESTION = Message("user", "rain?")
WEATHER, TIME = Call("weather", ARGUMENTS, "call_1"), Call("time", "{}", "call_2")


def render(source: str, *messages: Message, tools: tuple[Tool, ...] = (TOOL,)) -> str:
    return ChatTemplate(source).render(messages, tools=tools)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_template_is_known_by_how_it_writes_calls_and_writes_them_as_they_were_said(family: Family) -> None:
    template = ChatTemplate(family.template)
    assert template.calls(VOCAB) is not None
    asked = template.render([QUESTION], tools=[TOOL])
    assert '"weather"' in asked
    calls = (WEATHER,) if family.second is None else (WEATHER, TIME)
    later = template.render([QUESTION, Message("assistant", "", calls=calls), Message("tool", "wet")], tools=[TOOL])
    assert later.startswith(f"{asked}{family.first}{family.second or ''}{family.closes}[tool]wet")


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages }}",
        "{{ messages[0].content }} <tool_call>",
        "{{ messages[0].tool_calls }}<tool_call>{'name': 1, \"arguments\": 2}",
        "{{ tools }}{{ messages[0].tool_calls }}",
        "{{ tools }}{{ messages[0].tool_calls }}<tool_call><arg_key>k</arg_key><arg_value>v</arg_value></tool_call>",
        '{{ tools }}<tool_call>{"arguments": 1}',
    ],
)
def test_a_template_that_says_nothing_of_calls_calls_nothing(source: str) -> None:
    assert ChatTemplate(source).calls(VOCAB) is None


def test_channels_need_marks_that_are_tokens() -> None:
    assert ChatTemplate(FAMILIES["gpt-oss"].template).calls(ByteVocab()) is None


def test_marks_are_tokens_where_the_vocabulary_has_them() -> None:
    for vocab, tokens in ((VOCAB, {"<tool_call>", "</tool_call>"}), (ByteVocab(), set())):
        form = ChatTemplate(FAMILIES["hermes"].template).calls(vocab)
        assert isinstance(form, CallFormat)
        assert {mark for mark in form.marks if "tool_call>" in mark and "seed" not in mark} == tokens
        assert all(vocab.piece(token) == mark.encode() for mark, token in form.marks.items())


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{{ a | tojson }}", '{"x": 1}'),
        ("{{ a }}", '{"x":1}'),
        ("{{ '<' + a + '>' }}", '<{"x":1}>'),
        ("{{ '<' ~ a ~ '>' }}", '<{"x":1}>'),
        ("{{ a | string }}", '{"x":1}'),
        ("{% for key, value in a.items() %}{{ key }}={{ value }}{% endfor %}", "x=1"),
        ("{% for key, value in a | items %}{{ key }}={{ value }}{% endfor %}", "x=1"),
        ("{{ a is mapping }} {{ a is string }}", "True False"),
    ],
)
def test_arguments_are_an_object_and_a_text(written: str, said: str) -> None:
    source = f"{{% set a = messages[1].tool_calls[0].function.arguments %}}{written}"
    call = Message("assistant", "", calls=(Call("f", '{"x":1}'),))
    assert render(source, QUESTION, call, Message("tool", "")) == said
    assert Arguments("{}") == {}


def test_a_result_names_its_call() -> None:
    source = "{% for m in messages %}{{ m.role }} {{ m.tool_call_id }} {{ m.name }} {{ m.content }};{% endfor %}"
    result = Message("tool", "wet", answers=WEATHER)
    assert render(source, QUESTION, result) == "user   rain?;tool call_1 weather wet;"


def test_an_answer_that_calls_is_not_gone_on_with() -> None:
    source = "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}({{ c.id }}){% endfor %};{% endfor %}"
    assert render(source, QUESTION, Message("assistant", "so", calls=(WEATHER, TIME))) == "rain?;so(call_1)(call_2);"
    assert render(source, QUESTION, Message("assistant", "so")) == "rain?;so"


def test_ids_have_nine_letters_where_a_template_insists() -> None:
    source = (
        "{% for m in messages %}{% for c in m.tool_calls %}"
        "{% if c.id|length != 9 %}{{ raise_exception('9') }}{% endif %}{{ c.id }}{% endfor %}"
        "{{ m.tool_call_id }} {% endfor %}"
    )
    kept, mended = Call("f", "{}", "abcDEF123"), Call("f", "{}", "call_with_more")
    for call in (kept, mended):
        turns = Message("assistant", "", calls=(call,)), Message("tool", "", answers=call)
        _, called, answered = render(source, QUESTION, *turns).split(" ")[:3]
        assert called == answered
        assert (called == call.id) is (call is kept)
    assert "call_with_more" in render("{{ messages[0].tool_calls[0].id }}", Message("assistant", "", calls=(mended,)))


def test_templates_know_of_tools_only_where_there_are_some() -> None:
    source = "{{ tools is defined }}"
    assert (render(source, QUESTION), render(source, QUESTION, tools=())) == ("True", "False")


@pytest.mark.parametrize("where", ["tools", "calls", "results"])
def test_what_is_given_counts_for_what_a_template_may_write(where: str) -> None:
    long = "a" * (3 << 20)
    tool = Tool("f", {"function": {"description": long}}, {}) if where == "tools" else TOOL
    call = Call("f", f'{{"x": "{long}"}}' if where == "calls" else "{}")
    turns = Message("assistant", "", calls=(call,)), Message("tool", long if where == "results" else "", answers=call)
    source = "{{ tools | tojson }}{{ messages | tojson }}{{ tools | tojson }}{{ messages | tojson }}"
    assert len(render(source, QUESTION, *turns, tools=(tool,))) > 6 << 20
    with pytest.raises(LocalspecError) as refused:
        render(source.replace("tojson }}", "tojson * 9 }}"), QUESTION, *turns, tools=(tool,))
    assert "produces more" in refused.value.cause
