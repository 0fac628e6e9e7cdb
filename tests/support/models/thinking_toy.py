"""A toy that thinks: its template begins the thoughts, and a letter that it likes ends them."""

from typing import Any

from models.toy import ToyModel, ToyVocab

_LETTER, _CLOSES = b"u", b"</think>\n\n"
_FIRST = b"z"
"""What the toy begins an answer to "the sea the sea" with."""
TEMPLATE = (
    "{% for message in messages %}{{ message.content }} {% endfor %}a"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}"
)


class ThinkingToy(ToyModel):
    """See above."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.vocab = ThinkingVocab()
        self.chat_template = TEMPLATE


class MarkingToy(ToyModel):
    """One that has no template, and yet begins what it says as if it thought."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.vocab = MarkingVocab()


class ThinkingVocab(ToyVocab):
    """The toy's, but for that letter."""

    def piece(self, token: int) -> bytes:
        """Return what a token adds to the text."""
        piece = super().piece(token)
        return _CLOSES if piece == _LETTER else piece


class MarkingVocab(ThinkingVocab):
    """The same, and the toy's first letter begins thoughts."""

    def piece(self, token: int) -> bytes:
        """Return what a token adds to the text."""
        piece = super().piece(token)
        return b"<think>" if piece == _FIRST else piece
