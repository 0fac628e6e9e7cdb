"""Map of tokens in the file of a draft model with a smaller vocabulary, under two keys of localspec's own."""

from models.errors import ModelFileError
from models.gguf.header import Header
from models.token_map import TokenMap

KEPT, NEAREST = "localspec.tokens.kept", "localspec.tokens.nearest"
"""Keys of the two lists, of whole numbers of 32 bits."""
_INT32 = 5


def token_map_of(header: Header) -> TokenMap | None:
    """Return the map of a file, None for a model with a whole vocabulary; raises ModelFileError for a damaged one."""
    places = header.array(KEPT), header.array(NEAREST)
    if places[0] is None or places[1] is None:
        return None
    # Pairs are judged without numpy, which takes a tenth of a second to import; few files have a map.
    import numpy as np

    if {place.kind for place in places if place} != {_INT32}:
        raise _damaged(header, "its lists are of another type")
    kept, nearest = (np.frombuffer(header.raw(place), "<i4").astype(np.int32) for place in places if place)
    tokens = header.array("tokenizer.ggml.tokens")
    if tokens is None or tokens.count != len(kept):
        raise _damaged(header, f"its list has {len(kept):,} tokens, its vocabulary another number")
    if not len(kept) or (np.diff(kept) <= 0).any() or kept[0] < 0 or kept[-1] >= len(nearest):
        raise _damaged(header, "its tokens are not in order")
    if nearest.min() < 0 or nearest.max() >= len(kept):
        raise _damaged(header, "it names tokens that it does not have")
    return TokenMap(kept, nearest)


def _damaged(header: Header, why: str) -> ModelFileError:
    return ModelFileError(
        f"{header.path.name} has a map of tokens that can't be used.",
        cause=why,
        hint="Make it again with localspec forge --method trim.",
    )
