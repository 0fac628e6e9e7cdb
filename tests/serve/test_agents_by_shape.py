"""Requests as Claude Code and Codex send them: the same members, headers and turns, with short texts."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from calling_toy import CallingToy
from serving import Served, served

from app.engine.runtime import load

SCHEMA = "http://json-schema.org/draft-07/schema#"
CITY: dict[str, Any] = {
    "$schema": SCHEMA,
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
EDIT = {
    "$schema": SCHEMA,
    "type": "object",
    "properties": {
        "file_path": {"description": "The absolute path to the file", "type": "string"},
        "old_string": {"type": "string"},
        "new_string": {"type": "string"},
        "replace_all": {"type": "boolean", "default": False},
    },
    "required": ["file_path", "old_string", "new_string"],
    "additionalProperties": False,
}
CACHED = {"cache_control": {"type": "ephemeral"}}
CLAUDE_HEADERS = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,fine-grained-tool-streaming-2025-05-14",
    "anthropic-dangerous-direct-browser-access": "true",
    "authorization": "Bearer none",
    "user-agent": "claude-cli/2.0.0 (external, cli)",
    "x-app": "cli",
    "x-stainless-lang": "js",
}


def claude_turn(messages: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "model": "any",
        "messages": messages,
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.0.0.abc; cc_entrypoint=cli;"},
            {"type": "text", "text": "You are Claude Code.", **CACHED},
            {"type": "text", "text": "\nUse the tools.\n", **CACHED},
        ],
        "tools": [
            {"name": "weather", "description": "Tell the weather.", "input_schema": CITY},
            {"name": "Edit", "description": "Performs exact string replacements.", "input_schema": EDIT},
        ],
        "metadata": {"user_id": "user_0_account__session_1"},
        "max_tokens": 400,
        "thinking": {"type": "enabled", "budget_tokens": 31999},
        "temperature": 0,
        "stream": True,
        **more,
    }


def reminded(text: str) -> list[Any]:
    reminder = {"type": "text", "text": "<system-reminder>\nToday's date is 2026-11-28.\n</system-reminder>"}
    return [{"role": "user", "content": [reminder, {"type": "text", "text": text, **CACHED}]}]


def events(server: Served, path: str, body: dict[str, Any], headers: dict[str, str]) -> list[dict[str, Any]]:
    response = server.client.post(path, json=body, headers=headers)
    assert response.status_code == 200, response.text
    blocks = [block.split("\n") for block in response.text.strip().split("\n\n")]
    found = []
    for lines in blocks:
        if not lines[0].startswith(":"):
            content = json.loads(lines[1].removeprefix("data: "))
            assert lines[0] == f"event: {content['type']}"
            found.append(content)
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "ToyModel", CallingToy)
        with served(tmp_path_factory.mktemp("calls"), "toy", "-c", "8192", "-np", "1") as one:
            yield one


def test_claude_code_asks_calls_and_goes_on(server: Served) -> None:
    path = "/v1/messages?beta=true"
    first = events(server, path, claude_turn(reminded("look")), CLAUDE_HEADERS)
    starts = [one["content_block"] for one in first if one["type"] == "content_block_start"]
    assert [block["type"] for block in starts] == ["text", "tool_use"]
    deltas = [one["delta"] for one in first if one["type"] == "content_block_delta"]
    called = json.loads("".join(delta.get("partial_json", "") for delta in deltas))
    assert called == {"city": "Rom", "days": 2}
    assert [one["delta"]["stop_reason"] for one in first if one["type"] == "message_delta"] == ["tool_use"]
    answer = [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": starts[1]["id"], "name": "weather", "input": called},
    ]
    result = {"type": "tool_result", "tool_use_id": starts[1]["id"], "content": "wet", **CACHED}
    turns = [*reminded("look"), {"role": "assistant", "content": answer}, {"role": "user", "content": [result]}]
    second = events(server, path, claude_turn(turns), CLAUDE_HEADERS)
    text = "".join(one["delta"].get("text", "") for one in second if one["type"] == "content_block_delta")
    assert text == "Take an umbrella."
    usage = second[0]["message"]["usage"]
    assert usage["cache_read_input_tokens"] > usage["input_tokens"], "the conversation stays in the cache"


def test_claude_codes_smaller_requests_are_answered(server: Served) -> None:
    title = {
        "model": "any",
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "wet"}],
        "system": [{"type": "text", "text": "Write a short title."}],
        "temperature": 0,
        "metadata": {"user_id": "user_0"},
        "tools": [],
    }
    reply = server.client.post("/v1/messages?beta=true", json=title, headers=CLAUDE_HEADERS)
    assert reply.status_code == 200
    assert reply.json()["content"][0]["type"] == "text"
    probe = {**title, "max_tokens": 1, "messages": [{"role": "user", "content": "quota"}]}
    assert server.client.post("/v1/messages?beta=true", json=probe, headers=CLAUDE_HEADERS).status_code == 200
    body = {name: value for name, value in claude_turn(reminded("look")).items() if name != "stream"}
    del body["max_tokens"], body["temperature"], body["metadata"]
    counted = server.client.post("/v1/messages/count_tokens?beta=true", json=body, headers=CLAUDE_HEADERS)
    assert counted.status_code == 200
    assert counted.json()["input_tokens"] > 100
    assert server.client.get("/v1/models", headers=CLAUDE_HEADERS).status_code == 200


CODEX_HEADERS = {
    "authorization": "Bearer none",
    "originator": "codex_cli_rs",
    "session_id": "0199",
    "accept": "text/event-stream",
    "user-agent": "codex_cli_rs/0.50.0",
}
SHELL = {
    "type": "object",
    "properties": {
        "command": {"type": "array", "items": {"type": "string"}, "description": "The command to execute"},
        "workdir": {"type": "string"},
        "timeout_ms": {"type": "number"},
        "with_escalated_permissions": {"type": "boolean"},
        "justification": {"type": "string"},
    },
    "required": ["command"],
    "additionalProperties": False,
}
PATCH = {"type": "grammar", "syntax": "lark", "definition": 'start: "*** Begin Patch"'}


def codex_turn(items: list[Any]) -> dict[str, Any]:
    return {
        "model": "any",
        "instructions": "You are Codex.",
        "input": items,
        "tools": [
            {
                "type": "function",
                "name": "shell",
                "description": "Runs a command.",
                "strict": False,
                "parameters": SHELL,
            },
            {"type": "function", "name": "weather", "description": "Tell.", "strict": False, "parameters": CITY},
            {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": PATCH},
            {"type": "web_search"},
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "0199",
        "text": {"verbosity": "medium"},
        "temperature": 0,
    }


def message(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def test_codex_asks_calls_and_goes_on(server: Served) -> None:
    begin = [message("developer", "<permissions/>"), message("user", "<environment_context/>"), message("user", "look")]
    first = events(server, "/v1/responses", codex_turn(begin), CODEX_HEADERS)
    assert [first[0]["type"], first[-1]["type"]] == ["response.created", "response.completed"]
    done = [one["item"] for one in first if one["type"] == "response.output_item.done"]
    assert [item["type"] for item in done] == ["message", "function_call"]
    call = done[1]
    assert json.loads(call["arguments"]) == {"city": "Rom", "days": 2}
    assert {"input_tokens", "output_tokens", "total_tokens"} <= first[-1]["response"]["usage"].keys()
    back = {name: call[name] for name in ("type", "name", "arguments", "call_id")}
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "wet"}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]}
    second = events(server, "/v1/responses", codex_turn([*begin, said, back, result]), CODEX_HEADERS)
    text = "".join(one["delta"] for one in second if one["type"] == "response.output_text.delta")
    assert text == "Take an umbrella."
    usage = second[-1]["response"]["usage"]
    assert usage["input_tokens_details"]["cached_tokens"] > usage["input_tokens"] / 2
    assert any(
        "web_search" in warning or "tools[3]" in warning for warning in second[-1]["response"].get("warnings", [])
    )
