"""Cost of draft heads in one-token passes of their target: python tests/support/run.py head_speed TARGET.

Writes heads of random weights (Q4_0) in the shape of the target's own layers: EAGLE-3 with a vocabulary of 32,000, one
that shares the target's output matrix, and DFlash of some layers. None of their drafts is accepted, so what is timed is
a step, a round (tokens that were accepted are read with its first step), and a block.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

from app.forge.files.reading import copy_vocabulary
from models.gguf.header import Header, read_model
from models.heads.block_model import BlockModel
from models.heads.loading import join, load_head
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

_BEFORE, _REPEATS = 192, 40
_VOCABULARY, _BLOCK, _BLOCK_LAYERS, _MASK = 32_000, 16, 5, 1
_ACCEPTED = 3
"""Tokens that a round reads beside the pending one."""


class _Shape:
    """Sizes of a target's layers."""

    def __init__(self, header: Header) -> None:
        def number(name: str) -> int:
            return header.number(f"{header.text('general.architecture')}.{name}") or 0

        self.width, self.inner, self.layers = (
            number(name) for name in ("embedding_length", "feed_forward_length", "block_count")
        )
        self.heads, self.kv = number("attention.head_count"), number("attention.head_count_kv")
        self.head = self.width // self.heads

    @property
    def read(self) -> tuple[int, int, int]:
        return 2, self.layers // 2, self.layers - 3


def write_head(path: Path, target: Path, kind: str, vocabulary: int = 0) -> Path:
    """Write a head of random weights for a target, with an output matrix of its own for `vocabulary` tokens."""
    shape, draw = _Shape(read_model(target)), np.random.default_rng(0)
    file, layers = GGUFWriter(path, kind), _BLOCK_LAYERS if kind == "dflash" else 1
    file.add_block_count(layers)
    file.add_context_length(4096)
    file.add_embedding_length(shape.width)
    file.add_feed_forward_length(shape.inner)
    file.add_head_count(shape.heads)
    file.add_head_count_kv(shape.kv)
    file.add_rope_dimension_count(shape.head)
    file.add_layer_norm_rms_eps(1e-6)
    file.add_array(f"{kind}.target_layers", list(shape.read))
    if kind == "dflash":
        file.add_uint32("dflash.block_size", _BLOCK)
        file.add_mask_token_id(_MASK)
    else:
        file.add_uint32("eagle3.target_hidden_size", shape.width)
    copy_vocabulary(file, target)

    def matrix(name: str, rows: int, columns: int) -> None:
        blocks = draw.integers(0, 256, (rows, columns // 32, 18), np.uint8)
        blocks[..., :2] = np.frombuffer(np.float16(0.1 / columns**0.5).tobytes(), np.uint8)
        file.add_tensor(f"{name}.weight", blocks.reshape(rows, -1), raw_dtype=GGMLQuantizationType.Q4_0)

    def norm(name: str, size: int) -> None:
        file.add_tensor(f"{name}.weight", np.ones(size, np.float32))

    matrix("fc", shape.width, 3 * shape.width)
    norm("output_norm", shape.width)
    _layers(layers, shape, kind, matrix, norm)
    if kind == "dflash":
        norm("enc.output_norm", shape.width)
    if vocabulary:
        matrix("output", vocabulary, shape.width)
        file.add_tensor("d2t", np.arange(vocabulary, dtype=np.int64))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


def _layers(
    count: int, shape: _Shape, kind: str, matrix: Callable[[str, int, int], None], norm: Callable[[str, int], None]
) -> None:
    columns = shape.width * (2 if kind == "eagle3" else 1)
    for layer in (f"blk.{index}" for index in range(count)):
        norm(f"{layer}.attn_norm", shape.width)
        norm(f"{layer}.ffn_norm", shape.width)
        if kind == "eagle3":
            norm(f"{layer}.attn_norm_2", shape.width)
        else:
            norm(f"{layer}.attn_q_norm", shape.head)
            norm(f"{layer}.attn_k_norm", shape.head)
        matrix(f"{layer}.attn_q", shape.heads * shape.head, columns)
        matrix(f"{layer}.attn_k", shape.kv * shape.head, columns)
        matrix(f"{layer}.attn_v", shape.kv * shape.head, columns)
        matrix(f"{layer}.attn_output", shape.width, shape.heads * shape.head)
        matrix(f"{layer}.ffn_gate", shape.inner, shape.width)
        matrix(f"{layer}.ffn_up", shape.inner, shape.width)
        matrix(f"{layer}.ffn_down", shape.width, shape.inner)


def _timed(action: Callable[[], object], restore: Callable[[], object]) -> float:
    """Return the least milliseconds of an action: another program can only slow it down."""
    taken = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        action()
        taken.append((time.perf_counter() - started) * 1e3)
        restore()
    return min(taken)


def main() -> None:
    """Write heads and print what they cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="write the heads here, and leave them")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = chosen.keep or Path(folder)
        for title, kind, vocabulary in (
            ("EAGLE-3, 32,000 tokens", "eagle3", _VOCABULARY),
            ("EAGLE-3, shared output", "eagle3", 0),
            (f"DFlash, {_BLOCK_LAYERS} layers, shared output", "dflash", 0),
        ):
            path = write_head(place / f"{kind}-{vocabulary or 'shared'}.gguf", chosen.target, kind, vocabulary)
            _measure(title, path, chosen.target, chosen.threads)


def _measure(title: str, path: Path, target_path: Path, threads: int) -> None:
    target = LlamaModel(target_path, LlamaOptions(context_size=1024, threads=threads))
    text = [(7 * place) % 1000 + 300 for place in range(_BEFORE)]
    plain = _one_token(target, text)
    head = join(load_head(path, target), target)
    tapped = _one_token(target, text)
    for start in range(0, _BEFORE, 64):
        head.decode(text[start : start + 64], 0)
    known = head.length
    back: Callable[[], object] = lambda: head.rewind(known)  # noqa: E731
    print(
        f"{title}: {path.stat().st_size / 2**20:.0f} MiB; a pass of the target {plain:.1f} ms, tapped {tapped:.1f} ms"
    )
    if isinstance(head, BlockModel):
        whole = [(count, _timed(lambda count=count: head.block(1, count), back)) for count in (1, 3, 7, head.longest)]
        print("  " + ", ".join(f"block of {count}: {taken:.1f} ms ({taken / plain:.2f})" for count, taken in whole))
    else:
        step = _timed(lambda: head.decode([1], 1), back)
        head.rewind(known - _ACCEPTED)
        known -= _ACCEPTED
        first = _timed(lambda: head.decode([*text[-_ACCEPTED:], 1], 1), back)
        print(f"  step {step:.1f} ms ({step / plain:.2f}), first step with {_ACCEPTED} accepted {first:.1f} ms", end="")
        print(f" ({first / plain:.2f}), round of three {(first + 2 * step) / plain:.2f}")
    head.close()
    target.close()


def _one_token(target: LlamaModel, text: list[int]) -> float:
    """Read a text anew; return the milliseconds of a pass over one token after it."""
    target.rewind(0)
    for start in range(0, len(text), 64):
        target.decode(text[start : start + 64], 0)
    return _timed(lambda: target.decode([1], 1), lambda: target.rewind(len(text)))


if __name__ == "__main__":
    main()
