"""Fill-in-the-middle prompts: the text before and after a gap, with the markers a model was trained on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from models.base import Vocab
from models.errors import LocalspecError
from models.text.fim_markers import FAMILIES, SEPARATORS
from models.text.marked_text import TextReader
from models.text.marks import Marks

_ROLES = ("fim_pre", "fim_suf", "fim_mid")
_SUFFIX_SHARE = 4
"""One part in so many of the room is the suffix's, where prefix and suffix don't both fit."""
_STEP = 8
"""A text that is too long loses one part in so many of its room at once, so that the next key moves nothing."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of another file, or of another place in this one, that may help."""

    filename: str
    text: str


@dataclass(frozen=True, slots=True)
class Infill:
    """A gap in a text, to be filled."""

    prefix: str
    suffix: str
    filename: str = ""
    """Name of the file it is in; "" where it has none."""
    chunks: tuple[Chunk, ...] = ()
    """Pieces of other files, the most helpful last."""
    begun: str = ""
    """The beginning of the text that fills it."""


class FimFormat:
    """Layout of a model's fill-in-the-middle prompts."""

    def __init__(self, vocab: Vocab, markers: Sequence[int], separator: int | None) -> None:
        """Take the tokens before prefix, suffix and middle, and the one before a file's name."""
        self._vocab = vocab
        self._reader: TextReader | None = None
        self._before, self._after, self._middle = markers
        self._separator = separator
        self._start = [] if vocab.bos is None else [vocab.bos]

    def _text(self, text: str) -> list[int]:
        # Made when it is needed: most formats are never asked, and all tokens are looked through for it.
        if self._reader is None:
            self._reader = TextReader(self._vocab, Marks.of(self._vocab))
        return self._reader.plain(text)

    @classmethod
    def of(cls, vocab: Vocab) -> "FimFormat | None":
        """Return the format of a vocabulary: of the markers that it names, else of a known family; None for neither."""
        for spellings in (tuple(map(vocab.special, _ROLES)), *FAMILIES):
            markers = [_token(vocab, spelling) for spelling in spellings]
            known = [token for token in markers if token is not None]
            if len(known) == len(_ROLES):
                return cls(vocab, known, _separator(vocab))
        return None

    def prompt(self, infill: Infill, room: int | None = None) -> list[int]:
        """Return the prompt tokens of an infill, at most `room` of them.

        The texts are data: the spelling of a control token in them stays text. What is too long loses its farthest
        pieces first: the first chunks, then the end of the suffix and the beginning of the prefix. Raises
        LocalspecError where `room` is too small for any code.
        """
        head, tail, begun = map(self._text, (infill.prefix, infill.suffix, infill.begun))
        name = self._name(infill.filename) if infill.chunks else []
        if room is not None and len(begun) > room // 2:
            # Too long to be kept whole: of a prefix the beginning may go.
            head, begun = head + begun, []
        frame = len(self._start) + len(name) + len(begun) + len(_ROLES)
        left = None
        if room is not None:
            if room <= frame:
                raise LocalspecError(
                    f"There is no room for code in {room} tokens of context.", hint="Use a larger context (-c)."
                )
            head, tail, left = _fitting(head, tail, room - frame, _growth(len(begun), room))
        around = [*self._start, *self._chunks(infill.chunks, left), *name, self._before]
        return [*around, *head, self._after, *tail, self._middle, *begun]

    def as_text(self, prompt: Sequence[int]) -> Sequence[int]:
        """Return the tokens of a prompt in an order in which the infill follows the text before it.

        The text after the gap moves to the front. Returns any other prompt as it is.
        """
        middle = _last(prompt, self._middle, len(prompt))
        gap = _last(prompt, self._after, middle)
        before = _last(prompt, self._before, gap)
        if before < 0:
            return prompt
        return [*prompt[:before], *prompt[gap:middle], *prompt[before:gap], *prompt[middle + 1 :]]

    def _chunks(self, chunks: Sequence[Chunk], room: int | None) -> list[int]:
        """Return as many of the last chunks as there is room for."""
        taken: list[list[int]] = []
        for chunk in reversed(chunks):
            tokens = [*self._name(chunk.filename), *self._text(chunk.text.rstrip("\n") + "\n")]
            if room is not None and (room := room - len(tokens)) < 0:
                break
            taken.append(tokens)
        return [token for tokens in reversed(taken) for token in tokens]

    def _name(self, filename: str) -> list[int]:
        """Return what stands before a file; nothing for a model that was not trained on several."""
        return [] if self._separator is None else [self._separator, *self._text(f"{filename}\n")]


def fim_prompt(vocab: Vocab, prefix: str, suffix: str) -> list[int] | None:
    """Return the tokens that ask for the text between two others; None where the vocabulary has no markers for it."""
    form = FimFormat.of(vocab)
    return form.prompt(Infill(prefix, suffix)) if form else None


def text_order(vocab: Vocab) -> Callable[[Sequence[int]], Sequence[int]]:
    """Return what puts prompts into the order of `FimFormat.as_text`; without markers they stay as they are."""
    form = FimFormat.of(vocab)
    return form.as_text if form else lambda prompt: prompt


def no_fim(model: str) -> LocalspecError:
    """Return the error for a model without fill-in-the-middle markers."""
    return LocalspecError(
        f"{model} can't fill in code: its vocabulary has no markers for what is before and after the cursor.",
        hint="Use a model trained for it, such as Qwen2.5-Coder, StarCoder2, DeepSeek-Coder, CodeGemma or Granite. "
        "The column FIM of `localspec models ls` shows which of yours can.",
    )


def _growth(begun: int, room: int) -> int:
    """Return the room for more of what is begun: it grows with each key, and what is before it must not move as often.

    Also with the first key nothing moves.
    """
    step = max(1, room // _STEP)
    return step - begun % step


def _fitting(head: list[int], tail: list[int], room: int, growth: int) -> tuple[list[int], list[int], int]:
    """Return the end of a prefix and the beginning of a suffix that fit together, and the room for anything else.

    Where they have to be cut, and for anything else, `growth` of the room stays free.
    """
    stays = room - growth
    if len(head) + len(tail) > room:
        room = max(0, stays)
        tail = tail[: max(room // _SUFFIX_SHARE, room - len(head))]
        room -= len(tail)
        step = max(1, room // _STEP)
        over = max(0, len(head) - room)
        head = head[over + -over % step :]
    return head, tail, stays - len(head) - len(tail)


def _last(tokens: Sequence[int], wanted: int, end: int) -> int:
    """Return the last place before `end` of a token; -1 for none, or where the end is none."""
    # Most prompts are no infills, and long: `in` searches them at C's speed.
    if end < 0 or wanted not in tokens:
        return -1
    return next((place for place in range(end - 1, -1, -1) if tokens[place] == wanted), -1)


def _separator(vocab: Vocab) -> int | None:
    spellings = (vocab.special("fim_sep"), *SEPARATORS)
    return next((token for spelling in spellings if (token := _token(vocab, spelling)) is not None), None)


def _token(vocab: Vocab, spelling: str) -> int | None:
    """Return the token that is spelled so; None for a text that the vocabulary has no token of its own for."""
    tokens = vocab.tokenize(spelling) if spelling else []
    return tokens[0] if len(tokens) == 1 and vocab.text(tokens[0]) == spelling else None
