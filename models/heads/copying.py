"""Opening of a target so that its passes copy the inputs of some layers."""

from dataclasses import replace

from models.errors import LocalspecError
from models.llama.model import LlamaModel


def let_copy(target: LlamaModel, layers: tuple[int, ...]) -> None:
    """Reopen a target, which is empty then, so that its passes copy the inputs of these layers.

    Nothing is done to one that does so. Raises LocalspecError for a model that does not name what its layers return.
    """
    if {*layers} <= {*target.options.layers}:
        return
    # Another head of the target may read others.
    target.reopen(replace(target.options, layers=tuple(sorted({*target.options.layers, *layers}))))
    copies = target.layer_rows
    target.decode([target.vocab.bos or 0], 1)
    found = copies is not None and copies.has(1)
    target.rewind(0)
    if not found:
        raise LocalspecError(
            f"{target.name} does not hand out its layers, so this draft head can't be used.",
            cause=f"Its passes show nothing of the layers {', '.join(map(str, layers))}.",
            hint="Leave out --draft, or use --draft suffix.",
        )
