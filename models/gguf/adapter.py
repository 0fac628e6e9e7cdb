"""LoRA adapters by their headers: what a file is, and whether it fits a model."""

from collections.abc import Iterator

from models.errors import ModelFileError
from models.gguf.header import Header, Tensor

_PARTS = (".lora_a", ".lora_b")
_IGNORED = "_norm.weight"
"""End of the names of vectors that llama.cpp leaves out, as most adapters work without them."""
_TABLE = "token_embd.weight"
_EXPERTS = "_exps."
_INVOKED = "adapter.alora.invocation_tokens"
_FLOATS = ("F", "BF", "Q", "IQ", "TQ", "MXFP")
"""Beginnings of the types that a matrix may have."""
_SHOWN = 4
"""Reasons that are listed; a wrong base model gives hundreds."""


def check_adapter(adapter: Header, target: Header) -> None:
    """Raise ModelFileError, with the reasons, for a file that is no LoRA adapter, or none for this model."""
    name, kind = adapter.path.name, adapter.text("general.type")
    if kind != "adapter" or adapter.text("adapter.type") != "lora":
        what = f"'{kind}'" if kind else "a model, by its metadata"
        raise ModelFileError(
            f"{name} is not a LoRA adapter: it is {what if kind != 'adapter' else 'another kind of adapter'}.",
            hint="Give --lora a GGUF adapter, as llama.cpp's convert_lora_to_gguf.py writes it.",
        )
    if _INVOKED in adapter.values:
        raise ModelFileError(
            f"{name} is an activated LoRA, which works from certain tokens on; localspec does not run these.",
            hint="Use an adapter that holds for the whole text.",
        )
    if reasons := adapter_reasons(adapter, target):
        more = [f"- and {len(reasons) - _SHOWN:,} more"] if len(reasons) > _SHOWN else []
        raise ModelFileError(
            f"The adapter {name} does not fit {target.path.name}.",
            cause="\n".join([*(f"- {reason}" for reason in reasons[:_SHOWN]), *more]),
            hint="Use the adapter with the model that it was trained on.",
        )


def adapter_reasons(adapter: Header, target: Header) -> list[str]:
    """Return why an adapter does not fit a model; [] where it does."""
    own, other = adapter.text("general.architecture"), target.text("general.architecture")
    if own != other:
        return [f"it is for the architecture '{own}', the model's is '{other}'"]
    matrices = {tensor.name: tensor for tensor in target.tensors}
    return [*_unpaired(adapter), *_unfit(adapter, matrices)]


def _unpaired(adapter: Header) -> Iterator[str]:
    names = {tensor.name for tensor in adapter.tensors}
    if not any(name.endswith(_PARTS) for name in names):
        yield "it changes no matrix"
    for name in sorted(names):
        if name.endswith(_IGNORED):
            continue
        if not name.endswith(_PARTS):
            yield f"its tensor {name} is no part of a LoRA"
        elif f"{name[:-1]}{'b' if name.endswith('a') else 'a'}" not in names:
            yield f"its tensor {name} lacks the other part"


def _unfit(adapter: Header, matrices: dict[str, Tensor]) -> Iterator[str]:
    parts = {tensor.name: tensor for tensor in adapter.tensors}
    for name, first in parts.items():
        if not name.endswith(_PARTS[0]) or (second := parts.get(f"{name[:-1]}b")) is None:
            continue
        base = name.removesuffix(_PARTS[0])
        matrix = matrices.get(base)
        if matrix is None:
            yield f"it changes {base}, which the model does not have"
        elif not (first.type.startswith(_FLOATS) and second.type.startswith(_FLOATS)):
            yield f"its parts for {base} have the types {first.type} and {second.type}"
        elif _EXPERTS not in base and not _has_shape(first, second, matrix, is_table=base == _TABLE):
            yield f"its parts for {base} have shapes that do not fit the model's"


def _has_shape(first: Tensor, second: Tensor, matrix: Tensor, *, is_table: bool) -> bool:
    """Return whether two parts multiply to a matrix's shape; of the table of tokens they stand the other way round."""
    if is_table:
        return (_columns(matrix), matrix.rows) == (second.rows, first.rows)
    return (_columns(matrix), matrix.rows, first.rows) == (_columns(first), second.rows, _columns(second))


def _columns(tensor: Tensor) -> int:
    return tensor.elements // max(1, tensor.rows)
