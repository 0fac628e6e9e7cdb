"""A model's own chat template is rendered as its authors meant it, and can do nothing else."""

from datetime import datetime

import pytest
from tiny_gguf import BROKEN_TEMPLATE, CHATML_TEMPLATE

from models.errors import LocalspecError, MessagesRefusedError, UsageError
from models.text.prompts import ChatTemplate, Message, render_plain
from models.text.thoughts import Effort
from models.toy import ToyModel

TALK = (Message("system", "Be brief."), Message("user", "Hi"), Message("assistant", "Hello"), Message("user", "Bye"))


def rendered(source: str, *messages: Message) -> str:
    return ChatTemplate(source).render(messages or (Message("user", "Hi"),))


def failure_of(source: str) -> LocalspecError:
    with pytest.raises(LocalspecError) as failure:
        rendered(source)
    assert failure.value.title == "The model's chat template can't be used."
    assert "--raw" in failure.value.hint
    return failure.value


def test_chatml_is_rendered_to_the_letter() -> None:
    assert rendered(CHATML_TEMPLATE, *TALK) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello<|im_end|>\n"
        "<|im_start|>user\nBye<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_text_is_not_escaped_nor_read_as_a_template() -> None:
    text = "<b>\"&' {{ 1 + 1 }} {% raw %} \n\n é"
    assert rendered("{{ messages[0].content }}", Message("user", text)) == text


def test_roles_and_texts_can_be_read_either_way() -> None:
    assert rendered("{{ messages[0]['role'] }}{{ messages[0].role }}") == "useruser"


def test_the_generation_prompt_is_asked_for() -> None:
    assert rendered("{{ add_generation_prompt }}") == "True"


def test_special_tokens_are_the_models_own() -> None:
    template = ChatTemplate("{{ bos_token }}|{{ eos_token }}", bos="<s>", eos="</s>")
    assert template.render([Message("user", "Hi")]) == "<s>|</s>"


def test_whitespace_is_trimmed_as_template_authors_expect() -> None:
    source = (
        "{% for message in messages %}\n    {% if true %}\n{{ message.content }}\n    {% endif %}\n{% endfor %}\nend"
    )
    assert rendered(source) == "Hi\nend"


def test_loops_can_be_left() -> None:
    skip, leave = "{% if i == 1 %}{% continue %}{% endif %}", "{% if i == 4 %}{% break %}{% endif %}"
    assert rendered("{% for i in range(9) %}" + skip + leave + "{{ i }}{% endfor %}") == "023"


def test_the_date_is_todays() -> None:
    before = datetime.now().strftime("%d %b %Y")
    assert rendered("{{ strftime_now('%d %b %Y') }}") in (before, datetime.now().strftime("%d %b %Y"))


def test_a_template_can_refuse_a_conversation_in_its_own_words() -> None:
    with pytest.raises(MessagesRefusedError) as refused:
        rendered("{{ raise_exception('No system prompts, please.') }}")
    assert refused.value.cause == refused.value.own_words == "No system prompts, please."
    with pytest.raises(MessagesRefusedError) as refused:
        rendered("{{ raise_exception('Not ' + messages[0].content) }}")
    assert (refused.value.cause, refused.value.own_words) == ("Not Hi", "")


def test_a_template_can_be_rendered_again_and_again() -> None:
    count = "{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}"
    template = ChatTemplate("{% set ns = namespace(n=0) %}" + count + "{{ ns.n }}")
    assert [template.render(TALK[:end]) for end in (1, 4, 2)] == ["1", "4", "2"]


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__class__.__base__.__subclasses__() }}",
        "{{ '{0.__class__.__mro__}'.format('') }}",
        "{{ ('{0.' + '__class__' + '.__mro__}').format('') }}",
        "{{ raise_exception.__globals__['datetime'] }}",
        "{{ strftime_now.__code__.co_consts }}",
    ],
)
def test_a_template_can_not_reach_pythons_insides(source: str) -> None:
    assert "SecurityError" in failure_of(source).cause


@pytest.mark.parametrize("source", ["{{ ''.__class__ }}", "{{ ''|attr('__class__')|attr('__mro__') }}"])
def test_what_a_template_may_not_see_is_nothing(source: str) -> None:
    assert rendered(source) == ""


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.append(1) }}",
        "{{ messages.pop() }}",
        "{{ messages.clear() }}",
        "{{ messages[0].update({'role': 'system'}) }}",
        "{{ messages[0].pop('role') }}",
        "{{ messages[0].setdefault('x', 1) }}",
    ],
)
def test_a_template_can_not_change_the_conversation(source: str) -> None:
    assert "SecurityError" in failure_of(source).cause


def test_jinja_without_the_sandbox_would_let_all_that_pass() -> None:
    from jinja2 import Environment

    assert "object" in Environment().from_string("{{ ''.__class__.__mro__ }}").render()
    assert Environment().from_string("{{ messages.pop() }}").render(messages=["x"]) == "x"


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        (BROKEN_TEMPLATE, "TemplateSyntaxError"),
        ("{% if %}", "TemplateSyntaxError"),
        ("{% nosuchtag %}", "unknown tag 'nosuchtag'"),
        ("{{ messages|nosuchfilter }}", "nosuchfilter"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ nothing.at.all }}", "'nothing' is undefined"),
        ("{{ messages[0].content + 1 }}", "TypeError"),
        ("{{ range(10000000)|length }}", "OverflowError"),
        ("{% include 'other' %}", "loader"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
        ("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "RecursionError"),
        ("{% for m in messages %}" * 25 + "x" + "{% endfor %}" * 25, "SyntaxError"),
    ],
)
def test_whatever_is_wrong_with_a_template_is_told_as_its_fault(source: str, cause: str) -> None:
    assert cause in failure_of(source).cause


def test_a_broken_template_is_refused_before_there_is_a_conversation() -> None:
    with pytest.raises(LocalspecError):
        ChatTemplate(BROKEN_TEMPLATE)


def test_a_model_brings_its_template_and_its_special_tokens() -> None:
    model = ToyModel()
    assert ChatTemplate.of(model) is None
    model.chat_template = "{{ eos_token }}{{ bos_token }}{{ messages[0].content }}"
    template = ChatTemplate.of(model)
    assert template is not None
    assert template.render([Message("user", "Hi")]) == "<end>Hi"


def test_plain_text_is_the_texts_alone() -> None:
    assert render_plain([Message("user", "def f():")]) == "def f():"
    assert render_plain(TALK[:2]) == "Be brief.\nHi"
    assert render_plain([]) == ""


def test_training_marks_are_no_part_of_the_prompt() -> None:
    template = ChatTemplate("{% for m in messages %}{% generation %}{{ m.content }};{% endgeneration %}{% endfor %}")
    assert template.render([Message("assistant", "a"), Message("user", "b")]) == "a;b;"


def test_json_in_a_prompt_is_not_escaped_for_html() -> None:
    assert ChatTemplate("{{ messages[0].content | tojson }}").render([Message("user", "a<b é")]) == '"a<b é"'


# --- thoughts ---------------------------------------------------------------------------------------------------------

SWITCH = "{{ enable_thinking if enable_thinking is defined else 'as ever' }}"
ALWAYS = "{{ messages[0].content.split('</think>')[-1] }} A:{{ '<think>\n' }}"
LEVELS = "{{ reasoning_effort | default('medium') }}<|channel|>analysis"
SHOWN = "{% for m in messages %}{{ m.content }}|{{ m.reasoning_content }}|{{ m.thinking }};{% endfor %}"


def asked(source: str, effort: Effort) -> str:
    return ChatTemplate(source).render([Message("user", "Hi")], effort)


def test_a_template_is_told_whether_to_think_and_only_when_somebody_says_so() -> None:
    assert [asked(SWITCH, effort) for effort in (Effort.AUTO, Effort.ON, Effort.OFF)] == ["as ever", "True", "False"]
    assert asked(SWITCH.replace("enable_", ""), Effort.OFF) == "False"
    assert [asked(LEVELS, effort)[:6] for effort in (Effort.AUTO, Effort.LOW)] == ["medium", "low<|c"]


def test_a_model_that_always_thinks_gets_thoughts_that_are_over() -> None:
    assert asked(ALWAYS, Effort.OFF) == "Hi A:<think>\n\n</think>\n\n"
    assert asked(ALWAYS, Effort.ON) == asked(ALWAYS, Effort.AUTO) == "Hi A:<think>\n"


def test_a_template_that_says_itself_whether_to_think_has_no_switch() -> None:
    source = "{% set enable_thinking = true %}{{ enable_thinking }}</think>"
    assert asked(source, Effort.OFF) == "True</think><think>\n\n</think>\n\n"


def test_an_effort_that_a_model_does_not_know_is_refused_with_those_that_it_knows() -> None:
    for source, effort, known in (
        (CHATML_TEMPLATE, Effort.ON, "auto, off"),
        (SWITCH, Effort.LOW, "auto, on, off"),
        (LEVELS, Effort.OFF, "auto, on, low, medium, high"),
    ):
        with pytest.raises(UsageError) as failure:
            asked(source, effort)
        assert f"'{effort}'" in failure.value.title
        assert failure.value.hint == f"It knows: {known}."
    assert asked(CHATML_TEMPLATE, Effort.OFF) == asked(CHATML_TEMPLATE, Effort.AUTO)


def test_templates_get_the_thoughts_of_earlier_answers_apart() -> None:
    answers = ("<think>\nTwo.\n</think>\n\nFour.", "Plain.", "<|channel|>analysis<|message|>Hm.<|end|>")
    given = [Message("assistant", text) for text in answers]
    given += [Message("assistant", "Five.", "Two and three."), Message("user", "<think>Mine</think>")]
    assert rendered(SHOWN, *given) == (
        "Four.|Two.|Two.;Plain.||;|Hm.|Hm.;Five.|Two and three.|Two and three.;<think>Mine</think>||;"
    )


def test_an_answer_that_comes_last_is_gone_on_with() -> None:
    begun = [*TALK, Message("assistant", "Good")]
    assert rendered(CHATML_TEMPLATE, *begun) == rendered(CHATML_TEMPLATE, *TALK) + "Good"
    asked_again = ChatTemplate(ALWAYS).render([Message("user", "Hi"), Message("assistant", "Good")])
    assert asked_again == "Hi A:<think>\n\n</think>\n\nGood"
