"""Types of tensors in a GGUF, and the name of their mixture, such as Q4_K_M."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorType:
    """One way to pack numbers."""

    name: str
    block: int
    """Numbers that are packed together; a row holds whole blocks."""
    size: int
    """Bytes of a block."""


TENSOR_TYPES = {
    code: TensorType(name, block, size)
    for code, name, block, size in (
        (0, "F32", 1, 4),
        (1, "F16", 1, 2),
        (2, "Q4_0", 32, 18),
        (3, "Q4_1", 32, 20),
        (6, "Q5_0", 32, 22),
        (7, "Q5_1", 32, 24),
        (8, "Q8_0", 32, 34),
        (9, "Q8_1", 32, 40),
        (10, "Q2_K", 256, 84),
        (11, "Q3_K", 256, 110),
        (12, "Q4_K", 256, 144),
        (13, "Q5_K", 256, 176),
        (14, "Q6_K", 256, 210),
        (15, "Q8_K", 256, 292),
        (16, "IQ2_XXS", 256, 66),
        (17, "IQ2_XS", 256, 74),
        (18, "IQ3_XXS", 256, 98),
        (19, "IQ1_S", 256, 50),
        (20, "IQ4_NL", 32, 18),
        (21, "IQ3_S", 256, 110),
        (22, "IQ2_S", 256, 82),
        (23, "IQ4_XS", 256, 136),
        (24, "I8", 1, 1),
        (25, "I16", 1, 2),
        (26, "I32", 1, 4),
        (27, "I64", 1, 8),
        (28, "F64", 1, 8),
        (29, "IQ1_M", 256, 56),
        (30, "BF16", 1, 2),
        (34, "TQ1_0", 256, 54),
        (35, "TQ2_0", 256, 66),
        (39, "MXFP4", 32, 17),
        (40, "NVFP4", 64, 36),
        (41, "Q1_0", 128, 18),
        (42, "Q2_0", 64, 18),
    )
}
"""The types llama.cpp knows, by the number that stands for each in a file."""

_MIXTURES = (
    "F32 F16 Q4_0 Q4_1 - - - Q8_0 Q5_0 Q5_1 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ2_XXS "
    "IQ2_XS Q2_K_S IQ3_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ3_M IQ2_S IQ2_M IQ4_XS IQ1_M BF16 - - - TQ1_0 TQ2_0 "
    "MXFP4_MOE NVFP4 Q1_0 Q2_0"
)
"""Names for the numbers of `general.file_type`, from 0 on; "-" for numbers no longer used."""
_UNPACKED = frozenset({"F32", "F16", "BF16"})


def mixture_name(stated: int | None, sizes: Iterable[tuple[str, int]]) -> str:
    """Return the usual name of a file's quantisation, such as "Q4_K_M".

    `stated` is the file's own word, None where it says nothing; `sizes` are the type and bytes of each tensor. A file
    that calls packed weights F32 or F16 never set that word, so its largest share names it; "?" for no weights at all.
    """
    shares: Counter[str] = Counter()
    for name, size in sizes:
        shares[name] += size
    largest = max(shares, key=lambda name: shares[name], default="?")
    mixtures = _MIXTURES.split()
    word = mixtures[stated] if stated is not None and 0 <= stated < len(mixtures) else "-"
    return largest if word == "-" or (word in _UNPACKED and largest not in _UNPACKED) else word
