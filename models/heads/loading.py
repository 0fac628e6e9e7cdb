"""Loading of draft heads: a layer of the target's own file, or a file beside it."""

import os
from pathlib import Path

from models.errors import ModelFileError, PairError
from models.gguf.header import read_model
from models.gguf.heads import HeadFile, HeadKind, read_head, unsuitable
from models.heads.head_context import HeadContextOptions
from models.heads.loaded_head import LoadedHead
from models.llama.bindings import llama_cpp, recent_errors
from models.llama.load import has_gpu
from models.llama.model import LlamaModel
from models.llama.vocab import LlamaVocab


def load_own_head(target: LlamaModel) -> LoadedHead:
    """Return the head in a target's own file, which was loaded with it (`LlamaOptions.heads`)."""
    weights, _, _ = target.handles
    options = HeadContextOptions("mtp", is_mtp=True, width=target.row_width, vocabulary=target.vocab.size)
    return LoadedHead("mtp", target.path, weights, target.vocab, options, description="drafting layer of the target")


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
    return _loaded(head, target)


def _loaded(head: HeadFile, target: LlamaModel) -> LoadedHead:
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
    )
    return LoadedHead(
        str(head.kind),
        head.path,
        weights,
        vocab,
        options,
        description=head.words,
        layers=head.layers,
        free=lambda: api.llama_model_free(weights),
    )
