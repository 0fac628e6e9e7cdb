"""Prompts from conversations, by the model's own chat template, rendered in a sandbox."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal, NoReturn

from jinja2 import TemplateError, pass_environment
from jinja2.ext import Extension
from jinja2.nodes import Node
from jinja2.parser import Parser

from models.base import LanguageModel, Vocab
from models.errors import LocalspecError, MessagesRefusedError, TemplateBrokenError, UsageError
from models.text.marked_text import MarkedText
from models.text.marks import Marks
from models.text.placeholders import NoPlaceholders, Placeholders
from models.text.template_limits import LimitedEnvironment
from models.text.thoughts import Effort, after_no_thoughts, divided, has_marks, marks_of_thoughts
from models.text.tool_calls import Arguments, Call, CallFormat, Tool

Role = Literal["system", "user", "assistant", "tool"]
_LONGEST_FORM = 256
"""Characters of the form in which a template wants the date."""
_WIDEST_INDENT = 32
_FOREIGN = re.compile(r"([^\x00-\x7f])")
"""A character that is escaped where a template wants ASCII."""
SWITCHES = ("enable_thinking", "thinking")
"""Variables by which templates let a model think or not."""
_NINE, _NINE_LETTERS = "|length != 9", 9
LEVEL = "reasoning_effort"
"""Variable of templates that know how much."""
_SHOWN, _RESULT = Call("shown_call", "{}", "shown0000"), "shown_result"
_TOOL = Tool("f", {"type": "function", "function": {"name": "f", "description": "", "parameters": {}}}, {})
"""A call, its result and a tool, to find out what a template shows."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    text: str
    """An answer may have thoughts before it, with their marks."""
    thoughts: str = ""
    """Thoughts of an answer that came without marks."""
    calls: tuple[Call, ...] = ()
    """Calls of tools in an answer, after its text."""
    answers: Call | None = None
    """The call whose result this is, for a tool."""

    @property
    def size(self) -> int:
        """Characters of all that it is made of."""
        calls = sum(call.size for call in (*self.calls, self.answers) if call is not None)
        return len(self.text) + len(self.thoughts) + calls


class _GenerationBlock(Extension):
    """`{% generation %}...{% endgeneration %}`, which marks answers for training: its content, as it is."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[Node]:
        """Return the statements between the two tags."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A model's chat template, compiled once; it comes from the model file, so it runs in a sandbox with limits."""

    def __init__(self, source: str, *, bos: str = "", eos: str = "", marks: Marks | None = None) -> None:
        """Compile a template for a vocabulary's marks; raises LocalspecError when it is no valid Jinja."""
        self.marks = marks or Marks()
        self._specials = {"bos_token": bos, "eos_token": eos}
        # The options templates are written for: those of the library their authors test with.
        extensions = ["jinja2.ext.loopcontrols", _GenerationBlock]
        environment = LimitedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
        # Jinja's own escapes what HTML must not contain; a prompt is no HTML.
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form[:_LONGEST_FORM])
        self._source, self._environment = source, environment
        try:
            self._template = environment.compiled(source)
        # Not only TemplateError: nesting too deep for Python comes out as Python's own SyntaxError or RecursionError.
        except Exception as error:
            raise _bad_template(error) from error
        self._shows: dict[bool, bool] = {}
        # Such as `<answer>`, which a template takes out of earlier answers.
        self._kept = [text for text in environment.constants if self._is_kept(text)]

    @classmethod
    def of(cls, model: LanguageModel) -> "ChatTemplate | None":
        """Return the template of a model that has no name; None for a model without one."""
        vocab, source = model.vocab, model.chat_template
        if not source:
            return None
        return cls(source, bos=vocab.special("bos"), eos=vocab.special("eos"), marks=Marks.of(vocab, source))

    def render(self, messages: Sequence[Message], effort: Effort = Effort.AUTO, tools: Sequence[Tool] = ()) -> str:
        """Return the text of a prompt; see `prompt`."""
        return self.prompt(messages, effort, tools).text

    def prompt(
        self,
        messages: Sequence[Message],
        effort: Effort = Effort.AUTO,
        tools: Sequence[Tool] = (),
        *,
        special: bool = False,
    ) -> MarkedText:
        """Return the prompt that asks for the next assistant message, or to go on with one that comes last.

        `tools` are what it may call. Only what the template itself writes is a mark in it; with `special`, what the
        messages spell, too. Raises LocalspecError, and UsageError for an effort that is none of `efforts`.
        """
        if effort not in self.efforts:
            known = ", ".join(self.efforts)
            raise UsageError(f"This model can't be asked to think '{effort}'.", hint=f"It knows: {known}.")
        used = (self._source, *self._specials.values(), *_texts(messages, tools))
        holders = NoPlaceholders() if special else Placeholders(self.marks, self._kept, used)
        self._environment.placeholders = holders.characters
        return holders.reveal(self._rendered(messages, effort, tools, holders))

    def _rendered(
        self, messages: Sequence[Message], effort: Effort, tools: Sequence[Tool], holders: Placeholders
    ) -> str:
        if len(messages) > 1 and messages[-1].role == "assistant" and not messages[-1].calls:
            # What is said already comes after its thoughts.
            unthinking = Effort.OFF if Effort.OFF in self.efforts else effort
            return self._rendered(messages[:-1], unthinking, tools, holders) + _begun(messages[-1].text, holders)
        turns = [self._turn(message, holders) for message in messages]
        given = sum(message.size for message in messages) + sum(tool.size for tool in tools)
        about = {"messages": turns, "add_generation_prompt": True, **self._specials, **self._switched(effort)}
        about |= {"tools": [_about(tool, holders) for tool in tools]} if tools else {}
        try:
            prompt = self._environment.rendered(self._template, given, about)
        except _Refusal as refusal:
            raise _refused(holders.reveal(str(refusal)).text, self._source) from refusal
        # The template is code from a stranger: whatever it raises is its own mistake.
        except Exception as error:
            raise _bad_template(error, holders.reveal(str(error)).text) from error
        without = after_no_thoughts(prompt, self._source) if effort is Effort.OFF and not self._switches else None
        return prompt if without is None else without

    def _is_kept(self, text: str) -> bool:
        return bool(self.marks.edges.intersection(text)) and not self.marks.touches(text)

    def calls(self, vocab: Vocab) -> CallFormat | None:
        """Return how the model calls tools; None where it does not, or in a way that is not known."""
        return CallFormat.of(self._source, vocab) if "tools" in self._environment.asks else None

    def shows_calls(self, *, tools: bool) -> bool:
        """Return whether earlier calls and their results appear in a prompt with or without tools."""
        if tools not in self._shows:
            called = Message("assistant", "", calls=(_SHOWN,))
            messages = Message("user", "a"), called, Message("tool", _RESULT, answers=_SHOWN)
            try:
                prompt = self.render(messages, tools=(_TOOL,) if tools else ())
                self._shows[tools] = _SHOWN.name in prompt and _RESULT in prompt
            except LocalspecError:
                # The template refuses them, or is broken: its own error says so.
                self._shows[tools] = True
        return self._shows[tools]

    @property
    def efforts(self) -> tuple[Effort, ...]:
        """Efforts of thinking that the template supports."""
        thinks = bool(self._switches) or has_marks(self._source)
        # Thinking can't be switched off where its marks can't be written into the prompt.
        stops = not thinks or self._switches or after_no_thoughts("", self._source) is not None
        levels = (Effort.LOW, Effort.MEDIUM, Effort.HIGH) if LEVEL in self._environment.asks else ()
        return (Effort.AUTO, *(Effort.ON,) * thinks, *(Effort.OFF,) * bool(stops), *levels)

    def _turn(self, message: Message, holders: Placeholders) -> Mapping[str, Any]:
        """Return a message as templates know it.

        Most leave earlier thoughts out, and each names them in its own way.
        """
        hide = holders.hide
        turn: dict[str, Any] = {"role": message.role, "content": hide(message.text)}
        if message.answers is not None:
            return {**turn, "tool_call_id": hide(self._id(message.answers)), "name": hide(message.answers.name)}
        if message.role != "assistant":
            return turn
        if message.calls:
            turn["tool_calls"] = [self._call(call, holders) for call in message.calls]
        parts = divided(message.text)
        thoughts = hide(message.thoughts or parts.thoughts)
        if thoughts or parts.answer != message.text:
            turn["content"] = hide(parts.answer)
        return {**turn, "reasoning_content": thoughts, "thinking": thoughts} if thoughts else turn

    def _call(self, call: Call, holders: Placeholders) -> Mapping[str, Any]:
        arguments = Arguments(holders.hide(call.arguments), holders.hide_in(json.loads(call.arguments)))
        function = {"name": holders.hide(call.name), "arguments": arguments}
        return {"id": holders.hide(self._id(call)), "type": "function", "function": function}

    def _id(self, call: Call) -> str:
        """Return the name of a call; some templates of Mistral's take none but those of nine letters and digits."""
        if _NINE not in self._source or len(call.id) == _NINE_LETTERS:
            return call.id
        return sha256(call.id.encode()).hexdigest()[:_NINE_LETTERS]

    @property
    def _switches(self) -> list[str]:
        return [name for name in SWITCHES if name in self._environment.asks]

    def _switched(self, effort: Effort) -> Mapping[str, bool | str]:
        """Return the template's variables for a reasoning effort."""
        if effort in (Effort.ON, Effort.OFF):
            return dict.fromkeys(self._switches, effort is Effort.ON)
        return {} if effort is Effort.AUTO else {LEVEL: str(effort)}


def _texts(messages: Sequence[Message], tools: Sequence[Tool]) -> Iterator[str]:
    """Yield all that a conversation says."""
    for message in messages:
        yield from (message.text, message.thoughts)
        for call in (*message.calls, *([message.answers] if message.answers else [])):
            yield from (call.name, call.id, json.dumps(json.loads(call.arguments), ensure_ascii=False))
    for tool in tools:
        yield json.dumps(tool.about, ensure_ascii=False)


def _begun(answer: str, holders: Placeholders) -> str:
    """Return an answer to go on with; the marks around its thoughts stay marks."""
    parts: list[str] = []
    place = 0
    for start, end in marks_of_thoughts(answer):
        parts += holders.hide(answer[place:start]), answer[start:end]
        place = end
    return "".join((*parts, holders.hide(answer[place:])))


def _about(tool: Tool, holders: Placeholders) -> Mapping[str, Any]:
    function = {key: holders.hide_in(value) for key, value in tool.about.get("function", {}).items()}
    return {**tool.about, "function": function} if function else tool.about


def render_plain(messages: Sequence[Message]) -> str:
    """Return the messages' bare text, for a model without a template and for --raw."""
    return "\n".join(message.text for message in messages)


@pass_environment
def _to_json(
    environment: LimitedEnvironment,
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    spaces = None if indent is None else min(int(indent), _WIDEST_INDENT)
    encoder = json.JSONEncoder(ensure_ascii=False, indent=spaces, separators=separators, sort_keys=sort_keys)
    text = environment.joined(encoder.iterencode(value))
    if not ensure_ascii:
        return text
    held = environment.placeholders
    return environment.joined(
        part if part.isascii() or ord(part[0]) in held else json.dumps(part)[1:-1] for part in _FOREIGN.split(text)
    )


class _Refusal(TemplateError):
    """Error that a template raises for messages it does not support, such as two turns of a user in a row."""


def _refuse(reason: str) -> NoReturn:
    raise _Refusal(reason)


def _refused(words: str, source: str) -> MessagesRefusedError:
    hint = "Leave out what it refuses, such as a system prompt, or use --raw to send your text as it is."
    error = MessagesRefusedError("The model's chat template refuses these messages.", cause=words, hint=hint)
    error.own_words = words if words in source else ""
    return error


def _bad_template(error: Exception, words: str = "") -> LocalspecError:
    return TemplateBrokenError(
        "The model's chat template can't be used.",
        cause=f"{type(error).__name__}: {words or error}",
        hint="Use --raw to send your text as it is, or another copy of this model.",
    )
