"""The real target with the starter, which drafts text for it: equal text at every temperature, accepted drafts.

Run with LOCALSPEC_PAIR=FOLDER and -m pair -s; takes about five minutes on two cores.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from run_localspec import ROOT, environment

FOLDER = Path(os.environ.get("LOCALSPEC_PAIR", "/nonexistent"))
TARGET = FOLDER / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
CHECKED = ("--class", "chat,code,qa", "--limit", "1", "--temp", "0,0.7,1.3", "-n", "64", "--vs", "auto,text:4")

pytestmark = [
    pytest.mark.pair,
    pytest.mark.starter,
    pytest.mark.skipif(not TARGET.exists(), reason="LOCALSPEC_PAIR names no folder with the models"),
]


def test_the_starter_drafts_text_and_changes_none(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "app", "verify", str(TARGET), *CHECKED, "--json"]
    done = subprocess.run(command, cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(found["verdict"])
    assert (found["outcome"], found["forks"]) == ("exact", [])
    text = [result for result in found["results"] if result["arm"].startswith("text")]
    accepted, drafted = (sum(result[name] for result in text) for name in ("accepted", "drafted"))
    print(f"{accepted} of {drafted} draft tokens accepted")
    assert accepted > 0.25 * drafted > 0
