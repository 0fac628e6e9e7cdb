"""Choice of a repository's file by quantisation: names give the quantisation, headers show which files are models."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from models.errors import ModelFileError
from models.library.whole_model import Named, models_among

_GGUF = ".gguf"
_HEADS = ("mtp-", "eagle3-", "dflash-", "dspark-", "medusa-")
"""Prefixes that llama.cpp gives to files of draft heads, which lie beside their target."""
_LABEL = re.compile(
    r"(?:^|[-._/])((?:UD-)?(?:I?Q\d[A-Z0-9]*(?:_[A-Z0-9]+)*|TQ\d_\d|MXFP4(?:_MOE)?|NVFP4|BF16|FP?16|F32))(?=[-.]|$)",
    re.IGNORECASE,
)


def has_label(name: str, label: str) -> bool:
    """Return whether a file's name contains this quantisation."""
    return re.search(rf"(?:^|[-._/]){re.escape(label)}(?=[-./]|$)", name, re.IGNORECASE) is not None


def label_of(name: str) -> str:
    """Return the quantisation that a file's name says, such as "Q4_K_M"; "" for none."""
    found = _LABEL.findall(name.removesuffix(_GGUF))
    return found[-1].upper() if found else ""


def is_head(name: str) -> bool:
    """Return, by its name, whether a file is a draft head for the model beside it."""
    return name.rpartition("/")[2].startswith(_HEADS)


def labelled(files: Sequence[Named], label: str) -> list[Named]:
    """Return the files whose names say a quantisation: those that say just that one, else those that also do."""
    found = [each for each in files if not is_head(each[0]) and has_label(each[0], label)]
    return [each for each in found if label_of(each[0]) == label.upper()] or found


def choose(files: Sequence[Named], label: str = "", repo: str = "user/repo") -> Path | None:
    """Return the file of a repository that a label means; without one Q4_K_M, else Q8_0, else the only model.

    Headers decide which files are models; `repo` is how an error calls the repository. Raises ModelFileError where
    several models have the label, or none of those and the repository several models.
    """
    for wanted in (label,) if label else ("Q4_K_M", "Q8_0"):
        found = labelled(files, wanted)
        if len(found) > 1 or any("/" in name for name, _ in found):
            found = models_among(found)
        if len(found) > 1:
            raise ambiguous(repo, wanted, [name for name, _ in found])
        if found:
            return found[0][1]
    models = [] if label else [each for each in files if not is_head(each[0])]
    if len(models) > 1:
        models = models_among(models)
    if len(models) > 1:
        raise _several(repo, [name for name, _ in models])
    return models[0][1] if models else None


class AmbiguousNameError(ModelFileError):
    """A name that several models have; its cause lists them."""


def _several(repo: str, names: Sequence[str]) -> AmbiguousNameError:
    labels = [label_of(name) for name in names]
    short = f"{repo}:{labels[0]}" if labels[0] and labels.count(labels[0]) == 1 else f"hf://{repo}/{names[0]}"
    return AmbiguousNameError(
        f"{repo} has {len(names)} models on this machine, and none is Q4_K_M or Q8_0.",
        cause=f"They are: {', '.join(names)}.",
        hint=f"Name one: {shlex.quote(short)}.",
    )


def ambiguous(repo: str, label: str, names: Sequence[str]) -> AmbiguousNameError:
    """Return the error for a quantisation that several models of a repository have."""
    return AmbiguousNameError(
        f"{label} is the quantisation of {len(names)} models of {repo}.",
        cause=f"They are: {', '.join(names)}.",
        hint=f"Name the file: {shlex.quote(f'hf://{repo}/{names[0]}')}.",
    )
