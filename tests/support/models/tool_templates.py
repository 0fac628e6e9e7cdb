"""Short templates that write calls as those of models do, and what each of them writes of two calls."""

from dataclasses import dataclass

_CALLS = "{% for call in message.tool_calls %}{% set f = call.function %}"
_TOOLS = "{% if tools %}{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% endif %}"
_HEAD = _TOOLS + "{% for message in messages %}[{{ message.role }}]{{ message.content }}"
_TAIL = "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
_JSON = '{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson }}}'
ARGUMENTS = '{"city": "Rom \\"é\\"", "days": 2}'


@dataclass(frozen=True, slots=True)
class Family:
    """One way to call."""

    template: str
    first: str
    """A call of weather with the city `Rom "é"` and 2 days."""
    second: str | None
    """What follows it for one of time, without arguments; None: there can only be one."""
    closes: str = ""
    text: str = "Let me look.\n"
    """What may be said before."""


def _calls(body: str, before: str = "", after: str = "") -> str:
    whole = f"{_CALLS}{body}{{% endfor %}}"
    return f"{_HEAD}{{% if message.tool_calls %}}{before}{whole}{after}{{% endif %}}{_TAIL}"


_TAGS = (
    "{{ '\\n' if not loop.first }}<tool_call>\n<function={{ f.name }}>\n{% for key, value in f.arguments | items %}"
    "<parameter={{ key }}>\n{{ value }}\n</parameter>\n{% endfor %}</function>\n</tool_call>"
)
_KEYS = (
    "{{ '\\n' if not loop.first }}<tool_call>{{ f.name }}\n{% for key, value in f.arguments | items %}"
    "<arg_key>{{ key }}</arg_key>\n<arg_value>{{ value }}</arg_value>\n{% endfor %}</tool_call>"
)
_WITH_COMMA = _JSON + "{{ ', ' if not loop.last }}"
FAMILIES: dict[str, Family] = {
    "hermes": Family(
        _calls("{{ '\\n' if not loop.first }}<tool_call>\n" + _JSON + "\n</tool_call>"),
        f'<tool_call>\n{{"name": "weather", "arguments": {ARGUMENTS}}}\n</tool_call>',
        '\n<tool_call>\n{"name": "time", "arguments": {}}\n</tool_call>',
    ),
    "qwen-coder": Family(
        _calls(_TAGS),
        "<tool_call>\n<function=weather>\n<parameter=city>\nRom \"é\"\n</parameter>\n"
        "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>",
        "\n<tool_call>\n<function=time>\n</function>\n</tool_call>",
    ),
    "seed": Family(
        _calls(_TAGS.replace("tool_call>", "seed:tool_call>").replace(">\n{{ value }}\n<", ">{{ value }}<")),
        "<seed:tool_call>\n<function=weather>\n<parameter=city>Rom \"é\"</parameter>\n<parameter=days>2</parameter>\n"
        "</function>\n</seed:tool_call>",
        "\n<seed:tool_call>\n<function=time>\n</function>\n</seed:tool_call>",
    ),
    "glm": Family(
        _calls(_KEYS),
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rom \"é\"</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
        "\n<tool_call>time\n</tool_call>",
    ),
    "mistral": Family(
        _calls("[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments }}"),
        f"[TOOL_CALLS]weather[ARGS]{ARGUMENTS}",
        "[TOOL_CALLS]time[ARGS]{}",
    ),
    "nemo": Family(
        _calls(_WITH_COMMA, "[TOOL_CALLS][", "]"),
        f'[TOOL_CALLS][{{"name": "weather", "arguments": {ARGUMENTS}}}',
        ', {"name": "time", "arguments": {}}',
        "]",
    ),
    "nemotron": Family(
        _calls(_WITH_COMMA, "<TOOLCALL>[", "]</TOOLCALL>"),
        f'<TOOLCALL>[{{"name": "weather", "arguments": {ARGUMENTS}}}',
        ', {"name": "time", "arguments": {}}',
        "]</TOOLCALL>",
    ),
    "apriel": Family(
        _calls(_WITH_COMMA, "<tool_calls>[", "]</tool_calls>"),
        f'<tool_calls>[{{"name": "weather", "arguments": {ARGUMENTS}}}',
        ', {"name": "time", "arguments": {}}',
        "]</tool_calls>",
    ),
    "llama": Family(
        "{# <|start_header_id|> #}" + _calls(_JSON.replace("arguments\"", "parameters\"")),
        f'{{"name": "weather", "parameters": {ARGUMENTS}}}',
        None,
        text="",
    ),
    "gpt-oss": Family(
        _calls("<|channel|>commentary to=functions.{{ f.name }}<|message|>{{ f.arguments | tojson }}"),
        f"<|channel|>commentary to=functions.weather<|message|>{ARGUMENTS}",
        None,
        text="<|channel|>analysis<|message|>Rain?<|end|><|start|>assistant",
    ),
}  # fmt: skip
