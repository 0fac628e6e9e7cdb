"""A damaged header ends in a sentence, whatever is wrong with it: never in a crash, a hang, or much memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mutated_headers import mutated, refusal_of, seeds
from run_here import localspec_here

from models.gguf.model_info import model_info

SCRIPT = Path(__file__).parents[2] / "support" / "gguf" / "mutated_headers.py"
COUNT = int(os.environ.get("LOCALSPEC_FUZZ", "3000"))
"""Damaged files that are read; 100,000 take some minutes."""
MEMORY = 200 << 20


def test_damaged_headers_are_read_or_refused_with_a_sentence() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(COUNT)], capture_output=True, text=True, timeout=60 + COUNT / 50, check=False
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["wrong"] == []
    assert said["read"] + said["refused"] == COUNT
    # Both are worth nothing when there are none.
    assert min(said["read"], said["refused"]) > COUNT / 20
    assert said["peak"] < MEMORY


@pytest.mark.parametrize("command", [["models", "info"], ["check"]])
def test_a_command_ends_with_the_code_for_a_damaged_file(tmp_path: Path, command: list[str]) -> None:
    good, path, codes = seeds(tmp_path), tmp_path / "damaged.gguf", []
    for seed in range(12):
        path.write_bytes(mutated(seed, good))
        refused, done = refusal_of(lambda: model_info(path)), localspec_here(*command, str(path), home=tmp_path)
        codes.append(done.returncode)
        # 5 is for a model that does not fit, however large a damaged number says it is.
        assert done.returncode in ((3,) if refused else (0, 5)), done.stderr
        assert (done.stdout == "") == (refused is not None)
        if refused:
            assert refused.title.split()[-1] in done.stderr
    assert codes.count(3) > 4
