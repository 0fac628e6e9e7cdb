"""Run a tool for developers by its name: `python tests/support/run.py decision_log --time`.

The tools are in tests/support/tools, those that measure speeds in tests/support/speeds. They import what tests import,
from folders that this puts on the path.
"""

import os
import runpy
import sys
from pathlib import Path

_SUPPORT = Path(__file__).resolve().parent
_ROOT = _SUPPORT.parents[1]


def main() -> None:
    """Run the tool that the first argument names with the other arguments."""
    tools = {path.stem: path for room in ("tools", "speeds") for path in (_SUPPORT / room).glob("*.py")}
    if len(sys.argv) < 2 or sys.argv[1] not in tools:
        sys.exit(f"usage: python tests/support/run.py TOOL [ARGUMENT ...]\ntools: {', '.join(sorted(tools))}")
    rooms = [_ROOT, *sorted(path for path in _SUPPORT.iterdir() if path.is_dir())]
    sys.path[:0] = map(str, rooms)
    # Tools start themselves again as child processes.
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, rooms), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    del sys.argv[0]
    sys.argv[0] = str(tools[sys.argv[0]])
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
