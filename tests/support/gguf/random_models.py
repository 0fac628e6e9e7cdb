"""GGUF files of right structure with random types, shapes and vocabularies: as a script, tries so many and counts.

Each begins as a small whole model of some architecture, and is changed in a few places. All go the way of a file that
is loaded for the first time: the header first, then a first decode in a child. The children are forked here from a
process that has the engine's library loaded, since two thousand starts of Python would take an hour.
"""

import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from struct import pack
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from models.abort import AbortFlag
    from models.llama.probe_watch import Outcome

ARCHITECTURES = (
    "llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi2", "phi3", "gpt2", "gptneox", "falcon", "mpt", "bloom",
    "stablelm", "starcoder", "starcoder2", "olmo", "olmo2", "command-r", "cohere2", "internlm2", "baichuan", "orion",
    "minicpm", "granite", "smollm3", "exaone", "nemotron", "glm4", "mamba", "mamba2", "rwkv6", "rwkv7", "jamba", "lfm2",
    "deepseek2", "qwen2moe", "qwen3moe", "dbrx", "grok", "arctic", "plamo", "plamo2", "gpt-oss", "qwen3next",
    "falcon-h1", "perpetuum",
)  # fmt: skip
TOKENIZERS = ("gpt2", "llama", "bert", "t5", "rwkv", "plamo2", "gemma4", "no_vocab", "unheard-of")
_NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    31,
    32,
    63,
    64,
    65,
    128,
    255,
    256,
    512,
    513,
    4096,
    65_535,
    1 << 20,
    (1 << 31) - 1,
    (1 << 32) - 1,
)
_WIDTH, _FEED, _VOCABULARY = 256, 256, 259
_PIECES = ("<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)))
_MOST_BYTES = 64 << 20


class Array(NamedTuple):
    """An array of metadata: the type of its elements, as the file numbers it, and these."""

    kind: int
    items: Sequence[Any]


class Model(NamedTuple):
    """A file before it is written."""

    values: dict[str, Any]
    tensors: dict[str, tuple[tuple[int, ...], int]]
    """Shape and type by name."""


def base(random: Random) -> Model:
    """Return a small whole model of the layout of Llama, under some architecture's name."""
    name = random.choice(("llama",) * 40 + ARCHITECTURES)
    layers = random.choice((1, 1, 2))
    kind = random.choice((0, 0, 1, 2, 8, 12, 14, 20, 23, 30))
    values: dict[str, Any] = {
        "general.architecture": name, f"{name}.context_length": 512, f"{name}.embedding_length": _WIDTH,
        f"{name}.block_count": layers, f"{name}.feed_forward_length": _FEED, f"{name}.attention.head_count": 4,
        f"{name}.attention.head_count_kv": 4, f"{name}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{name}.attention.layer_norm_epsilon": 1e-5, f"{name}.rope.dimension_count": 64,
    }  # fmt: skip
    values |= vocabulary(random)
    tensors = {"token_embd.weight": ((_WIDTH, _VOCABULARY), 0), "output_norm.weight": ((_WIDTH,), 0)}
    for layer in range(layers):
        for part in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{layer}.{part}.weight"] = ((_WIDTH,), 0)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
            tensors[f"blk.{layer}.{part}.weight"] = ((_WIDTH, _WIDTH), kind)
    return Model(values, tensors)


def vocabulary(random: Random) -> dict[str, Any]:
    """Return the keys of a vocabulary as SentencePiece or GPT-2 make it."""
    if random.random() < 0.5:
        return {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": Array(8, [*_PIECES]),
            "tokenizer.ggml.scores": Array(6, [0.0] * _VOCABULARY),
            "tokenizer.ggml.token_type": Array(5, [2, 3, 3, *[6] * 256]),
        }
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    letters = [chr(byte if byte in seen else next(spare)) for byte in range(256)]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": random.choice(("default", "smollm", "qwen2", "llama-bpe", "gpt-2", "falcon")),
        "tokenizer.ggml.tokens": Array(8, [*letters, "ab", "<|end|>", "<|start|>"]),
        "tokenizer.ggml.token_type": Array(5, [*[1] * 257, 3, 3]),
        "tokenizer.ggml.merges": Array(8, ["a b"]),
        "tokenizer.ggml.eos_token_id": 257,
    }  # fmt: skip


# --- changes ----------------------------------------------------------------------------------------------------------


def _type(random: Random, model: Model) -> None:
    from models.gguf.quantisation import TENSOR_TYPES

    name = random.choice([*model.tensors])
    shape, _ = model.tensors[name]
    fitting = [code for code, kind in TENSOR_TYPES.items() if shape[0] % kind.block == 0]
    model.tensors[name] = (shape, random.choice(fitting))


def _types(random: Random, model: Model) -> None:
    for _ in range(random.randrange(1, 8)):
        _type(random, model)


def _shape(random: Random, model: Model) -> None:
    from models.gguf.quantisation import TENSOR_TYPES

    name = random.choice([*model.tensors])
    shape, kind = model.tensors[name]
    sizes = [random.choice((1, 2, 32, 64, 128, 256, 257, 259, 512, *shape)) for _ in range(random.randrange(1, 5))]
    block = TENSOR_TYPES[kind].block
    model.tensors[name] = ((max(block, sizes[0] // block * block), *sizes[1:]), kind)


def _number(random: Random, model: Model) -> None:
    name = random.choice([key for key, value in model.values.items() if isinstance(value, int)])
    model.values[name] = random.choice(_NUMBERS)


def _key(random: Random, model: Model) -> None:
    name = model.values["general.architecture"]
    keys = (
        "attention.key_length", "attention.value_length", "attention.sliding_window", "expert_count", "rope.freq_base",
        "expert_used_count", "vocab_size", "rope.scaling.factor", "attention.max_alibi_bias", "ssm.conv_kernel",
        "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank", "ssm.group_count", "wkv.head_size",
        "nextn_predict_layers", "leading_dense_block_count", "attention.kv_lora_rank", "logit_scale",
        "shortconv.l_cache",
    )  # fmt: skip
    model.values[f"{name}.{random.choice(keys)}"] = random.choice((*_NUMBERS, 0.0, -1.0, 1e30, float("nan")))


def _without(random: Random, model: Model) -> None:
    part: dict[str, Any] = random.choice((model.values, model.tensors))
    if gone := [key for key in part if key != "general.architecture"]:
        del part[random.choice(gone)]


def _further(random: Random, model: Model) -> None:
    name = random.choice(("output.weight", "rope_freqs.weight", "blk.0.attn_q.bias", "blk.0.attn_q_norm.weight"))
    model.tensors[name] = random.choice((((_WIDTH,), 0), ((_WIDTH, _VOCABULARY), 0), ((32,), 0)))


def _tokenizer(random: Random, model: Model) -> None:
    model.values["tokenizer.ggml.model"] = random.choice(TOKENIZERS)


def _tokens(random: Random, model: Model) -> None:
    """Change some tokens: their spelling, their number, and what is said of each."""
    tokens = model.values.get("tokenizer.ggml.tokens")
    if tokens is None or not tokens.items:
        return
    items = [*tokens.items]
    for _ in range(random.choice((1, 3, 40))):
        spelling = random.choice(("", "\0", "x" * 1100, "\U0001f600", "a\0b", "<0x41>", "▁", " ", "\n" * 300, "<|x|>"))
        items[random.randrange(len(items))] = spelling + (str(random.random()) if random.random() < 0.8 else "")
    if random.random() < 0.2:
        items = items[: random.randrange(1, len(items))]
    model.values["tokenizer.ggml.tokens"] = Array(8, items)


def _of_tokens(random: Random, model: Model) -> None:
    name, kind, draw = random.choice((
        ("scores", 6, lambda: random.choice((0.0, float("nan"), float("inf"), -1e30))),
        ("token_type", 5, lambda: random.choice((-1, 0, 1, 2, 3, 4, 5, 6, 7, 1 << 30))),
        ("merges", 8, lambda: random.choice(("a b", "", " ", "ab", "a b c", "x" * 500 + " y", "\0 \0"))),
    ))  # fmt: skip
    count = random.choice((0, 1, 10, _VOCABULARY - 1, _VOCABULARY, _VOCABULARY + 1))
    model.values[f"tokenizer.ggml.{name}"] = Array(kind, [draw() for _ in range(count)])


def _role(random: Random, model: Model) -> None:
    role = random.choice(("bos", "eos", "eot", "unknown", "padding", "fim_pre", "seperator", "mask"))
    model.values[f"tokenizer.ggml.{role}_token_id"] = random.choice((*_NUMBERS, _VOCABULARY - 1, _VOCABULARY))
    model.values[f"tokenizer.ggml.add_{role}_token"] = random.random() < 0.5


_CHANGES: tuple[Callable[[Random, Model], None], ...] = (
    _type, _types, _shape, _number, _number, _key, _without, _further, _tokenizer, _tokens, _tokens, _of_tokens, _role,
)  # fmt: skip


def written(path: Path, seed: int) -> Path:
    """Write the file of this number; return `path`."""
    random = Random(seed)
    model = base(random)
    for _ in range(random.choice((0, 1, 1, 2, 3, 5))):
        random.choice(_CHANGES)(random, model)
    return write_model(path, model, random)


def write_model(path: Path, model: Model, random: Random) -> Path:
    """Write a file with weights that are 0, or begin at random; return `path`."""
    from models.gguf.quantisation import TENSOR_TYPES

    described, offset = b"", 0
    for name, (shape, code) in model.tensors.items():
        described += _text(name) + pack(f"<I{len(shape)}QIQ", len(shape), *shape, code, offset)
        elements = 1
        for size in shape:
            elements *= size
        size = elements // TENSOR_TYPES[code].block * TENSOR_TYPES[code].size
        offset += size + -size % 32
    head = b"GGUF" + pack("<IQQ", 3, len(model.tensors), len(model.values))
    head += b"".join(_text(key) + _value(value) for key, value in model.values.items()) + described
    head += bytes(-len(head) % 32)
    data = random.randbytes(min(offset, 1 << 16)) if random.random() < 0.5 else b""
    path.write_bytes(head + data)
    os.truncate(path, len(head) + min(offset, _MOST_BYTES))
    return path


def _text(value: str) -> bytes:
    data = value.encode()
    return pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    if isinstance(value, Array):
        parts = {8: _text, 6: lambda each: pack("<f", each), 5: lambda each: pack("<i", each)}
        return pack("<IIQ", 9, value.kind, len(value.items)) + b"".join(parts[value.kind](each) for each in value.items)
    if isinstance(value, str):
        return pack("<I", 8) + _text(value)
    if isinstance(value, bool):
        return pack("<IB", 7, value)
    return pack("<If", 6, value) if isinstance(value, float) else pack("<II", 4, value)


# --- trying them ------------------------------------------------------------------------------------------------------


def watch_fork(command: Sequence[str], seconds: float, variables: Mapping[str, str], _: "AbortFlag") -> "Outcome":
    """Do as `models.llama.probe_watch.watch` does, with a child that is forked from this process."""
    from models.llama import probe_watch

    with tempfile.TemporaryDirectory() as folder:
        report, said = Path(folder) / "report", Path(folder) / "said"
        child = os.fork()
        if child == 0:
            _be_child(command, {**variables, probe_watch.REPORT: str(report)}, said)
        code, until = None, time.monotonic() + probe_watch._LONGEST_WAIT * seconds
        while code is None:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
            elif probe_watch._computed(child) > seconds or time.monotonic() > until:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                code = probe_watch.TIMED_OUT
            else:
                time.sleep(0.002)
        lines = [*probe_watch._lines(report)]
        with said.open("rb") as file:
            return probe_watch.Outcome(code, probe_watch._error_of(lines), probe_watch._last_line(file), True)


def _be_child(command: Sequence[str], variables: Mapping[str, str], said: Path) -> None:
    """Be the child of a probe; never returns."""
    from models.kernels.compiling import OFF
    from models.llama.bindings import leave_kernels_out
    from models.llama.probe_child import main

    try:
        handle = os.open(said, os.O_WRONLY | os.O_CREAT)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.environ.update(variables)
        if OFF in variables:
            leave_kernels_out()
        os._exit(main(Path(command[-2]), extra_buffers=None if command[-1] == "1" else False))
    except BaseException:
        os._exit(70)


def outcome_of(path: Path, memory: Path) -> str:
    """Return in a word how a first load of a file ends; "wrong: ..." for what must not be."""
    from models.errors import LocalspecError
    from models.llama.probe import try_decode

    try:
        try_decode(path, memory)
    except LocalspecError as error:
        if error.exit_code not in (3, 5) or not error.hint:
            return f"wrong: {type(error).__name__}: {error}"
        if "child process died" in error.cause:
            return "died, and is said to be at fault"
        return "took too long" if "did not end" in error.cause else "refused in words"
    except BaseException as error:
        return f"wrong: {type(error).__name__}: {error}"
    return "passed"


def main(first: int, count: int) -> None:
    """Try so many files; print how they ended, the slowest in processor time, and what did not end as it should."""
    import models.llama.probe
    from models.llama.bindings import llama_cpp

    llama_cpp()
    models.llama.probe.watch = watch_fork  # type: ignore[assignment]
    outcomes: Counter[str] = Counter()
    wrong, slowest, which = [], 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            path = written(Path(folder) / "random.gguf", seed)
            started = _computed_here()
            outcome = outcome_of(path, Path(folder) / f"memory-{seed}.json")
            spent = _computed_here() - started
            if spent > slowest:
                slowest, which = spent, seed
            outcomes[outcome.partition(":")[0]] += 1
            if outcome.startswith("wrong"):
                wrong.append(f"{seed}: {outcome}")
    print(json.dumps({**outcomes, "of": count, "slowest": round(slowest, 2), "which": which, "problems": wrong[:20]}))


def _computed_here() -> float:
    """Return the seconds of processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[3]), str(Path(__file__).parent)]
    main(int(sys.argv[1]), int(sys.argv[2]))
