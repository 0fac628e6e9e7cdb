"""From a conversation to the text that a model was trained to answer: its own chat template, in a sandbox."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NoReturn

from jinja2 import TemplateError, pass_environment
from jinja2.ext import Extension
from jinja2.nodes import Node
from jinja2.parser import Parser

from models.base import LanguageModel
from models.errors import LocalspecError
from models.template_limits import LimitedEnvironment

Role = Literal["system", "user", "assistant"]
_LONGEST_FORM = 256
"""Characters of the form in which a template wants the date."""
_WIDEST_INDENT = 32


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    text: str


class _GenerationBlock(Extension):
    """`{% generation %}...{% endgeneration %}`, which marks answers for training: its content, as it is."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[Node]:
        """Return the statements between the two tags."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A model's chat template, compiled once; it comes from the model file, so it runs in a sandbox with limits."""

    def __init__(self, source: str, *, bos: str = "", eos: str = "") -> None:
        """Compile a template; raises LocalspecError when it is no valid Jinja."""
        self._specials = {"bos_token": bos, "eos_token": eos}
        # The options templates are written for: those of the library their authors test with.
        extensions = ["jinja2.ext.loopcontrols", _GenerationBlock]
        environment = LimitedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
        # Jinja's own escapes what HTML must not contain; a prompt is no HTML.
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form[:_LONGEST_FORM])
        self._environment = environment
        try:
            self._template = environment.compiled(source)
        # Not only TemplateError: nesting too deep for Python comes out as Python's own SyntaxError or RecursionError.
        except Exception as error:
            raise _bad_template(error) from error

    @classmethod
    def of(cls, model: LanguageModel) -> "ChatTemplate | None":
        """Return the template of a model; None for a model without one."""
        if not model.chat_template:
            return None
        return cls(model.chat_template, bos=model.vocab.special("bos"), eos=model.vocab.special("eos"))

    def render(self, messages: Sequence[Message]) -> str:
        """Return the prompt that asks for the next assistant message."""
        turns = [{"role": message.role, "content": message.text} for message in messages]
        given = sum(len(message.text) for message in messages)
        about = {"messages": turns, "add_generation_prompt": True, **self._specials}
        try:
            return self._environment.rendered(self._template, given, about)
        # The template is code from a stranger: whatever it raises is its own mistake.
        except Exception as error:
            raise _bad_template(error) from error


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
    encoder = json.JSONEncoder(ensure_ascii=ensure_ascii, indent=spaces, separators=separators, sort_keys=sort_keys)
    return environment.joined(encoder.iterencode(value))


def _refuse(reason: str) -> NoReturn:
    raise TemplateError(reason)


def _bad_template(error: Exception) -> LocalspecError:
    return LocalspecError(
        "The model's chat template can't be used.",
        cause=f"{type(error).__name__}: {error}",
        hint="Use --raw to send your text as it is, or another copy of this model.",
    )
