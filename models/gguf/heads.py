"""Draft heads by their headers: which kind a file holds, and for which target it was made.

A head is either in its target's own file, as layers after those that write text (MTP, also called NextN), or a file of
its own. llama.cpp asserts what it expects of a head, and an assertion ends the process, so architectures and sizes are
checked here, before anything is loaded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from models.gguf.block_heads import (
    BlockShape,
    block_faults,
    block_shape,
    block_title,
    medusa_faults,
    medusa_shape,
)
from models.gguf.fingerprint import fingerprint
from models.gguf.header import Header, read_header
from models.gguf.vocab import HeaderVocab


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ONE_LAYER = _words(
    "qwen35 qwen35moe glm4moe deepseek2 deepseek32 deepseek4 glm-dsa cohere2moe nemotron_h_moe bailingmoe3"
)
"""Architectures whose one drafting layer goes on from its own rows."""
_CHAINED = _words("step35 mimo2 hy_v3")
"""Architectures with a drafting layer for each place of a draft."""
_CROPPED = _words("step35 mimo2 deepseek4")
"""Architectures whose drafting layers return the rows of those tokens alone that have logits."""
_MOST_CHAINED = 64
"""Drafting layers beyond which a header is wrong."""
_HANDS_OUT_LAYERS = _words("llama qwen3 qwen3moe qwen35 qwen35moe gpt-oss gemma4 mimo2 minimax-m2")
"""Architectures whose graph hands out the inputs of its layers; with others llama.cpp ends the process."""
_NAMES_LAYERS = _words(
    "qwen2 qwen2moe phi2 phi3 phimoe granite granitemoe gemma gemma2 gemma3 glm4 glm4moe smollm3 olmo2 olmoe mistral3 "
    "internlm2 exaone4 command-r cohere2 starcoder2 stablelm seed_oss ernie4_5 hunyuan-moe llama4 nemotron deepseek2 "
    "bailingmoe arcee"
)
"""Architectures whose graph names what each of its layers returns, so that it can be copied while a pass runs."""
_SHARED_WITH = "gemma4"
"""Architecture of the targets whose cache an assistant reads."""
_TAPPED = 3
"""Layers of the target that an EAGLE-3 head reads."""


class HeadKind(StrEnum):
    """Kinds of draft heads."""

    MTP = "mtp"
    """Layers that predict further tokens, trained with the model (multi-token prediction)."""
    EAGLE3 = "eagle3"
    """A small network over three of the target's layers, trained for the finished model."""
    DFLASH = "dflash"
    """A small network over some of the target's layers that drafts a block of tokens in one pass."""
    ASSISTANT = "gemma4-assistant"
    """A small network that reads the target's own cache."""
    MEDUSA = "medusa"
    """Matrices on the target's last hidden row, one pair for each place of a draft; made by `localspec forge`."""


_TITLES = {
    HeadKind.MTP: "a drafting layer (MTP)",
    HeadKind.EAGLE3: "an EAGLE-3 head",
    HeadKind.DFLASH: "a DFlash head",
    HeadKind.ASSISTANT: "a Gemma 4 assistant",
    HeadKind.MEDUSA: "Medusa heads",
}
_KINDS = {kind.value: kind for kind in (HeadKind.EAGLE3, HeadKind.DFLASH, HeadKind.ASSISTANT, HeadKind.MEDUSA)}
"""Kinds by the architecture of their file."""


@dataclass(frozen=True, slots=True)
class HeadFile:
    """A file that holds a draft head and no model."""

    path: Path
    kind: HeadKind
    architecture: str
    """Architecture of the file; of an MTP head the target's."""
    width: int
    """Numbers of a hidden row that it reads beside each token."""
    target_width: int
    """Numbers of a hidden row of its target."""
    layers: tuple[int, ...]
    """Layers of the target whose inputs it reads; (): it reads the target's last hidden row."""
    borrows: bool
    """Whether it uses the target's embedding or output matrix."""
    faults: tuple[str, ...]
    """Why it can't be used with any target."""
    chain: int = 1
    """Drafting layers, each for one place of a draft; 1: its one layer goes on from its own rows."""
    block: BlockShape | None = None
    """Shape of a head that drafts a block in one pass; None for one that drafts token by token."""
    title: str = ""
    """Name of its method, where its kind has several."""
    made_for: str = ""
    """Fingerprint of the one file that it drafts for; "": any model that it fits."""

    @property
    def words(self) -> str:
        """Return what it is, and for which models, in a few words."""
        kind = self.title or _TITLES[self.kind]
        of = f" of {self.architecture}" if self.kind is HeadKind.MTP else ""
        return f"{kind}{of} for models whose hidden rows have {self.target_width:,} numbers"


def has_own_head(header: Header) -> bool:
    """Return whether a model's file has drafting layers that localspec can use."""
    return chain_length(header) > 0


def chain_length(header: Header) -> int:
    """Return the number of drafting layers that localspec can use, one for each place of a draft; 0 for none.

    1: the layer goes on from its own rows.
    """
    count, architecture = _drafting_layers(header), header.text("general.architecture")
    if count == 1 and architecture in _ONE_LAYER:
        return 1
    return count if architecture in _CHAINED else 0


def crops_rows(architecture: str) -> bool:
    """Return whether drafting layers of an architecture return the rows of those tokens alone that have logits."""
    return architecture in _CROPPED


def needs_copies(target: Header, layers: Sequence[int] = ()) -> bool:
    """Return whether rows of a target's layers have to be copied while its passes run: its graph hands out none.

    What the last layer returns, the input of a layer after it, no graph hands out.
    """
    architecture = target.text("general.architecture")
    return architecture not in _HANDS_OUT_LAYERS or max(layers, default=0) >= _trunk(target, architecture)


def head_words(header: Header) -> str:
    """Return what drafting layers a model's file has, in words; "" for none."""
    count, architecture = _drafting_layers(header), header.text("general.architecture")
    if not count:
        return ""
    if (chain := chain_length(header)) > 0:
        return "yes, it drafts with no flag (MTP)" if chain == 1 else f"yes, {chain} layers draft with no flag (MTP)"
    layers = "a drafting layer" if count == 1 else f"{count} drafting layers"
    return f"{layers} that can't be used yet (MTP of {architecture})"


def read_head(header: Header) -> HeadFile | None:
    """Return the head that a file holds; None for a file that is a model, or anything else."""
    architecture = header.text("general.architecture")
    if (kind := _KINDS.get(architecture)) is not None:
        return _of_own_architecture(header, architecture, kind)
    starts = any(tensor.name.startswith("blk.0.") for tensor in header.tensors)
    # A pass of a file without its first layer would end the process, whatever else the file holds.
    if starts or not (header.number(f"{architecture}.nextn_predict_layers") or 0) > 0:
        return None
    width = header.number(f"{architecture}.embedding_length") or 0
    chain = chain_length(header)
    return HeadFile(
        header.path,
        HeadKind.MTP,
        architecture,
        width,
        width,
        (),
        borrows=False,
        faults=() if chain else (f"such heads of {architecture} are not supported",),
        chain=max(1, chain),
        title=f"{chain} drafting layers (MTP)" if chain > 1 else "",
    )


def unsuitable(head: HeadFile, target: Header) -> list[str]:
    """Return the reasons why a head can't draft for a target; [] for a head that was made for it."""
    architecture = target.text("general.architecture")
    width = target.number(f"{architecture}.embedding_length") or 0
    reasons = [*head.faults]
    if head.kind is HeadKind.MTP and head.architecture != architecture:
        reasons.append(f"it was made for a model of the architecture {head.architecture}, the target is {architecture}")
    if head.kind is HeadKind.ASSISTANT:
        reasons += _of_cache(read_header(head.path), target, architecture)
    if head.made_for and target.path.is_file() and fingerprint(target.path).digest != head.made_for:
        reasons.append("it was made for another file: the target's fingerprint differs")
    if head.target_width != width:
        reasons.append(f"it was made for a model with rows of {head.target_width:,} numbers, the target has {width:,}")
    if head.layers:
        reasons += _of_layers(head, target, architecture)
    own, theirs = HeaderVocab(target), _vocabulary(head, target)
    if theirs is not None and theirs != own.size:
        reasons.append(f"it knows {theirs:,} tokens, the target {own.size:,}")
    return reasons


def _of_cache(head: Header, target: Header, architecture: str) -> list[str]:
    """Return how the caches differ that an assistant would read as its own."""
    if architecture != _SHARED_WITH:
        return [f"it reads the cache of models of the architecture {_SHARED_WITH}, the target is {architecture}"]
    reasons = []
    for name in ("key_length", "value_length", "key_length_swa", "value_length_swa", "sliding_window"):
        own, theirs = (
            header.number(f"{header.text('general.architecture')}.attention.{name}") for header in (head, target)
        )
        if own != theirs:
            reasons.append(f"its attention has {name} {own}, the target's {theirs}")
    # Its layers view those of the target's last two layers.
    if not {*_kv_heads(head)} <= {*_kv_heads(target)[-2:]}:
        reasons.append("its attention has another number of cached heads than the target's last layers")
    return reasons


def _kv_heads(header: Header) -> list[int]:
    return header.whole_numbers(f"{header.text('general.architecture')}.attention.head_count_kv")


def _of_layers(head: HeadFile, target: Header, architecture: str) -> list[str]:
    trunk, reasons = _trunk(target, architecture), []
    if architecture not in _HANDS_OUT_LAYERS | _NAMES_LAYERS:
        reasons.append(f"models of the architecture {architecture} do not hand out their layers to this engine")
    elif needs_copies(target) and min(head.layers) == 0:
        reasons.append(f"it reads the embedding, which models of the architecture {architecture} do not hand out")
    if head.kind is HeadKind.MEDUSA:
        return reasons if head.layers == (trunk,) else [*reasons, f"it was made for a model of {head.layers[0]} layers"]
    if max(head.layers) >= trunk:
        reasons.append(f"it reads layer {max(head.layers)}, the target has {trunk} layers")
    return reasons


def _trunk(target: Header, architecture: str) -> int:
    """Return the layers of a target without those that only draft."""
    drafting = target.number(f"{architecture}.nextn_predict_layers") or 0
    return (target.number(f"{architecture}.block_count") or 0) - drafting


def _vocabulary(head: HeadFile, target: Header) -> int | None:
    """Return the number of tokens of a head's file; None where it says nothing, or is the target's own."""
    if head.path == target.path:
        return None
    tokens = read_header(head.path).array("tokenizer.ggml.tokens")
    return tokens.count if tokens else None


def _drafting_layers(header: Header) -> int:
    """Return the number of drafting layers whose weights are in a file: some keep the number and lack the weights."""
    architecture = header.text("general.architecture")
    count = header.number(f"{architecture}.nextn_predict_layers") or 0
    blocks = header.number(f"{architecture}.block_count") or 0
    if not 0 < count <= min(blocks, _MOST_CHAINED):
        return 0
    wanted = {f"blk.{layer}.nextn.eh_proj.weight" for layer in range(blocks - count, blocks)}
    return count if wanted <= {tensor.name for tensor in header.tensors} else 0


def _of_own_architecture(header: Header, architecture: str, kind: HeadKind) -> HeadFile:
    tensors = {tensor.name: tensor for tensor in header.tensors}
    width = header.number(f"{architecture}.embedding_length") or 0
    layers = tuple(header.whole_numbers(f"{architecture}.target_layers"))
    target_width = header.number(f"{architecture}.target_hidden_size") or width
    if kind is HeadKind.ASSISTANT:
        width = target_width = header.number(f"{architecture}.embedding_length_out") or 0
    borrows = not {"token_embd.weight", "output.weight"} <= tensors.keys()
    faults = block_faults(header, layers, width) if kind is HeadKind.DFLASH else []
    if kind is HeadKind.ASSISTANT and not {"nextn.pre_projection.weight", "nextn.post_projection.weight"} <= {*tensors}:
        faults.append("its projections from and to the target's rows are missing")
    if kind is HeadKind.EAGLE3:
        fused = tensors.get("fc.weight")
        if len(layers) != _TAPPED or min(layers, default=0) < 0:
            faults.append(f"it names {len(layers)} layers of its target, not {_TAPPED}")
        if fused is None or not width or fused.elements != _TAPPED * target_width * width:
            faults.append("its matrix fc.weight does not have the size that its header says")
    if kind is HeadKind.MEDUSA:
        faults = medusa_faults(header, width)
        if len(layers) != 1:
            faults.append("it does not say after which layer of its target it reads")
    if borrows and width != target_width:
        faults.append(
            f"it borrows the target's embedding, whose rows have {target_width:,} numbers, not its own {width:,}"
        )
    shape = {HeadKind.DFLASH: block_shape, HeadKind.MEDUSA: medusa_shape}.get(kind)
    return HeadFile(
        header.path,
        kind,
        architecture,
        width,
        target_width,
        layers,
        borrows,
        tuple(faults),
        block=shape(header) if shape else None,
        title=block_title(header) if kind is HeadKind.DFLASH else "",
        made_for=header.text("medusa.target_fingerprint"),
    )
