"""Draft heads of a target: the one in its own file, one in a file beside it, or one that was named."""

import logging
from pathlib import Path

from app.shell.paths import forged_folder
from drafters.blocks import head_drafter
from drafters.head import HeadDrafter
from drafters.registry import AUTO, HEAD, DrafterSpec
from models.base import LanguageModel
from models.errors import LocalspecError, PairError
from models.gguf.header import read_model
from models.gguf.heads import HeadKind, has_own_head, head_words, read_head, unsuitable
from models.heads.loading import join, load_head, load_own_head
from models.library.forged import forged_heads
from models.library.head_files import heads_beside
from models.llama.model import LlamaModel

_log = logging.getLogger("localspec.engine")


def wants_own_head(spec: DrafterSpec, path: Path) -> bool:
    """Return whether a target is loaded with its drafting layer: where it has one and no other drafter is named."""
    return spec.kind in (AUTO, HEAD) and not spec.model and has_own_head(read_model(path))


def open_head(path: Path, target: LanguageModel) -> HeadDrafter:
    """Return the drafter of a head's file; raises PairError, with every reason, and ModelFileError."""
    if not isinstance(target, LlamaModel):
        raise PairError(f"The head {path.name} can't draft for {target.name}.", hint="Use it with its own model.")
    head = load_head(path, target)
    try:
        return head_drafter(join(head, target))
    except BaseException:
        head.close()
        raise


def open_own_head(target: LanguageModel) -> HeadDrafter | None:
    """Return the drafter of a target's own head, or of one beside its file; None where there is neither."""
    if not isinstance(target, LlamaModel):
        return None
    if target.options.heads:
        return head_drafter(join(load_own_head(target), target))
    found = head_beside(target.path)
    return None if found is None else open_head(found, target)


def head_beside(target: Path, kind: HeadKind | None = None) -> Path | None:
    """Return the first file that holds a head for a target, made here for it or beside it; None for none.

    `kind` is the kind of head to look for; None: any.
    """
    header = read_model(target)
    for path in (*heads_beside(target), *forged_heads(forged_folder(), target)):
        try:
            head = read_head(read_model(path))
            if head is not None and kind not in (None, head.kind):
                continue
            reasons = ["it holds no draft head"] if head is None else unsuitable(head, header)
        except LocalspecError as error:
            reasons = [str(error)]
        if not reasons:
            return path
        _log.info("%s is not used: %s", path.name, "; ".join(reasons))
    return None


def no_head(target: LanguageModel) -> PairError:
    """Return the error for a target without a head where one was asked for."""
    header = read_model(target.path) if isinstance(target, LlamaModel) else None
    if header is not None and has_own_head(header):
        return PairError(
            f"--draft {HEAD} can't be used now: the drafting layer of {target.name} is not loaded.",
            hint=f"Load the model again with --draft {HEAD}, or without --draft.",
        )
    words = "" if header is None else head_words(header)
    return PairError(
        f"--draft {HEAD} can't be used: {target.name} has no draft head.",
        cause=f"Its file has {words}." if words else "",
        hint="Name a head's file with --draft FILE, or leave out --draft.",
    )
