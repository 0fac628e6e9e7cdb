"""The layers at run time: what a layer must not need is not imported by importing it."""

import subprocess
import sys

import pytest
from run_localspec import ROOT

FORBIDDEN = {
    "models.sampling.sampler": ["llama_cpp", "drafters", "app", "click"],
    "models.toy": ["llama_cpp", "drafters", "app", "click"],
    "drafters.prompt_lookup": ["llama_cpp", "app", "click"],
    "drafters.draft_model": ["llama_cpp", "app", "click"],
    "app.engine.decoding.speculate": ["llama_cpp", "click", "textual", "huggingface_hub"],
    "app.engine.runtime.thread": ["llama_cpp", "click", "textual", "huggingface_hub"],
}


@pytest.mark.parametrize("module", FORBIDDEN)
def test_importing_a_layer_loads_nothing_above_it(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {FORBIDDEN[module]!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
