"""Compatibility of a draft model with a target.

Where equal token ids have equal text, drafts are ids. Else the draft model drafts text (`drafters.text`), for which its
vocabulary need only be able to go on with any text.
"""

from typing import Protocol


class Spellings(Protocol):
    """Parts of a vocabulary for a pair check: see `models.base.Vocab`, and `models.gguf.vocab` for a file's."""

    size: int
    kind: str
    bos: int | None

    def text(self, token: int) -> str:
        """Return the vocabulary's own spelling of a token."""

    def is_padding(self, token: int) -> bool:
        """Return whether this id only rounds the size up."""


class Memory(Protocol):
    """Limit of a memory's rewinding: see `models.base.RewindSupport`."""

    @property
    def limit(self) -> int | None:
        """Tokens that a rewind may drop; None: any number."""

    @property
    def reason(self) -> str:
        """One clause for the user."""


def check_pair(target: Spellings, draft: Spellings) -> list[str]:
    """Return the reasons why the pair can't be used, the first difference of each kind; [] for a good pair."""
    shared = min(target.size, draft.size)
    differing = next((token for token in range(shared) if target.text(token) != draft.text(token)), None)
    return vocabulary_reasons(target, draft, differing)


def vocabulary_reasons(target: Spellings, draft: Spellings, differing: int | None) -> list[str]:
    """Return those reasons, with the first shared token that differs being known; None for none."""
    reasons = []
    if target.kind != draft.kind:
        reasons.append(f"the target's tokenizer is {target.kind}, the draft's {draft.kind}")
    if target.bos != draft.bos:
        reasons.append(f"the first token added to a prompt differs: {target.bos} and {draft.bos}")
    if differing is not None:
        spellings = f"{target.text(differing)!r} for the target, {draft.text(differing)!r} for the draft"
        reasons.append(f"token {differing} is {spellings}")
    larger, role = (target, "target") if target.size > draft.size else (draft, "draft")
    shared = min(target.size, draft.size)
    extra = next((token for token in range(shared, larger.size) if not larger.is_padding(token)), None)
    if extra is not None:
        reasons.append(f"token {extra} ({larger.text(extra)!r}) exists only in the {role}")
    return reasons


_NO_CONTINUATION = ("none", "wpm", "ugm")
"""Kinds of tokenizers that change a text (its letters, its blanks), so that their tokens are not its bytes."""


def text_reasons(draft: Spellings) -> list[str]:
    """Return why a model can't draft text for a target with other tokens; [] where it can."""
    if draft.kind in _NO_CONTINUATION:
        return [f"its tokenizer ({draft.kind}) does not keep a text as it is, so it can't draft text either"]
    return []


def rewind_reasons(draft: Memory) -> list[str]:
    """Return why a draft model's memory keeps it from drafting; [] where it can take back any token."""
    return [] if draft.limit is None else [f"its memory can't take back rejected tokens ({draft.reason})"]


def memory_reasons(target: Memory, draft: Memory) -> list[str]:
    """Return the reasons that lie in what the two remember: a rejected draft token must be removable."""
    own = [f"the target can't take back rejected tokens ({target.reason})"] if target.limit == 0 else []
    return [*own, *rewind_reasons(draft)]
