"""The certificate of the real target and draft.

Run with LOCALSPEC_PAIR=FOLDER and -m pair; takes about ten minutes on two cores.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from run_localspec import ROOT, environment

FOLDER = Path(os.environ.get("LOCALSPEC_PAIR", "/nonexistent"))
TARGET = FOLDER / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
DRAFT = FOLDER / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
FEW = ("--class", "chat,code,edit", "--limit", "1", "--temp", "0,0.8", "-n", "64")

pytestmark = [
    pytest.mark.pair,
    pytest.mark.skipif(
        not (TARGET.exists() and DRAFT.exists()), reason="LOCALSPEC_PAIR names no folder with the models"
    ),
]


def certificate(home: Path, *flags: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "app", "verify", str(TARGET), "--draft", str(DRAFT), *FEW, "--json", *flags]
    done = subprocess.run(command, cwd=ROOT, env=environment(home), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    print(found["verdict"])
    return found


def test_within_the_exact_width_every_token_is_plain_decodings(tmp_path: Path) -> None:
    found = certificate(tmp_path)
    assert (found["outcome"], found["forks"]) == ("exact", [])
    assert found["tokens_compared"] > 1000
    assert all(len(found[name]["sha256"]) == 64 for name in ("model", "draft_model"))
    assert found["exact_draft"] >= 1
    assert max(max(result["widths"]) for result in found["results"]) <= found["exact_draft"] + 1
    assert all(result["drafted"] > 0 for result in found["results"] if result["arm"].startswith("model"))


def test_beyond_it_every_fork_is_a_near_tie(tmp_path: Path) -> None:
    # Floats in the cache, summed in parts: rounding that a few hundred tokens are enough to show.
    found = certificate(tmp_path, "--allow-rounding", "-ctk", "f16", "-ctv", "f16", "--vs", "model:7,lookup:7")
    assert found["outcome"] in ("exact", "rounding")
    for fork in found["forks"]:
        print(f"{fork['arm']}, {fork['prompt']}, {fork['place']}: gap {fork['gap']:.4f}, floor {fork['floor']:.4f}")
        assert fork["kind"] == "near-tie"
        assert 0 < fork["gap"] <= fork["floor"] or fork["seen_at"] is not None
    assert any(max(result["widths"]) == 8 for result in found["results"])
