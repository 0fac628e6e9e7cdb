"""A chat template is code from a stranger: whatever it asks for, it ends in an error, soon, and without much memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hostile_templates import ENDLESS, INSIDES, LARGE
from jinja2 import Environment

from models.errors import LocalspecError
from models.text import template_limits
from models.text.prompts import ChatTemplate, Message

SCRIPT = Path(__file__).parents[2] / "support" / "models" / "hostile_templates.py"
MEMORY = 400 << 20
QUESTION = [Message("user", "Hi")]
Outcome = dict[str, str]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """Return how each template ended, in a process that is ended when one of them hangs."""
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{done.stdout[-500:]}\n{done.stderr[:2000]}"
    return {said["name"]: said for said in map(json.loads, done.stdout.splitlines())}


def ended(outcome: Outcome) -> str:
    """Return the cause of the error that a template ended in."""
    assert outcome["error"] == "TemplateBrokenError", outcome
    assert outcome["title"] == "The model's chat template can't be used."
    return outcome["cause"]


@pytest.mark.parametrize("name", ENDLESS)
def test_what_does_not_end_is_stopped_by_the_clock(outcomes: dict[str, Outcome], name: str) -> None:
    assert "is not done after" in ended(outcomes[name])


@pytest.mark.parametrize("name", LARGE)
def test_what_becomes_large_is_refused_however_much_time_there_is(outcomes: dict[str, Outcome], name: str) -> None:
    cause = ended(outcomes[name])
    assert cause.startswith("TemplateLimitError: it ")
    assert "is not done after" not in cause


@pytest.mark.parametrize("name", INSIDES)
def test_what_the_sandbox_or_python_stops_ends_in_an_error(outcomes: dict[str, Outcome], name: str) -> None:
    assert "MemoryError" not in ended(outcomes[name])


def test_all_of_them_together_take_little_memory(outcomes: dict[str, Outcome]) -> None:
    assert int(outcomes["memory"]["bytes"]) < MEMORY


# --- what is no harm --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages|map(attribute='role')|join(', ') }}",
        "{{ messages|join('-', attribute='role') }}",
        "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}",
        "{{ messages|rejectattr('role', 'in', ['system', 'tool'])|map(attribute='content')|first }}",
        "{% for batch in [1, 2, 3, 4, 5]|batch(2, 0) %}{{ batch }}{% endfor %}",
        "{% for part in [1, 2, 3, 4, 5]|slice(2) %}{{ part }}{% endfor %}",
        "{{ [3, 1, 2]|sort|reverse|list }}{{ [1, 1]|unique|list }}{{ [1, 2]|sum }}",
        "{{ [{'n': 1}, {'n': 2}]|sum(attribute='n') }}{{ {'b': 1, 'a': 2}|dictsort }}{{ {'a': 1}|items|list }}",
        "{% for role, group in messages|groupby('role') %}{{ role }}{{ group|length }}{% endfor %}",
        "{{ 'a\nb'|indent(2, true) }}{{ 'a'|center(5) }}{{ 1.234|round(1) }}{{ '%s-%03d'|format('a', 7) }}",
        "{{ '%s %5.2f' % ('a', 1.5) }}{{ '{} {x:>5}'.format(1, x='y') }}{{ 'ab' * 3 }}{{ [1] * 2 + [3] }}{{ 2 ** 8 }}",
        "{{ 'a,b'.split(',')[-1] }}{{ ','.join(['a', 'b']) }}{{ 'aXb'.replace('X', '--') }}{{ 'a'.ljust(3) }}|",
        "{{ 'abc'[::-1] }}{{ messages[1:]|length }}{{ messages[-1].content }}{{ (1, 2)[0] }}{{ 'a' ~ 1 ~ none }}",
        "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% for k, v in {'x': 1}.items() %}{{ k }}{{ v }}{% endfor %}",
        "{% macro f(x, y=[1]) %}{{ x }}{{ y }}{{ caller() if caller }}{% endmacro %}"
        "{{ f(1) }}{% call f(2) %}c{% endcall %}",
        "{% for x in [[1, [2]]] recursive %}{{ loop(x) if x is iterable else x }}{{ loop.index }}{% endfor %}",
        "{% for i in range(5) if i is odd %}{{ loop.last }}{{ i }}{% else %}none{% endfor %}"
        "{{ 3 in [1, 3] }}{{ 1 < 2 < 3 }}{{ 'a' == 'a' != 'b' }}",
        "{% set ns = namespace(a='') %}{% for m in messages %}{% set ns.a = ns.a ~ m.role %}{% endfor %}{{ ns.a }}",
        "{% set x %}a{{ 1 }}{% endset %}{{ x|upper }}{% filter trim %} b {% endfilter %}{{ '<'|e }}{{ '<'|safe }}",
        "{{ missing|default('d') }}{{ missing is defined }}{{ 'a' if messages else 'b' }}{{ messages is sequence }}",
    ],
)
def test_what_templates_do_they_do_as_without_limits(source: str) -> None:
    turns = [{"role": "user", "content": "Hi"}]
    plain = Environment(trim_blocks=True, lstrip_blocks=True).from_string(source).render(messages=turns)
    assert ChatTemplate(source).render(QUESTION) == plain


def test_json_is_written_as_template_authors_ask_for_it() -> None:
    turn = "{{ messages[0]|tojson }}|{{ [1]|tojson(indent=2) }}|{{ 'é'|tojson(ensure_ascii=true) }}|"
    turn += "{{ {'b': 1, 'a': 2}|tojson(separators=(',', ':'), sort_keys=true) }}"
    expected = '{"role": "user", "content": "Hi"}|[\n  1\n]|"\\u00e9"|{"a":2,"b":1}'
    assert ChatTemplate(turn).render(QUESTION) == expected


def test_a_conversation_may_be_longer_than_what_a_template_adds() -> None:
    long = Message("user", "some words " * 600_000)
    source = "{% for m in messages %}{{ ('<' + m.role + '>' ~ m.content|trim) + '\n' }}{% endfor %}"
    assert len(ChatTemplate(source).render([long, long])) > 2 * template_limits._MOST_TEXT


def test_each_rendering_has_its_own_time_and_room(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(template_limits, "thread_time", lambda: now[0])
    template = ChatTemplate("{{ strftime_now('') }}{% set x = 'a' * 4000000 %}{{ x|length }}")
    for _ in range(30):
        now[0] += template_limits._SECONDS / 2
        assert template.render(QUESTION) == "4000000"
    monkeypatch.setattr(template_limits, "thread_time", lambda: now.append(now[-1] + 0.3) or now[-1])
    with pytest.raises(LocalspecError, match="not done after 1 second"):
        template.render(QUESTION)


def test_a_moment_that_a_machine_gave_to_others_is_not_counted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = [0.0, 5.0]
    monkeypatch.setattr(template_limits, "thread_time", lambda: moments.pop(0) if len(moments) > 1 else moments[0])
    template = ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}")
    moments[:] = [5.0, 9.0]
    assert template.render(QUESTION) == "Hi"


@pytest.mark.parametrize(
    "source",
    [
        "{% set r = range(50) %}{% for i in r %}{% endfor %}",
        "{% set r = range(50) %}{% for i in r if false %}{% endfor %}",
        "{% set a = messages[0] %}" + "{% if a == a %}{% endif %}" * 50,
        "{% set a = 'a' %}" + "{% set b = a[1:] %}" * 50,
        "{% set a = 'a' %}" + "{% set b = a|upper %}" * 50,
        "{% set a = 2 %}" + "{% set b = a is odd %}" * 50,
        "{% set a = 2 %}" + "{% set b = a * a %}" * 50,
        "{% set a = 'a' %}" + "{% set b = a.upper() %}" * 50,
    ],
)
def test_each_step_looks_at_the_clock(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    template, looks = ChatTemplate(source), [0.0]
    monkeypatch.setattr(template_limits, "thread_time", lambda: looks.append(0.0) or 0.0)
    template.render(QUESTION)
    assert len(looks) > 50
