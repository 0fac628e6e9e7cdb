"""Bodies of requests that are nearly right, or anything, for each path of the server."""

from typing import Any

from hypothesis import strategies as st

NAMES = ["../../etc/passwd", "C:\\con", "\x00", "%n%s", "<end><fim_middle>", "\ud800", "💥" * 9, "a" * 700, "-" * 65]
TEXTS = st.one_of(st.text(max_size=8), st.sampled_from(NAMES))
NUMBERS = st.one_of(
    st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([2**63, -(2**64), 10**400, 1e308])
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=6,
)
FUNCTIONS = st.fixed_dictionaries({"name": TEXTS}, optional={"arguments": st.one_of(TEXTS, ANYTHING)})
CALLS = st.lists(st.fixed_dictionaries({"id": TEXTS, "function": FUNCTIONS}), max_size=2)
TURN = st.fixed_dictionaries(
    {"role": st.one_of(st.sampled_from(["system", "user", "assistant", "developer", "tool"]), ANYTHING)},
    optional={
        "content": st.one_of(
            TEXTS, ANYTHING, st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS}))
        ),
        "tool_calls": CALLS,
        "tool_call_id": TEXTS,
    },
)
COUNTS = st.integers(-1, 4)
SHARES = st.floats(0, 1)
FLAGS = st.booleans()
TEXT_LISTS = st.lists(TEXTS, max_size=3)
IDS = st.lists(st.integers(-1, 40), max_size=5)
PROMPTS = st.one_of(
    TEXTS, IDS, TEXT_LISTS, st.lists(st.one_of(IDS, TEXTS, st.lists(st.one_of(st.integers(0, 30), TEXTS))))
)
GRAMMARS = st.sampled_from([None, "", 'root ::= "a"+', "root ::= b", 'root ::= "1"'])
SCHEMAS = st.sampled_from([None, {}, {"type": "boolean"}, {"type": "object"}, '{"enum": [null]}', {"not": {}}])
FORMATS = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "json_object", "json_schema"])}, optional={"schema": SCHEMAS}
    ),
)
EMPTY: st.SearchStrategy[Any] = st.sampled_from([None, [], {}, False])
BIASES = st.one_of(
    EMPTY,
    st.dictionaries(st.one_of(st.integers(0, 30).map(str), TEXTS), st.floats(-100, 100), max_size=3),
    st.lists(st.tuples(st.integers(0, 30), st.one_of(st.just(False), st.floats(-100, 100))), max_size=40),
)
SAMPLING: dict[str, st.SearchStrategy[Any]] = {
    "temperature": SHARES, "top_k": COUNTS, "top_p": SHARES, "min_p": SHARES, "repeat_penalty": st.floats(0.5, 2),
    "repeat_last_n": COUNTS, "frequency_penalty": SHARES, "presence_penalty": SHARES, "seed": st.integers(-1, 9),
    "samplers": st.lists(st.sampled_from(["top_k", "top_p", "min_p", "temperature", "infill"])), "mirostat": st.just(0),
    "dynatemp_range": st.just(0), "xtc_probability": st.just(0), "dry_multiplier": st.sampled_from([0, 0.8]),
    "dry_base": st.floats(0, 4), "dry_allowed_length": COUNTS, "dry_penalty_last_n": COUNTS,
    "dry_sequence_breakers": st.one_of(TEXT_LISTS, TEXTS),
    "top_n_sigma": st.just(-1), "typical_p": st.just(1), "logit_bias": BIASES,
}  # fmt: skip
SHARED: dict[str, st.SearchStrategy[Any]] = {
    **SAMPLING, "stop": TEXT_LISTS, "stream": FLAGS, "n_predict": COUNTS, "max_tokens": COUNTS, "grammar": GRAMMARS,
    "json_schema": SCHEMAS, "response_format": FORMATS,
    "modalities": st.just(["text"]), "n_probs": st.just(0), "ignore_eos": EMPTY,
}  # fmt: skip
OPENAI: dict[str, st.SearchStrategy[Any]] = {
    **SHARED, "model": TEXTS, "stream_options": st.fixed_dictionaries({"include_usage": FLAGS}), "n": st.integers(1, 3),
    "best_of": st.just(1), "prediction": st.fixed_dictionaries({"type": st.just("content"), "content": TEXTS}),
    "top_logprobs": st.just(0), "echo": EMPTY, "tools": EMPTY, "functions": EMPTY, "audio": EMPTY,
    "tool_choice": st.just("none"), "function_call": st.just("auto"), "web_search_options": st.none(),
    "chat_template_kwargs": EMPTY,
}  # fmt: skip
CONVERTED: dict[str, st.SearchStrategy[Any]] = {
    **SAMPLING, "model": TEXTS, "stop": TEXT_LISTS, "stream": FLAGS, "max_tokens": COUNTS,
    "chat_template_kwargs": EMPTY,
}  # fmt: skip
TEXT_BLOCK = st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS})
BLOCKS = st.lists(
    st.one_of(
        TEXT_BLOCK,
        st.fixed_dictionaries({"type": st.just("thinking"), "thinking": TEXTS, "signature": TEXTS}),
        st.fixed_dictionaries({"type": st.just("tool_use"), "id": TEXTS, "name": TEXTS, "input": ANYTHING}),
        st.fixed_dictionaries(
            {"type": st.just("tool_result"), "tool_use_id": TEXTS, "content": st.one_of(TEXTS, st.lists(TEXT_BLOCK))}
        ),
        ANYTHING,
    ),
    max_size=3,
)
BLOCK_TURN = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system"]), "content": st.one_of(TEXTS, BLOCKS)}
)
ITEM = st.one_of(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system", "developer"]), "content": st.one_of(TEXTS, ANYTHING)}
    ),
    st.fixed_dictionaries(
        {"type": st.just("reasoning"), "summary": EMPTY}, optional={"encrypted_content": TEXTS, "content": EMPTY}
    ),
    st.fixed_dictionaries({"type": st.just("function_call"), "call_id": TEXTS, "name": TEXTS, "arguments": TEXTS}),
    st.fixed_dictionaries({"type": st.just("function_call_output"), "call_id": TEXTS, "output": TEXTS}),
    ANYTHING,
)
NATIVE: dict[str, st.SearchStrategy[Any]] = {
    **SHARED, "n_indent": COUNTS, "response_fields": TEXT_LISTS, "t_max_predict_ms": COUNTS, "t_max_prompt_ms": COUNTS,
    "logprobs": st.just(0), "return_tokens": EMPTY, "n": st.just(1), "max_completion_tokens": COUNTS,
}  # fmt: skip
CHUNKS = st.lists(st.fixed_dictionaries({"text": TEXTS}, optional={"filename": TEXTS}), max_size=3)
FIELDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "/v1/chat/completions": {
        "messages": st.lists(TURN, max_size=3),
        "max_completion_tokens": COUNTS,
        "logprobs": FLAGS,
        "reasoning_effort": st.sampled_from([None, "none"]),
        "reasoning_format": st.sampled_from([None, "auto"]),
        "parallel_tool_calls": FLAGS,
        "reasoning": st.fixed_dictionaries({}, optional={"effort": st.just("low"), "enabled": FLAGS}),
        "thinking": st.one_of(FLAGS, st.fixed_dictionaries({"type": st.sampled_from(["enabled", "disabled"])})),
        "think": FLAGS,
        "enable_thinking": FLAGS,
        **dict.fromkeys(("thinking_budget", "thinking_budget_tokens", "thinking_token_budget"), COUNTS),
        "reasoning_budget": COUNTS,
        "continue_final_message": st.none(),
        "add_generation_prompt": st.none(),
        **OPENAI,
    },
    "/v1/messages": {
        "messages": st.lists(BLOCK_TURN, max_size=3),
        "system": st.one_of(TEXTS, st.lists(TEXT_BLOCK, max_size=2)),
        "tools": EMPTY,
        "tool_choice": st.fixed_dictionaries({"type": st.sampled_from(["none", "auto"])}),
        "thinking": st.fixed_dictionaries({"type": st.sampled_from(["enabled", "disabled", "adaptive"])}),
        "output_config": st.fixed_dictionaries({}, optional={"effort": st.just("low"), "format": FORMATS}),
        "output_format": FORMATS,
        **CONVERTED,
    },
    "/v1/responses": {
        "input": st.one_of(TEXTS, st.lists(ITEM, max_size=4)),
        "instructions": TEXTS,
        "tools": EMPTY,
        "tool_choice": st.sampled_from(["none", "auto"]),
        "parallel_tool_calls": FLAGS,
        "text": st.fixed_dictionaries({}, optional={"format": FORMATS, "verbosity": TEXTS}),
        "include": TEXT_LISTS,
        "store": FLAGS,
        "truncation": st.sampled_from(["auto", "disabled"]),
        "previous_response_id": st.none(),
        "metadata": st.dictionaries(TEXTS, TEXTS, max_size=2),
        "reasoning": st.fixed_dictionaries({}, optional={"effort": st.just("low"), "summary": st.just("auto")}),
        "background": EMPTY,
        "conversation": st.none(),
        "prompt": st.none(),
        **CONVERTED,
    },
    "/v1/completions": {
        "parse_special": FLAGS,
        "prompt": PROMPTS,
        "suffix": TEXTS,
        "logprobs": st.sampled_from([None, 0, 5]),
        **OPENAI,
    },
    "/infill": {
        "input_prefix": TEXTS,
        "input_suffix": TEXTS,
        "input_extra": CHUNKS,
        "prompt": TEXTS,
        "cache_prompt": FLAGS,
        "model": TEXTS,
        **NATIVE,
    },
    "/completion": {
        "parse_special": FLAGS,
        "prompt": PROMPTS,
        "n_cmpl": st.just(1),
        "lora": EMPTY,
        "model": TEXTS,
        **NATIVE,
    },
    "/tokenize": {
        "content": TEXTS,
        "add_special": FLAGS,
        "parse_special": FLAGS,
        "with_pieces": FLAGS,
        "model": TEXTS,
    },
    "/detokenize": {"tokens": IDS, "model": TEXTS},
}
"""Every field that a request may have, and what about belongs into it."""
NEEDED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "a"}]},
    "/v1/responses": {"input": "a"},
    "/v1/completions": {"prompt": "a"},
    "/infill": {"input_prefix": "a", "input_suffix": "b"},
    "/completion": {"prompt": "a"},
    "/tokenize": {},
    "/detokenize": {},
}
WRONG: list[Any] = [5, 1.5, 10**400, True, "\ud800", [5], [None], [[]], {"x": 5}, {"type": 5}]
"""Few of them are right for any field."""


@st.composite
def bodies(draw: st.DrawFn, path: str) -> dict[str, Any]:
    """Return a body that is about right, with something wrong about it."""
    fields = FIELDS[path]
    drawn = {name: draw(fields[name]) for name in NEEDED[path] if draw(st.integers(0, 9)) > 0}
    for name in draw(st.lists(st.sampled_from([*fields]), max_size=4, unique=True)):
        drawn[name] = draw(fields[name])
    for name in draw(st.lists(st.sampled_from([*fields]), max_size=2, unique=True)):
        drawn[name] = draw(ANYTHING)
    # Short answers by default; fields of the request above override this.
    return {"n_predict": 4, "max_tokens": 4, "max_completion_tokens": 4, **drawn}


def is_in_order(response: Any) -> None:
    """Check that an answer is one, or an error in the shape that clients read."""
    assert response.status_code in {200, 400, 404, 405, 413}, response.text
    if response.status_code != 200:
        assert {"code", "message", "param", "type"} <= set(response.json()["error"])
    elif response.headers["content-type"].startswith("application/json"):
        response.json()
