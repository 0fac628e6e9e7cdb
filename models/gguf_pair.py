"""The check of a pair from two headers, before anything is loaded: the loader's reasons, in the loader's words."""

from dataclasses import dataclass
from pathlib import Path

from models.architecture import memory_kind
from models.gguf_header import Header, read_model
from models.gguf_vocab import HeaderVocab
from models.model_info import ModelInfo, info_of
from models.pair import memory_reasons, vocabulary_reasons

_TEMPLATE = "tokenizer.chat_template"
_NOT_IN_TEXT = ("padding", "unknown")
"""Roles of tokens that never come up in an answer."""


@dataclass(frozen=True, slots=True)
class PairFindings:
    """What two headers say about a target and a draft model."""

    target: ModelInfo
    draft: ModelInfo
    reasons: tuple[str, ...]
    """Why they can't be used together; () for a good pair."""
    notes: tuple[str, ...]
    """Differences that do no harm: the target alone decides when a text ends and how a chat is written."""


def pair_reasons(target: Path, draft: Path) -> list[str]:
    """Return why two files can't be used as a pair; [] for a good pair. Raises ModelFileError."""
    return list(check_files(target, draft).reasons)


def check_files(target: Path, draft: Path) -> PairFindings:
    """Compare two model files by their headers; raises ModelFileError."""
    return check_headers(read_model(target), read_model(draft))


def check_headers(target: Header, draft: Header) -> PairFindings:
    """Compare two headers; raises ModelFileError for what is no model."""
    one, other = HeaderVocab(target), HeaderVocab(draft)
    target_info, draft_info = info_of(target, one), info_of(draft, other)
    reasons = vocabulary_reasons(one, other, one.first_difference(other))
    reasons += memory_reasons(*(memory_kind(info.architecture, info.window) for info in (target_info, draft_info)))
    return PairFindings(target_info, draft_info, tuple(reasons), tuple(_notes(target, draft, one, other)))


def _notes(target: Header, draft: Header, one: HeaderVocab, other: HeaderVocab) -> list[str]:
    roles, others = one.special(), other.special()
    notes = [
        f"the {role} token is {_token(one, roles.get(role))} and {_token(other, others.get(role))}"
        for role in dict.fromkeys((*roles, *others))
        if role not in _NOT_IN_TEXT and roles.get(role) != others.get(role)
    ]
    template, draft_template = target.text(_TEMPLATE), draft.text(_TEMPLATE)
    if bool(template) != bool(draft_template):
        notes.append(f"the {'target' if template else 'draft'} alone has a chat template")
    elif template != draft_template:
        notes.append("the chat templates differ")
    return notes


def _token(vocab: HeaderVocab, token: int | None) -> str:
    return "none" if token is None else f"{token} ({vocab.text(token)!r})"
