"""Notations of tool calls: each family of models has its own, which its chat template shows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from models.base import Vocab


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call."""

    name: str
    about: Mapping[str, Any] = field(hash=False)
    """As chat templates know it: `{"type": "function", "function": {"name": ..., "description": ..., ...}}`."""
    schema: Mapping[str, Any] = field(hash=False)
    """JSON schema of its arguments, an object; checked."""

    @property
    def size(self) -> int:
        """Characters of what templates are given of it."""
        return len(json.dumps(self.about, ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class Call:
    """A call in an earlier answer."""

    name: str
    arguments: str
    """The text of a JSON object."""
    id: str = ""

    @property
    def size(self) -> int:
        """Characters of all that it is made of."""
        return len(self.name) + len(self.arguments) + len(self.id)

    @property
    def spelled(self) -> str:
        """The call as JSON, without any model's marks."""
        return f'{{"name": {json.dumps(self.name, ensure_ascii=False)}, "arguments": {self.arguments}}}'


class Arguments(dict[str, Any]):
    """Arguments of a call: some templates write an object as JSON, others put a text into theirs. This is both."""

    def __init__(self, text: str, arguments: Mapping[str, Any] | None = None) -> None:
        """Take the text of a JSON object, and what it says; None: it is read."""
        super().__init__(json.loads(text) if arguments is None else arguments)
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __add__(self, other: object) -> str:
        return self._text + str(other)

    def __radd__(self, other: object) -> str:
        return str(other) + self._text


@dataclass(frozen=True, slots=True)
class CallFormat:
    """Texts around the names and arguments of calls; marks in them may be tokens of their own."""

    opens: str
    """Before the first call: what is said up to here is text."""
    before: str
    """Before a function's name."""
    between: str
    """Between the name and the arguments."""
    after: str
    """After the arguments."""
    joins: str | None
    """Between two calls, before `before`; None: an answer has one call at most."""
    closes: str = ""
    """After the last call."""
    around: tuple[str, str, str] | None = None
    """Texts before a key, between key and value, and after a value, for arguments outside JSON; None: JSON."""
    is_bare: bool = False
    """True if an answer may also begin with `before`, without the mark that opens calls."""
    may_be_loose: bool = False
    """True if small models also leave the marks out; see `models.forms.loose_calls`."""
    comes_first: bool = False
    """True if no text comes before a call, as where the text has a form of its own."""
    has_channels: bool = False
    """True if thoughts, answers and calls are messages, each in a channel of its own."""
    marks: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Tokens of those marks that are one token in this model's vocabulary."""

    @classmethod
    def of(cls, template: str, vocab: Vocab) -> "CallFormat | None":
        """Return how a model with this chat template calls tools; None where that is not known."""
        # Whether it writes the ends of lines as they are, or as Jinja spells them.
        shown = template.replace("\\n", "\n")
        known = (form for needles, form in _KNOWN if all(needle in shown for needle in needles))
        if "tool_calls" not in template or (form := next(known, None)) is None:
            return None
        marks = {mark: token for token, mark in tokens_of_marks(vocab, (*TOOL_MARKS, *_CHANNEL_MARKS)).items()}
        # Where its marks are spelled out, channels can't be distinguished from text.
        return None if form.has_channels and not marks.keys() >= _CHANNEL_MARKS else replace(form, marks=marks)


def tokens_of_marks(vocab: Vocab, marks: Sequence[str]) -> dict[int, str]:
    """Return which of these marks are one token each, and none that ends an answer."""
    spelled = {mark: vocab.tokenize(mark) for mark in marks}
    return {ids[0]: mark for mark, ids in spelled.items() if len(ids) == 1 and not vocab.is_end(ids[0])}


_TAGGED = {name: (f"<{name}>", f"</{name}>") for name in ("tool_call", "seed:tool_call", "arg_key", "arg_value")}


def _listed(opens: str, closes: str) -> CallFormat:
    return CallFormat(opens, '{"name": "', '", "arguments": ', "}", ", ", closes)


def _functions(mark: str, before_value: str, after_value: str) -> CallFormat:
    opens, closes = _TAGGED[mark]
    around = "<parameter=", before_value, after_value
    return CallFormat(opens, "\n<function=", ">\n", f"</function>\n{closes}", f"\n{opens}", around=around)


_KNOWN: tuple[tuple[tuple[str, ...], CallFormat], ...] = (
    # gpt-oss
    (
        ("<|channel|>commentary", "functions."),
        CallFormat("<|channel|>commentary to=functions.", "", "<|message|>", "", None, has_channels=True),
    ),
    # Mistral: Devstral, Small 3.2, Ministral 3
    (("[TOOL_CALLS]", "[ARGS]"), CallFormat("[TOOL_CALLS]", "", "[ARGS]", "", "[TOOL_CALLS]")),
    # Nemo, and those before
    (("[TOOL_CALLS]",), _listed("[TOOL_CALLS][", "]")),
    (("<seed:tool_call>", "<function="), _functions("seed:tool_call", ">", "</parameter>\n")),
    # Qwen 3 Coder, Qwen 3.5, Nemotron 3
    (("<tool_call>", "<function=", "<parameter="), _functions("tool_call", ">\n", "\n</parameter>\n")),
    # GLM 4.5 and later
    (
        ("<tool_call>", "</arg_key>\n<arg_value>"),
        CallFormat(
            "<tool_call>",
            "",
            "\n",
            "</tool_call>",
            "\n<tool_call>",
            around=("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n"),
        ),
    ),
    # Apriel
    (("<tool_calls>[",), _listed("<tool_calls>[", "]</tool_calls>")),
    # Hermes, Qwen 2.5, Qwen 3, Granite 4
    (
        ("<tool_call>", '"arguments": '),
        CallFormat(
            "<tool_call>", '\n{"name": "', '", "arguments": ', "}\n</tool_call>", "\n<tool_call>", may_be_loose=True
        ),
    ),
    # Nemotron Nano 2
    (("<TOOLCALL>[",), _listed("<TOOLCALL>[", "]</TOOLCALL>")),
    # Llama 3.1 and later
    (
        ('{"name": "', '"parameters": ', "<|start_header_id|>"),
        CallFormat("<|python_tag|>", '{"name": "', '", "parameters": ', "}", None, is_bare=True),
    ),
)
"""Parts of a template that show the form of its calls."""
TOOL_MARKS = ("[TOOL_CALLS]", "[ARGS]", "<|python_tag|>", *chain.from_iterable(_TAGGED.values()))
"""Marks of calls that may be control tokens, which have no text: without this, a call would be invisible."""
_CHANNEL_MARKS = frozenset(("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|constrain|>"))
