"""Tokens of a conversation, chosen so that the cache's content stays a prefix of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.engine.conversation.calls_as_text import calls_as_text
from app.engine.conversation.truncate_history import kept
from app.engine.decoding.request import Question
from models.base import LanguageModel
from models.errors import MessagesRefusedError, TemplateBrokenError
from models.forms.preface import NO_PREFACE, Preface
from models.text.chat_templates import ChatTemplates
from models.text.marked_text import MarkedText, TextReader
from models.text.prompts import ChatTemplate, Message, render_plain
from models.text.thoughts import Effort, opening
from models.text.tool_calls import CallFormat, Tool


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Part that a turn adds to a conversation."""

    text: MarkedText
    tokens: list[int]
    question_size: int = 0
    """Characters before the answer, which comes after them."""

    @property
    def size(self) -> int:
        """Characters of question and answer."""
        return len(self.text.text)

    def begins(self, other: MarkedText, read: int) -> bool:
        """Tell whether another text continues with this stretch at `read`.

        The part before the answer must have its marks at equal places. In the answer, text that the model spelled out
        must be no mark there; marks that it emitted stay its own, however they are written later.
        """
        if not other.text.startswith(self.text.text, read):
            return False
        places = [(start - read, end - read) for start, end in other.literal if read <= start < read + self.size]
        before = [span for span in places if span[0] < self.question_size]
        mine = [span for span in self.text.literal if span[0] < self.question_size]
        return before == mine and set(places).issuperset(self.text.literal)


class Transcript:
    """Renderer of messages to prompt tokens that reuses the tokens emitted in earlier answers.

    A model may spell a word in other tokens than the tokenizer does. Tokenizing its answer anew would then change the
    history, and the cache would be lost from there on.
    """

    def __init__(self, model: LanguageModel, *, may_be_raw: bool = True) -> None:
        """Take a model; `may_be_raw`: the user can use --raw in place of its chat template."""
        self._vocab = model.vocab
        self._templates = ChatTemplates(model)
        self._used: ChatTemplate | None = None
        self._reader = TextReader(model.vocab, self._templates.marks)
        self._may_be_raw = may_be_raw
        # Each stretch continues those before it: whole texts would take quadratic time in a long conversation.
        self._known: list[_Stretch] = []
        self._rendered = 0, _Stretch(MarkedText(""), [])
        self.opening = ""
        """Beginning of the answer that the last prompt contains: the mark of thoughts, if the template writes it."""

    @property
    def has_template(self) -> bool:
        """Whether the model has a chat template."""
        return self._templates.exist

    @property
    def has_broken_template(self) -> bool:
        """Whether its chat template can't be used."""
        return self._templates.exist and self._templates.working() is None

    @property
    def calls(self) -> CallFormat | None:
        """Format of the model's tool calls; None: no tool calls, or an unknown format."""
        template = self._templates.working(tools=True)
        return None if template is None else template.calls(self._vocab)

    @property
    def efforts(self) -> tuple[Effort, ...]:
        """Efforts of thinking that the template supports; () for none."""
        template = self._templates.working()
        return () if template is None else template.efforts

    def preface(self, raw: bool = False, effort: Effort = Effort.AUTO) -> Preface:
        """Return the part that may come before the answer to the last `prompt`."""
        if raw or self._used is None:
            return NO_PREFACE
        return Preface(effort is not Effort.OFF and Effort.ON in self._used.efforts, self.opening)

    def prompt(
        self,
        messages: Sequence[Message],
        raw: bool = False,
        effort: Effort = Effort.AUTO,
        tools: Sequence[Tool] = (),
        special: bool = False,
    ) -> list[int]:
        """Return the tokens of the prompt for the next answer; never empty.

        With `special`, control tokens spelled in messages are control tokens; else they are text. Raises
        LocalspecError where the template refuses the messages or an effort.
        """
        known, question = self._rendered = self._spelled(messages, raw, effort, tools, special)
        begun = "" if self._used is None else opening(question.text.text)
        self.opening = begun if question.text.ends_with_mark(begun) else ""
        del self._known[known:]
        return self._joined(known, question) or self._vocab.tokenize(" ")

    def kept(self, question: Question, context_size: int) -> Sequence[Message]:
        """Return the turns of a question that fit; see `app.engine.conversation.truncate_history`."""
        if not question.drops_oldest:
            return question.turns

        def tokens(turns: Sequence[Message]) -> int:
            return len(self.preview(turns, question.raw, question.effort, question.tools, question.special))

        return kept(question.turns, tokens, context_size, question.max_tokens)

    def preview(
        self,
        messages: Sequence[Message],
        raw: bool = False,
        effort: Effort = Effort.AUTO,
        tools: Sequence[Tool] = (),
        special: bool = False,
    ) -> list[int]:
        """Return the tokens that `prompt` would return, and remember nothing."""
        return self._joined(*self._spelled(messages, raw, effort, tools, special))

    def _spelled(
        self, messages: Sequence[Message], raw: bool, effort: Effort, tools: Sequence[Tool], special: bool
    ) -> tuple[int, _Stretch]:
        """Return how many of the known answers a conversation continues, and what it adds to them."""
        text = self._written(messages, raw, effort, tools, special)
        # A prompt without an answer may share its beginning with an earlier one and still be tokenized differently.
        known, read = self._common(text, sum(message.role == "assistant" for message in messages))
        if known:
            return known, self._stretch(rest := text.after(read), self._reader.tokens(rest, goes_on=True))
        return 0, self._stretch(text, self._without_second_bos(self._leading() + self._reader.tokens(text)))

    def _written(
        self, messages: Sequence[Message], raw: bool, effort: Effort, tools: Sequence[Tool], special: bool
    ) -> MarkedText:
        """Return the text of a conversation, with the places of text that only resembles control tokens."""
        called = any(message.calls or message.answers for message in messages)
        with_tools = bool(tools) or called
        try:
            self._used = None if raw else self._templates.get(tools=with_tools)
            if called and not (self._used and self._used.shows_calls(tools=bool(tools))):
                messages = calls_as_text(messages)
            if self._used is not None:
                return self._used.prompt(messages, effort, tools, special=special)
        except (TemplateBrokenError, MessagesRefusedError) as error:
            raise error if self._may_be_raw else _without_raw(error) from error.__cause__
        text = render_plain(messages)
        return MarkedText(text, () if special else tuple(self._reader.marks.find(text)))

    def _stretch(self, text: MarkedText, tokens: list[int]) -> _Stretch:
        return _Stretch(text, tokens, len(text.text))

    def _common(self, text: MarkedText, most: int) -> tuple[int, int]:
        """Return how many of the first known answers a text begins with, and their length in characters."""
        known = read = 0
        for stretch in self._known[:most]:
            if not stretch.begins(text, read):
                break
            known, read = known + 1, read + stretch.size
        return known, read

    def _joined(self, known: int, more: _Stretch) -> list[int]:
        return [token for stretch in (*self._known[:known], more) for token in stretch.tokens]

    def keep(self, answer: str, emitted: Sequence[int]) -> None:
        """Remember the tokens of the answer to the last prompt, without an end token and without an opening."""
        answer = answer.removeprefix(self.opening)
        tokens = [token for token in emitted if not self._vocab.is_end(token)]
        # After a cut inside a character or at a stop string, tokens and text differ: then the text counts.
        if self._bytes_of(tokens) == answer.encode():
            known, question = self._rendered
            reply = MarkedText(answer, self._reader.spelled(answer, tokens))
            self._known[known:] = [_Stretch(question.text + reply, question.tokens + tokens, question.size)]

    def recall(
        self,
        messages: Sequence[Message],
        spelled: Sequence[Sequence[int]],
        *,
        raw: bool = False,
        special: bool = False,
    ) -> None:
        """Remember the tokens of the answers among these messages, as an earlier run emitted them.

        `spelled` has the tokens of each answer in turn. Tokens of another tokenizer spell another text, and are not
        used.
        """
        places = [place for place, message in enumerate(messages) if message.role == "assistant"]
        for place, tokens in zip(places, spelled, strict=True):
            if all(0 <= token < self._vocab.size for token in tokens):
                self.prompt(messages[:place], raw=raw, special=special)
                self.keep(messages[place].text, tokens)

    def _bytes_of(self, tokens: Sequence[int]) -> bytes:
        return b"".join(self._vocab.piece(token) for token in tokens)

    def _leading(self) -> list[int]:
        return [] if self._vocab.bos is None else [self._vocab.bos]

    def _without_second_bos(self, tokens: list[int]) -> list[int]:
        """Drop one of two leading BOS tokens: many templates write the BOS that the tokenizer adds too."""
        doubled = self._vocab.bos is not None and tokens[:2] == [self._vocab.bos] * 2
        return tokens[1:] if doubled else tokens


def _without_raw(error: TemplateBrokenError | MessagesRefusedError) -> TemplateBrokenError | MessagesRefusedError:
    hint = "Use another copy of this model, or another model."
    return type(error)(error.title, cause=error.cause, hint=hint)
