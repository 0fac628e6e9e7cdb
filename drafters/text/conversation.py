"""A conversation as a drafter's own prompt: its own chat template over the messages that the target answers."""

from collections.abc import Sequence

from models.base import LanguageModel
from models.errors import LocalspecError
from models.text.chat_templates import ChatTemplates
from models.text.marked_text import MarkedText, TextReader
from models.text.prompts import Message, Role, render_plain


class OwnPrompt:
    """Prompts in the tokens of a drafter, each of which reuses the tokens of the last as far as their texts agree."""

    def __init__(self, model: LanguageModel) -> None:
        """Take the drafter's model."""
        self._vocab = model.vocab
        self._templates = ChatTemplates(model)
        self.marks = self._templates.marks
        self._reader = TextReader(model.vocab, self.marks)
        self._last = MarkedText(""), list[int]()
        # The first prompt takes ten times as long as others: its template is compiled. No answer should wait for that.
        self.of_turns([Message("user", "")])

    def of_turns(self, turns: Sequence[Message]) -> list[int]:
        """Return the prompt for the next answer to a conversation; plain text where the template refuses it."""
        template = self._templates.working()
        if template is None:
            return self.of_text(render_plain(turns) + "\n")
        for messages in (turns, _simple(turns), _simple(turns)[-1:]):
            try:
                return self._read(template.prompt(messages))
            except LocalspecError:
                continue
        return self.of_text(render_plain(turns) + "\n")

    def of_text(self, text: str) -> list[int]:
        """Return the tokens of a plain text."""
        return self._read(MarkedText(text, tuple(self.marks.find(text))))

    def _read(self, text: MarkedText) -> list[int]:
        known, tokens = self._last
        if known.text and text.text.startswith(known.text) and text.literal[: len(known.literal)] == known.literal:
            tokens = [*tokens, *self._reader.tokens(text.after(len(known.text)), goes_on=True)]
        else:
            first = [] if self._vocab.bos is None else [self._vocab.bos]
            tokens = self._reader.tokens(text)
            tokens = tokens if tokens[:1] == first else [*first, *tokens]
        self._last = text, tokens
        return list(tokens)


def _simple(turns: Sequence[Message]) -> list[Message]:
    """Return turns that any template takes: of a user and an assistant in alternation, tools' results as the user's."""
    simple: list[Message] = []
    for turn in turns:
        role: Role = "assistant" if turn.role == "assistant" else "user"
        if simple and simple[-1].role == role:
            simple[-1] = Message(role, f"{simple[-1].text}\n{turn.text}")
        elif simple or role == "user":
            simple.append(Message(role, turn.text))
    return simple
