"""Fields of other engines: followed under their name here, refused by name, left out, or warned of; never dropped."""

from collections.abc import Iterator
from typing import Any

import pytest
from llguidance import LLMatcher, LLTokenizer
from serving import Served, served

from app.serve.replies.errors import Refused
from app.serve.requests.answer_form import read_form
from app.serve.requests.fields import Fields
from app.serve.requests.known_fields import (
    CONVERTED,
    FORMS,
    GROUPS,
    IGNORED,
    NOTED,
    OTHER_NAMES,
    READ,
    REFUSED,
    REFUSED_HERE,
    Route,
)
from app.serve.requests.other_engines import understood
from app.serve.requests.sampling import read_sampling
from models.forms.grammar import Grammar
from models.sampling.sampler import SamplingParams
from models.toy import ToyVocab

ASKING = (Route.CHAT, Route.COMPLETIONS, Route.COMPLETION, Route.INFILL)
NEEDED: dict[Route, dict[str, Any]] = {  # slots and embeddings need a flag of the server, and have tests of their own
    Route.CHAT: {"messages": [{"role": "user", "content": "the cat"}]},
    Route.COMPLETIONS: {"prompt": "the cat"},
    Route.MESSAGES: {"messages": [{"role": "user", "content": "the cat"}]},
    Route.RESPONSES: {"input": "the cat"},
    Route.COMPLETION: {"prompt": "the cat"},
    Route.INFILL: {"input_prefix": "the cat", "input_suffix": "mat"},
    Route.TOKENIZE: {"content": "the cat"},
    Route.DETOKENIZE: {"tokens": [1, 2]},
}
SHORT = {"max_tokens": 2, "temperature": 0}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("serve"), "toy-fim") as one:
        yield one


def body(route: Route, /, **more: Any) -> dict[str, Any]:
    return {**NEEDED[route], **({} if route in (Route.TOKENIZE, Route.DETOKENIZE) else SHORT), **more}


def text(route: Route, reply: Any) -> str:
    if "choices" not in reply:
        return str(reply["content"])
    choice = reply["choices"][0]
    return str(choice["message"]["content"] if route is Route.CHAT else choice["text"])


def refused_on(route: Route) -> dict[str, Any]:
    own = READ[route] if route in CONVERTED else ()
    return {name: why for name, why in {**REFUSED, **REFUSED_HERE[route]}.items() if name not in own}


def read(route: Route = Route.CHAT, **members: Any) -> Fields:
    return understood(Fields({**NEEDED[route], **members}), route)


def read_shape(members: dict[str, Any]) -> Grammar | None:
    """Read how tokens are chosen, and the form of the answer; return the form."""
    fields = read(**members)
    read_sampling(fields, SamplingParams(), ToyVocab())
    return read_form(fields)


# --- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("route", [*NEEDED])
def test_what_is_refused_is_refused_by_its_name_and_says_why(server: Served, route: Route) -> None:
    for name, refusal in refused_on(route).items():
        if name in NEEDED[route]:
            continue
        status, error = server.refused(route, **body(route, **{name: "\x01 something"}))
        assert (status, error["param"], error["code"]) == (400, name, "unsupported_parameter"), name
        assert name in error["message"]
        assert refusal.why in error["message"]


@pytest.mark.parametrize("route", [*NEEDED])
def test_what_is_neutral_is_never_refused_and_needs_no_warning(server: Served, route: Route) -> None:
    for neutral in (None, *range(8)):
        members: dict[str, Any] = {}
        for name, refusal in refused_on(route).items():
            if name not in NEEDED[route] and name not in READ[route]:
                members[name] = None if neutral is None else refusal.neutral[neutral % len(refusal.neutral)]
        assert "warnings" not in server.post(route, **body(route, **members))


@pytest.mark.parametrize("route", ASKING)
@pytest.mark.parametrize("value", ["something", 7, {"a": 1}, ["x"], True])
def test_what_can_not_change_the_text_is_left_out(server: Served, route: Route, value: Any) -> None:
    names = IGNORED - READ[route] - {*refused_on(route)}
    plain = text(route, server.post(route, **body(route)))
    reply = server.post(route, **body(route, **dict.fromkeys(names, value)))
    assert text(route, reply) == plain
    assert "warnings" not in reply


@pytest.mark.parametrize("route", [*NEEDED])
def test_what_is_a_wish_or_is_not_known_gets_a_warning(server: Served, route: Route) -> None:
    for name in (*NOTED, "foo", "seed_of_doom", "\x1b[31m"):
        (warning,) = server.post(route, **body(route, **{name: 4}))["warnings"]
        assert "has no effect" in warning
        assert warning.isprintable()
    assert "warnings" not in server.post(route, **body(route, foo=None))


def test_a_field_of_another_path_gets_a_warning(server: Served) -> None:
    (warning,) = server.post(Route.CHAT, **body(Route.CHAT, input_prefix="a"))["warnings"]
    assert warning == "'input_prefix' has no effect on this path."


def test_a_stream_tells_its_warnings_too(server: Served) -> None:
    for route in ASKING:
        events = [one for one in server.events(route, **body(route, foo=1)) if one != "[DONE]"]
        assert [one["warnings"] for one in events if "warnings" in one] == [
            ["'foo' is not known to this server, and has no effect."]
        ]


def test_no_name_is_in_two_tables() -> None:
    tables = (set(OTHER_NAMES), set(FORMS), set(GROUPS), set(IGNORED), set(NOTED), set(REFUSED))
    everything = [name for table in tables for name in table]
    assert len(everything) == len({*everything})
    own = frozenset().union(*READ.values())
    assert {*OTHER_NAMES.values()} <= own
    assert not own & {*OTHER_NAMES, *FORMS, *GROUPS, *NOTED}


@pytest.mark.parametrize(
    "name",
    [
        "guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "stop_token_ids",
        "min_tokens", "repetition_penalty", "ignore_eos", "typical_p", "mirostat", "dry_multiplier", "xtc_probability",
        "bad_words", "logit_bias", "best_of", "truncate_prompt_tokens", "add_generation_prompt", "chat_template",
        "continue_final_message", "skip_special_tokens", "options", "format", "num_predict", "num_ctx", "keep_alive",
    ],
)  # fmt: skip
def test_what_clients_of_other_engines_send_is_known(name: str) -> None:
    known = {*OTHER_NAMES, *FORMS, *GROUPS, *IGNORED, *NOTED, *REFUSED, *READ[Route.CHAT]}
    assert name in known


# --- other names ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*OTHER_NAMES])
def test_another_name_does_what_the_name_here_does(server: Served, name: str) -> None:
    values = {
        "repeat_penalty": 1.7, "repeat_last_n": 9, "dry_penalty_last_n": 9,
        "typical_p": 1, "mirostat": 0, "top_n_sigma": -1, "temperature": 1.3,
        "seed": 5, "max_tokens": 3, "stop": ["e"], "json_schema": {"type": "boolean"}, "grammar": 'root ::= "cab"',
        "chat_template_kwargs": {"enable_thinking": False}, "continue_final_message": False,
    }  # fmt: skip
    asked = {**NEEDED[Route.CHAT], "temperature": 1, "seed": 3, "max_tokens": 20}
    here = OTHER_NAMES[name]
    asked.pop(here, None)
    wanted = text(Route.CHAT, server.post(Route.CHAT, **asked, **{here: values[here]}))
    assert text(Route.CHAT, server.post(Route.CHAT, **asked, **{name: values[here]})) == wanted


def test_an_error_names_the_field_as_the_client_does() -> None:
    for members, param in (
        ({"repetition_penalty": "x"}, "repetition_penalty"),
        ({"options": {"temperature": "x"}}, "options.temperature"),
        ({"guided_grammar": "root ::= x"}, "guided_grammar"),
        ({"options": {"logit_bias": [5]}}, "options.logit_bias"),
        ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag"),
        ({"options": 5}, "options"),
    ):
        with pytest.raises(Refused) as refused:
            read_shape(members)
        assert refused.value.param == param


def test_the_name_here_wins_and_a_warning_tells_of_it() -> None:
    for members in ({"max_tokens": 3, "num_predict": 4}, {"options": {"max_tokens": 4}, "max_tokens": 3}):
        fields = read(**members)
        assert fields.raw("max_tokens") == 3
        assert len(fields.warnings) == 1
        assert "has no effect beside 'max_tokens'" in fields.warnings[0]
    assert not read(max_tokens=3, num_predict=3).warnings


def test_options_of_ollama_are_fields_like_others(server: Served) -> None:
    options = {
        "num_predict": 3,
        "temperature": 0,
        "num_keep": 5,
        "repeat_penalty": 1.1,
        "stop": ["zz"],
        "num_thread": 2,
    }
    asked = {**NEEDED[Route.CHAT], "options": options, "keep_alive": "5m"}
    reply = server.post(Route.CHAT, **asked)
    assert reply["usage"]["completion_tokens"] == 3
    assert "warnings" not in reply
    assert "num_ctx" in server.post(Route.CHAT, **{**asked, "options": {**options, "num_ctx": 4096}})["warnings"][0]


def test_who_does_not_want_to_sample_gets_the_likeliest_text() -> None:
    assert read(do_sample=False).raw("temperature") == 0
    assert read(do_sample=True, temperature=1).raw("temperature") == 1
    assert "do_sample" in read(do_sample=False, temperature=1).warnings[0]


def test_no_range_of_a_penalty_is_all_tokens() -> None:
    assert read(repetition_penalty_range=0).raw("repeat_last_n") == -1
    assert read(penalty_range=0).raw("repeat_last_n") == 0


# --- forms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "wanted"),
    [
        ({"guided_choice": ["cab"]}, "cab"), ({"guided_choice": ['"\\::=/\n']}, '"\\::=/\n'),
        ({"guided_regex": "^cab/d$"}, "cab/d"), ({"guided_regex": r"a\/b"}, "a/b"), ({"regex": "x::=\ny"}, "x::=\ny"),
        ({"regex_pattern": r"a\$"}, "a$"), ({"guided_json": {"enum": [4]}}, "4"),
        ({"guided_json": '{"enum": [4]}'}, "4"),
        ({"guided_grammar": 'root ::= "cab"'}, "cab"), ({"grammar": {"type": "regex", "value": "cab"}}, "cab"),
        ({"grammar": {"type": "json", "value": {"enum": [4]}}}, "4"), ({"format": {"enum": [4]}}, "4"),
        ({"structured_outputs": {"json": {"enum": [4]}, "regex": None}}, "4"),
        ({"structured_outputs": {"choice": ["cab"]}}, "cab"), ({"structured_outputs": {"regex": "cab"}}, "cab"),
        ({"structured_outputs": {"grammar": 'root ::= "cab"'}}, "cab"),
        ({"extra_body": {"guided_choice": ["cab"]}}, "cab"),
    ],
)  # fmt: skip
def test_forms_of_other_engines_are_kept(members: dict[str, Any], wanted: str) -> None:
    grammar = read_shape(members)
    assert grammar is not None
    assert not LLMatcher.validate_grammar(grammar.source)
    assert matches(grammar.source, wanted)
    assert not matches(grammar.source, wanted + "!")


def matches(source: str, wanted: str) -> bool:
    """Tell whether a grammar takes a text as a whole."""
    tokenizer = LLTokenizer("byte")
    matcher = LLMatcher(tokenizer, source)
    return matcher.consume_tokens(tokenizer.tokenize_str(wanted)) and matcher.is_accepting()


def test_a_form_is_followed_on_the_way_to_the_answer(server: Served) -> None:
    for route in (Route.CHAT, Route.COMPLETIONS, Route.COMPLETION):
        asked = {**NEEDED[route], "temperature": 0, "max_tokens": 9}
        assert text(route, server.post(route, **asked, guided_choice=["cab", "bad"])) in ("cab", "bad")


@pytest.mark.parametrize(
    "members",
    [{"guided_choice": []}, {"guided_regex": ""}, {"format": ""}, {"structured_outputs": {}}, {"guided_json": None}],
)
def test_a_form_that_is_empty_is_none(server: Served, members: dict[str, Any]) -> None:
    assert server.post(Route.CHAT, **body(Route.CHAT, **members))["choices"]


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"guided_choice": "cab"}, "guided_choice"), ({"guided_choice": [5]}, "guided_choice"),
        ({"guided_regex": 5}, "guided_regex"), ({"format": "yaml"}, "format"),
        ({"structured_outputs": 5}, "structured_outputs"),
        ({"guided_choice": ["a"], "guided_regex": "b"}, "guided_regex"),
        ({"grammar": 'root ::= "a"', "guided_regex": "b"}, "guided_regex"), ({"grammar": {"type": "x"}}, "grammar"),
        ({"guided_regex": "("}, "guided_regex"),
    ],
)  # fmt: skip
def test_a_form_that_can_not_be_read_is_refused(server: Served, members: dict[str, Any], param: str) -> None:
    status, error = server.refused(Route.CHAT, **body(Route.CHAT, **members))
    assert (status, error["param"]) == (400, param)


# --- answers that are begun -------------------------------------------------------------------------------------------


def test_an_answer_that_is_begun_is_gone_on_with_and_no_other(server: Served) -> None:
    begun = [*NEEDED[Route.CHAT]["messages"], {"role": "assistant", "content": "ab"}]
    plain = server.post(Route.CHAT, messages=begun, **SHORT)
    for more in ({"continue_final_message": True, "add_generation_prompt": False}, {"continue_": True}):
        reply = server.post(Route.CHAT, messages=begun, **SHORT, **more)
        assert reply["choices"] == plain["choices"]
        assert "warnings" not in reply
    neutral = {"continue_final_message": False, "add_generation_prompt": True}
    assert server.post(Route.CHAT, **body(Route.CHAT, **neutral))["choices"]
    for name, value in (("continue_final_message", True), ("add_generation_prompt", False)):
        assert server.refused(Route.CHAT, **body(Route.CHAT, **{name: value}))[1]["param"] == name
