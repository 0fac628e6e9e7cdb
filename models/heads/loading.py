"""Loading of draft heads: a layer of the target's own file, or a file beside it."""

import os
from pathlib import Path

from models.errors import ModelFileError, PairError
from models.gguf.header import read_model
from models.gguf.heads import HeadFile, HeadKind, chain_length, crops_rows, needs_copies, read_head, unsuitable
from models.heads.block_model import BlockModel
from models.heads.chain_model import ChainModel
from models.heads.head_context import HeadContextOptions
from models.heads.head_model import HeadModel
from models.heads.loaded_head import LoadedHead
from models.heads.medusa.model import MedusaModel
from models.heads.medusa.network import MedusaNetwork, read_tensors
from models.llama.bindings import llama_cpp, recent_errors
from models.llama.load import has_gpu
from models.llama.model import LlamaModel
from models.llama.screen import Screen, open_screen
from models.llama.vocab import LlamaVocab


def load_own_head(target: LlamaModel) -> LoadedHead:
    """Return the head in a target's own file, which was loaded with it (`LlamaOptions.heads`)."""
    weights, _, _ = target.handles
    header = read_model(target.path)
    options = HeadContextOptions(
        "mtp",
        is_mtp=True,
        width=target.row_width,
        vocabulary=target.vocab.size,
        crops_rows=crops_rows(header.text("general.architecture")),
        chain=max(1, chain_length(header)),
    )
    return LoadedHead(
        "mtp",
        target.path,
        weights,
        target.vocab,
        options,
        description="drafting layer of the target",
        screen=_screen(target, target.vocab.size, target.row_width),
    )


def join(head: LoadedHead, target: LlamaModel) -> HeadModel:
    """Join a loaded head to a target whose cache is empty; raises LocalspecError where the engine can't."""
    if isinstance(head.weights, MedusaNetwork):
        return MedusaModel(head, target)
    if head.options.block is not None:
        return BlockModel(head, target)
    return (ChainModel if head.options.chain > 1 else HeadModel)(head, target)


def load_head(path: Path, target: LlamaModel) -> LoadedHead:
    """Load the head in a file for a target; raises PairError, with every reason, and ModelFileError."""
    head = read_head(read_model(path))
    if head is None:
        raise ModelFileError(f"{path.name} holds no draft head.", hint="Name the head's file with --draft.")
    if reasons := unsuitable(head, read_model(target.path)):
        raise PairError(
            f"The head {path.name} can't draft for {target.name}.",
            cause="\n".join(f"- {reason}" for reason in reasons),
            hint="Use the head that was made for this model, or leave out --draft.",
        )
    if head.kind is HeadKind.MEDUSA:
        return _medusa(head, target)
    return _loaded(head, target, copies=bool(head.layers) and needs_copies(read_model(target.path)))


def _loaded(head: HeadFile, target: LlamaModel, *, copies: bool) -> LoadedHead:
    api = llama_cpp()
    params = api.llama_model_default_params()
    params.n_gpu_layers, params.load_mtp = target.options.gpu_layers, head.kind is HeadKind.MTP
    # As for all weights: localspec's kernels read them as they are in the file.
    params.use_extra_bufts = target.options.extra_buffers
    if not has_gpu(target.options):
        params.load_mode = api.LLAMA_LOAD_MODE_NONE
    recent_errors()
    weights = api.llama_model_load_from_file(os.fsencode(head.path), params)
    if not weights:
        raise ModelFileError(f"{head.path} can't be loaded.", cause=recent_errors(), hint="Fetch another copy of it.")
    vocab = LlamaVocab(weights)
    options = HeadContextOptions(
        name=str(head.kind),
        is_mtp=head.kind in (HeadKind.MTP, HeadKind.ASSISTANT),
        width=head.width,
        vocabulary=vocab.size,
        encoded=len(head.layers) * head.target_width,
        shares_cache=head.kind is HeadKind.ASSISTANT,
        crops_rows=crops_rows(head.architecture),
        chain=head.chain,
        copies=copies,
        block=head.block,
    )
    return LoadedHead(
        str(head.kind),
        head.path,
        weights,
        vocab,
        options,
        description=head.words,
        layers=head.layers,
        screen=_screen_of(head, target, vocab.size),
        free=lambda: api.llama_model_free(weights),
    )


def _medusa(head: HeadFile, target: LlamaModel) -> LoadedHead:
    """Load Medusa heads, which the engine does not know: they are computed beside it."""
    network = MedusaNetwork(read_tensors(head.path, target.path, head.width))
    options = HeadContextOptions(
        name=str(head.kind),
        is_mtp=False,
        width=head.width,
        vocabulary=target.vocab.size,
        copies=True,
        block=head.block,
    )
    return LoadedHead(
        str(head.kind),
        head.path,
        network,
        target.vocab,
        options,
        description=head.words,
        layers=head.layers,
        free=network.close,
    )


def _screen_of(head: HeadFile, target: LlamaModel, vocabulary: int) -> Screen:
    """Return the screen of a head's output matrix, which is its own or the target's."""
    if head.kind is HeadKind.ASSISTANT or (head.block and head.block.candidates):
        # The first has few numbers in a row; a selector compares all candidates.
        return Screen(None)
    own = next((tensor.elements for tensor in read_model(head.path).tensors if tensor.name == "d2t"), 0)
    return _screen(target, own or vocabulary, head.width)


def _screen(target: LlamaModel, rows: int, width: int) -> Screen:
    """Return a screen for a matrix, as for draft models: the target checks every draft token, and is never screened."""
    return Screen(None) if has_gpu(target.options) else open_screen(rows, width)
