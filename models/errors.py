"""Errors for the user: what failed, the value seen, what to do next, and the exit code.

Exit codes:
    LocalspecError          1   anything that went wrong while running
    +-- UsageError          2   a flag or its value makes no sense
    +-- ModelFileError      3   the model is missing, or is no whole GGUF this engine knows
    |   +-- FormatError     3   it is written in a way that this engine does not read
    +-- PairError           4   this draft model can't speak for this target
    +-- MemoryLimitError    5   it does not fit in this machine's memory
    +-- DivergedError       6   a drafted text is not the plain one
    +-- ContextFullError    1   the prompt leaves no room to answer
    +-- TemplateBrokenError 1   the model's chat template can't be used at all
    +-- MessagesRefusedError 1  the model's chat template was not written for such messages
    +-- BusyError           1   the model did not get to it in time
    +-- Cancelled         130   the user stopped it
"""


class LocalspecError(Exception):
    """A failure in three sentences: `title` (what failed), `cause` (the value seen), `hint` (what to do)."""

    exit_code = 1

    def __init__(self, title: str, *, cause: str = "", hint: str = "") -> None:
        super().__init__(title)
        self.title = title
        self.cause = cause
        self.hint = hint

    def __str__(self) -> str:
        return "\n".join(part for part in (self.title, self.cause, self.hint) if part)


class UsageError(LocalspecError):
    """A flag, or the value given to it, makes no sense."""

    exit_code = 2


class ModelFileError(LocalspecError):
    """The model is missing, or is no whole GGUF file of an architecture this engine knows."""

    exit_code = 3


class FormatError(ModelFileError):
    """The file is written in a way that this engine does not read: another copy of it, or more of it, is no better."""


class PairError(LocalspecError):
    """The draft model and the target do not share one vocabulary."""

    exit_code = 4


class DraftHeadError(ModelFileError):
    """A file holds a draft head and no model by itself."""


class MemoryLimitError(LocalspecError):
    """The weights and the cache do not fit in this machine's memory."""

    exit_code = 5


class DivergedError(LocalspecError):
    """A text that was drafted differs from the one that plain decoding gives."""

    exit_code = 6


class ContextFullError(LocalspecError):
    """The prompt leaves no room for an answer in the context window."""


class TemplateBrokenError(LocalspecError):
    """The model's chat template is no valid Jinja, or fails; prompts without it work."""


class MessagesRefusedError(LocalspecError):
    """The model's chat template was not written for such messages; `cause` is what it says of that."""

    own_words = ""
    """The same where it stands in the template as it is; "" where something of the messages may be in it."""


class BusyError(LocalspecError):
    """A request waited for its turn longer than its time limit."""


class Cancelled(LocalspecError):
    """The user stopped it; what was done so far is kept."""

    exit_code = 130


def context_full(wanted: int, size: int) -> ContextFullError:
    """Return the error for a text of `wanted` tokens in a context of `size`, with the way out."""
    larger = 1 << max(wanted, size).bit_length()
    return ContextFullError(
        f"The context is full: {wanted:,} tokens are needed, {size:,} fit.",
        hint=f"Use a larger one: -c {larger}.",
    )
