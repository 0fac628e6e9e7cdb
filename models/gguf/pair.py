"""Check of a pair from two headers, before anything is loaded, with the loader's reasons and wording."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from models.gguf.architecture import memory_kind
from models.gguf.bytes_read import bytes_a_token
from models.gguf.header import Header, read_model
from models.gguf.model_info import ModelInfo, info_of
from models.gguf.token_map import token_map_of
from models.gguf.vocab import HeaderVocab
from models.pair import memory_reasons, text_reasons, vocabulary_reasons
from models.text.template_names import KEY, usual_template
from models.token_map import TokenMap

_NOT_IN_TEXT = ("padding", "unknown")
"""Roles of tokens that never come up in an answer."""
_ENDS = ("eos", "eot", "eom")


@dataclass(frozen=True, slots=True)
class ReadModel:
    """A model's header, and what a pair is judged by."""

    info: ModelInfo
    vocab: HeaderVocab
    template: str
    """Its chat template for conversations without tools; "" for none."""
    bytes_a_token: float
    """Bytes of weights that a one-token pass reads."""
    templates: Mapping[str, str]
    """All chat templates that have a name, by their names."""
    token_map: TokenMap | None = None
    """Its tokens as those of its target, where its vocabulary was made smaller."""


@dataclass(frozen=True, slots=True)
class PairFindings:
    """Result of a pair check from two headers."""

    target: ModelInfo
    draft: ModelInfo
    reasons: tuple[str, ...]
    """Why they can't be used together; () for models that can."""
    differences: tuple[str, ...]
    """How their tokens differ; () where equal ids have equal text. Without `reasons` the draft model drafts text."""
    notes: tuple[str, ...]
    """Differences that do no harm: the target alone decides when a text ends and how a chat is written."""


def check_files(target: Path, draft: Path) -> PairFindings:
    """Compare two model files by their headers; raises ModelFileError."""
    return check_headers(read_model(target), read_model(draft))


def check_headers(target: Header, draft: Header) -> PairFindings:
    """Compare two headers; raises ModelFileError for what is no model."""
    return check_read(read(target), read(draft))


def read(header: Header, info: ModelInfo | None = None) -> ReadModel:
    """Return what a pair is judged by; raises ModelFileError for what is no model.

    `info` is what is known of this very file, and saves reading it again.
    """
    vocab = HeaderVocab(header)
    named = header.below(KEY)
    usual = usual_template(header.text(KEY), named)
    return ReadModel(info or info_of(header, vocab), vocab, usual, bytes_a_token(header), named, token_map_of(header))


def check_read(target: ReadModel, draft: ReadModel) -> PairFindings:
    """Compare two models; raises ModelFileError for a vocabulary that can't be read."""
    if draft.token_map is not None:
        differences = draft.token_map.reasons(target.vocab, draft.vocab)
    else:
        differences = vocabulary_reasons(target.vocab, draft.vocab, target.vocab.first_difference(draft.vocab))
    reasons = memory_reasons(*(memory_kind(info.architecture, info.window) for info in (target.info, draft.info)))
    reasons += [*differences, *text_reasons(draft.vocab)] if differences and text_reasons(draft.vocab) else []
    return PairFindings(target.info, draft.info, tuple(reasons), tuple(differences), tuple(_notes(target, draft)))


def token_words(model: ReadModel, token: int | None) -> str:
    """Return a token's number and spelling."""
    return "none" if token is None else f"{token} ({model.vocab.text(token)!r})"


def has_end(model: ReadModel) -> bool:
    """Return whether a model's file names a token that ends an answer."""
    return any(role in model.info.special for role in _ENDS)


def _notes(target: ReadModel, draft: ReadModel) -> list[str]:
    roles, others = target.info.special, draft.info.special
    if draft.token_map is not None:
        others = {role: int(draft.token_map.kept[token]) for role, token in others.items()}
    notes = [
        f"the {role} token is {token_words(target, roles.get(role))} and {token_words(draft, others.get(role))}"
        for role in dict.fromkeys((*roles, *others))
        if role not in _NOT_IN_TEXT and roles.get(role) != others.get(role)
    ]
    if bool(target.template) != bool(draft.template):
        notes.append(f"the {'target' if target.template else 'draft'} alone has a chat template")
    elif target.template != draft.template:
        notes.append("the chat templates differ")
    return notes
