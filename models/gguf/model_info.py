"""Properties of a model, read from its header without loading it."""

from dataclasses import dataclass
from pathlib import Path

from models.errors import DraftHeadError, FormatError, ModelFileError
from models.gguf.architecture import continues_text, is_head, is_known, memory_class, memory_kind
from models.gguf.header import Header, read_model
from models.gguf.header_faults import check_bytes, check_layers, check_tokenizer
from models.gguf.heads import has_own_head, head_words, read_head
from models.gguf.quantisation import mixture_name
from models.gguf.shape import Shape, shape_of
from models.gguf.strings import KnownStrings
from models.gguf.vocab import HeaderVocab
from models.text.template_names import KEY, usual_template


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model, as its file describes it."""

    path: Path
    """The file to load: of a split model the first."""
    files: int
    """Number of files it is in."""
    size: int
    """Bytes of all of them."""
    title: str
    """Title from the file's metadata; "" for none."""
    architecture: str
    parameters: int
    """Numbers in all its weights."""
    quantisation: str
    """Such as "Q4_K_M"."""
    context: int
    """Tokens of the longest text it was trained on; 0 where it does not say."""
    layers: int
    window: int
    """Tokens that layers with a sliding window attend to; 0 for none."""
    heads: int
    kv_heads: int
    """Heads that are cached, in the layer that has most."""
    tokenizer: str
    """Family of the tokenizer, such as "bpe"."""
    vocabulary: int
    special: dict[str, int]
    """Tokens that have a role, by role."""
    fim: tuple[str, ...]
    """Markers for filling in the middle; () for a model without."""
    template: bool
    """True if it has a chat template."""
    head: str
    """Its own drafting layers in words; "" for none."""
    own_head: bool
    """True if localspec can draft with them."""
    memory: str
    """Reach of a rewind: "rewind" (any distance), "checkpoint" (a few tokens) or "none"."""
    memory_reason: str
    """The same in a clause."""
    shape: Shape
    """Shape from which its need of memory follows."""


def model_info(path: Path) -> ModelInfo:
    """Read what a model says of itself; raises ModelFileError for a file that is none, or none that writes text."""
    return info_of(read_model(path))


def glance(path: Path, known: KnownStrings) -> ModelInfo:
    """Read the same of one model among many, in a hundredth of the time where another has the same vocabulary.

    Raises ModelFileError as `model_info` does, but for tokens that are spelled alike: that takes longest to see.
    """
    header = read_model(path, known)
    return _info(header, _writes_text(header), HeaderVocab(header))


def info_of(header: Header, vocab: HeaderVocab | None = None) -> ModelInfo:
    """Return what a header, and its vocabulary, say; raises ModelFileError as `model_info` does."""
    architecture = _writes_text(header)
    vocab = vocab or HeaderVocab(header)
    _check_spellings(header.path, vocab)
    check_bytes(header, vocab)
    return _info(header, architecture, vocab)


def _info(header: Header, architecture: str, vocab: HeaderVocab) -> ModelInfo:
    window = header.number(f"{architecture}.attention.sliding_window") or 0
    kind = memory_kind(architecture, window)
    shape = shape_of(header)
    sizes = ((tensor.type, tensor.size) for tensor in header.tensors if tensor.rows > 1)
    return ModelInfo(
        path=header.path,
        files=len(header.parts),
        size=header.file_size,
        title=header.text("general.name"),
        architecture=architecture,
        parameters=sum(tensor.elements for tensor in header.tensors),
        quantisation=mixture_name(header.number("general.file_type"), sizes),
        context=shape.trained,
        layers=header.number(f"{architecture}.block_count") or 0,
        window=window,
        heads=shape.heads,
        kv_heads=max(header.whole_numbers(f"{architecture}.attention.head_count_kv"), default=shape.heads),
        tokenizer=vocab.kind,
        vocabulary=vocab.size,
        special=vocab.special(),
        fim=vocab.fim_markers(),
        head=head_words(header),
        own_head=has_own_head(header),
        template=bool(usual_template(header.text(KEY), header.below(KEY))),
        memory=memory_class(kind),
        memory_reason=kind.reason,
        shape=shape,
    )


def _check_spellings(path: Path, vocab: HeaderVocab) -> None:
    """Refuse a vocabulary on which llama.cpp fails an assertion, which would end the process."""
    if alike := vocab.spelled_alike():
        raise ModelFileError(
            f"{path.name} can't be loaded: its vocabulary is damaged.",
            cause=f"Tokens {alike[0]} and {alike[1]} are both spelled {vocab.text(alike[0])!r}.",
            hint="Look for another copy of this model.",
        )


def _writes_text(header: Header) -> str:
    """Return the architecture; raises ModelFileError for a file that is no model, or one for other ends."""
    architecture, kind = header.text("general.architecture"), header.text("general.type", "model")
    if not architecture:
        raise ModelFileError(f"{header.path.name} does not name its architecture.", hint="Fetch another copy of it.")
    if kind != "model":
        raise ModelFileError(
            f"{header.path.name} is not a model by itself but part of one ({kind}).",
            hint="Name the model it belongs to.",
        )
    if not continues_text(architecture):
        raise ModelFileError(
            f"{header.path.name} does not write text ({architecture}).", hint="Choose a model for chat or completion."
        )
    if not (is_known(architecture) or is_head(architecture)):
        raise FormatError(
            f"{header.path.name}: architecture '{architecture}' is not supported by this engine.",
            hint="Look for the same model in a supported architecture, or update localspec.",
        )
    if not header.tensors:
        raise ModelFileError(f"{header.path.name} has no weights.", hint="Name the file that has the model.")
    if (head := read_head(header)) is not None:
        raise DraftHeadError(
            f"{header.path.name} is a draft head, not a model by itself.",
            cause=f"It is {head.words}.",
            hint=f"Run the model that it was made for: localspec run MODEL --draft {header.path.name}",
        )
    check_layers(header, architecture)
    check_tokenizer(header, architecture)
    return architecture
