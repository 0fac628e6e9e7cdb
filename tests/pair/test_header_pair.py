"""The real target and draft, told from their headers: as a pair, and in the memory they take.

Run with LOCALSPEC_PAIR=FOLDER and -m pair; takes about half a minute.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from models.gguf.model_info import model_info
from models.gguf.pair import check_files
from models.llama.load import LlamaOptions
from models.llama.memory import plan_memory
from models.llama.model import LlamaModel
from models.pair import check_pair

FOLDER = Path(os.environ.get("LOCALSPEC_PAIR", "/nonexistent"))
TARGET = FOLDER / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
DRAFT = FOLDER / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.pair,
    pytest.mark.skipif(
        not (TARGET.exists() and DRAFT.exists()), reason="LOCALSPEC_PAIR names no folder with the models"
    ),
]

PEAK = """
import re, sys
from pathlib import Path
from models.llama.bindings import llama_cpp
from models.llama.model import LlamaModel
from models.llama.load import LlamaOptions
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
llama_cpp()
before = peak()
model = LlamaModel(Path(sys.argv[1]), LlamaOptions(threads=1, context_size=int(sys.argv[2])))
model.decode([100 + place % 50 for place in range(model.batch_size)], model.max_rows)
print(peak() - before)
"""


def test_the_headers_agree_with_the_loaded_models() -> None:
    options = LlamaOptions(context_size=256, threads=1)
    target, draft = LlamaModel(TARGET, options), LlamaModel(DRAFT, options)
    try:
        assert [*check_files(TARGET, DRAFT).differences] == check_pair(target.vocab, draft.vocab) == []
        assert target.rewind_support.reason == model_info(TARGET).memory_reason
    finally:
        draft.close()
        target.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read as Linux tells it")
@pytest.mark.parametrize("context", [2048, 8192, 32768])
@pytest.mark.parametrize("path", [TARGET, DRAFT])
def test_the_memory_planned_is_within_five_per_cent_of_the_peak(path: Path, context: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(path), str(context)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    planned, peak = plan_memory(model_info(path).shape, context).total, int(done.stdout)
    print(f"{path.name} {context}: planned {planned / 2**20:.0f} MiB, peak {peak / 2**20:.0f} MiB")
    assert planned == pytest.approx(peak, rel=0.05)
