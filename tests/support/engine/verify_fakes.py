"""Flags of `verify` as the command line gives them, and findings made of numbers alone."""

from typing import Any

from bench_fakes import answer

from app.bench.measuring.benchmark import BenchConditions
from app.engine.costs.provenance import ModelRecord, Provenance, Settings
from app.engine.decoding.stats import Stats
from app.verify.tokens.certify import Compared
from app.verify.tokens.findings import CertificateFindings
from app.verify.tokens.fork import Fork, ForkKind
from app.verify.tokens.request import read_verify

DEFAULTS: dict[str, Any] = {
    "model_option": None, "draft": None, "vs": (), "prompts": None, "classes": ("chat",), "limit": None, "predict": 40,
    "draft_max": 3, "accept": "coupled", "allow_rounding": False, "strict": False, "temp": (), "seed": 1,
    "statistics": False, "samples": 20_000, "audit": (), "timeout": 120.0, "api_key": None, "as_json": False,
    "quiet": False, "ctx_size": 0, "threads": 0, "threads_batch": 0, "gpu_layers": -1, "flash_attn": "auto",
    "cache_type_k": "auto", "cache_type_v": "auto", "top_k": 40, "top_p": 0.95, "min_p": 0.05, "repeat_penalty": 1.0,
    "repeat_last_n": 64, "presence_penalty": 0.0, "frequency_penalty": 0.0,
}  # fmt: skip
SETTINGS = Settings(
    2, 2, gpu=False, flash_attention="on", cache_type_k="q8_0", cache_type_v="q8_0", extra_buffers=True, pad_rows=4
)
PROVENANCE = Provenance(
    model=ModelRecord("big-1.5b", "qwen2 1.5B Q4_K - Medium", "ab" * 32),
    draft_model=ModelRecord("tiny", "qwen2 0.5B", "cd" * 32),
    build="llama-cpp-python 0.3.36, llama.cpp 0.5.0-dev, " + "CPU : SSE3 = 1 | AVX512 = 1 | " * 5,
    processor="A processor with a name, x86_64",
    cores=2,
    settings=SETTINGS,
)
DRAFTED = Stats(drafts=4, rounds=5, drafted=12, accepted=8, drafted_at=[4] * 3, accepted_at=[3, 3, 2]).snapshot()


def fork(kind: ForkKind = ForkKind.NEAR_TIE, **changed: Any) -> Fork:
    made: dict[str, Any] = {
        "kind": kind, "arm": "lookup:2", "prompt": "chat/1", "class_name": "chat", "turn": 0, "temperature": 0.0,
        "seed": 1, "place": 7, "tokens": (3, 4), "texts": ("the", "\n"), "widths": (1, 2, 3, 7), "gap": 0.0123,
        "floor": 0.5, "seen_at": 3, "reason": "a pass over 3 tokens rounds the same way even without a drafter",
    }  # fmt: skip
    return Fork(**{**made, **changed})


def compared(*forks: Fork, drafted: bool = True) -> Compared:
    stats = {"stats": DRAFTED} if drafted else {}
    forked = {one.arm: one.place for one in forks}
    plain = answer("off", "chat/1", [(1.0, 1)] * 12)
    others = [
        answer(arm, "chat/1", [(1.0, 3)] * 4, fork=forked.get(arm), **stats) for arm in ("auto", "lookup:2", "suffix:5")
    ]
    return Compared((plain, *others), forks)


def findings(*found: Compared, **flags: Any) -> CertificateFindings:
    return CertificateFindings(
        read_verify("toy", {**DEFAULTS, "temp": ("0",), **flags}),
        BenchConditions("big-1.5b", "qwen2 1.5B", "tiny", 4096, 8, 8, None),
        PROVENANCE,
        compared=list(found),
    )
