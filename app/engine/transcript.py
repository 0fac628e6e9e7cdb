"""A conversation as tokens, such that what the cache holds stays a prefix of it."""

from collections.abc import Sequence

from models.base import LanguageModel
from models.prompts import ChatTemplate, Message, render_plain


class Transcript:
    """Turns messages into prompt tokens, reusing the very tokens that were emitted in earlier answers.

    A model may spell a word in other tokens than the tokenizer would; reading its answer back from text would then
    change the history it remembers, and throw away the cache from there on.
    """

    def __init__(self, model: LanguageModel) -> None:
        """Compile the model's chat template; raises LocalspecError when it is broken."""
        self._vocab = model.vocab
        self._template = ChatTemplate.of(model)
        self._known: list[tuple[str, list[int]]] = []

    @property
    def has_template(self) -> bool:
        """Whether the model knows turns of a conversation at all."""
        return self._template is not None

    def prompt(self, messages: Sequence[Message], *, raw: bool = False) -> list[int]:
        """Return the tokens that ask for the next answer; never none."""
        text, known, tokens = self._spelled(messages, raw=raw)
        del self._known[known:]
        self._prompt = (text, tokens)
        return self._prompt[1] or self._vocab.tokenize(" ")

    def preview(self, messages: Sequence[Message], *, raw: bool = False) -> list[int]:
        """Return what `prompt` would, and remember nothing."""
        return self._spelled(messages, raw=raw)[2]

    def _spelled(self, messages: Sequence[Message], *, raw: bool) -> tuple[str, int, list[int]]:
        """Return a conversation's text, how many of the known answers it goes on from, and its tokens."""
        text = render_plain(messages) if raw or self._template is None else self._template.render(messages)
        # A prompt that has no answer in it may begin as one that was asked before, and be split elsewhere.
        known = min(len(self._known), sum(message.role == "assistant" for message in messages))
        while known and not text.startswith(self._known[known - 1][0]):
            known -= 1
        read, tokens = self._known[known - 1] if known else ("", self._leading())
        tokens = tokens + self._vocab.tokenize(text[len(read) :])
        return text, known, self._without_second_bos(tokens)

    def keep(self, answer: str, emitted: Sequence[int]) -> None:
        """Remember the tokens of an answer to the last prompt; an end token is no part of it."""
        tokens = [token for token in emitted if not self._vocab.is_end(token)]
        spelled = b"".join(self._vocab.piece(token) for token in tokens)
        # Cut inside a character or by a stop string, tokens and text disagree: then the text counts.
        if spelled == answer.encode():
            self._known.append((self._prompt[0] + answer, self._prompt[1] + tokens))

    def recall(self, messages: Sequence[Message], spelled: Sequence[Sequence[int]], *, raw: bool = False) -> None:
        """Remember in which tokens the answers among these messages were given, in a run before this one.

        `spelled` has the tokens of each answer in turn. Those of another tokenizer spell something else, and are not
        used.
        """
        places = [place for place, message in enumerate(messages) if message.role == "assistant"]
        for place, tokens in zip(places, spelled, strict=True):
            if all(0 <= token < self._vocab.size for token in tokens):
                self.prompt(messages[:place], raw=raw)
                self.keep(messages[place].text, tokens)

    def _leading(self) -> list[int]:
        return [] if self._vocab.bos is None else [self._vocab.bos]

    def _without_second_bos(self, tokens: list[int]) -> list[int]:
        """Drop one of two leading BOS tokens: many templates write the one that the tokenizer adds."""
        doubled = self._vocab.bos is not None and tokens[:2] == [self._vocab.bos] * 2
        return tokens[1:] if doubled else tokens
