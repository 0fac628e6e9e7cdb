"""A process that may use only so much memory (`ulimit -v`): what it has left is seen, and a refusal says so."""

import json
import subprocess
import sys

import pytest

from models.library.catalog import find_model
from models.system.machine import available_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps to a limit of addresses")

MIB = 1 << 20
LIMITED = """
import json, resource, sys
from pathlib import Path
import psutil
import models.llama.load
from models.llama.bindings import llama_cpp
from models.errors import LocalspecError
from models.llama.model import LlamaModel
from models.llama.load import LlamaOptions
from models.system.machine import available_memory

llama_cpp()
limit = psutil.Process().memory_info().vms + (91 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
told = {"free": available_memory()}
if sys.argv[2] == "unseen":
    models.llama.load.available_memory = lambda: 1 << 40
try:
    if sys.argv[1]:
        LlamaModel(Path(sys.argv[1]), LlamaOptions(threads=1, context_size=256)).close()
except LocalspecError as error:
    told |= {"title": error.title, "cause": error.cause, "hint": error.hint, "exit_code": error.exit_code}
print(json.dumps(told))
"""


def limited(path: str = "", how: str = "") -> dict:
    """Return what a process is told that may ask for 91 MiB more than it has, and then loads a model."""
    command = [sys.executable, "-c", LIMITED, path, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def test_what_a_limit_leaves_is_all_that_is_free() -> None:
    assert available_memory() > 100 * MIB
    assert 80 * MIB < limited()["free"] <= 91 * MIB


@pytest.mark.starter
@pytest.mark.parametrize("how", ["", "unseen"], ids=["seen beforehand", "met while allocating"])
def test_weights_beyond_a_limit_do_not_fit_in_memory(how: str) -> None:
    told = limited(str(find_model("starter")), how)
    assert told["exit_code"] == 5
    assert "does not fit in memory" in told["title"]
    assert "Its weights need 0.1 GiB; " in told["cause"]
    assert ("failed to allocate" in told["cause"]) == (how == "unseen")
    assert "smaller model" in told["hint"]
