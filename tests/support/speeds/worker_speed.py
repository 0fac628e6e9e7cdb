"""Tokens a second over workers on this machine, plain and drafted, by the delay of the connection:
python tests/support/run.py worker_speed MODEL DRAFT [TOKENS]

The rows are one process without workers, then one and two workers at 0, 1 and 5 ms of added round trip. Plain decoding
and drafting by DRAFT answer the same prompt; their texts have to be equal.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from run_localspec import ROOT
from workers import WorkerProcess, free_port

_PROMPTS = (
    "Write this function again with total renamed to amount, and nothing else:\n\ndef add(items):\n    total = 0\n"
    "    for item in items:\n        if item is not None:\n            total += item.price * item.count\n"
    "    return total\n",
)
"""Answers copy most of the prompt, as edits of code do: a suffix index drafts them well."""


def main(model: str, draft: str, tokens: str = "96") -> None:
    """Print one line for each row."""
    home = Path(tempfile.mkdtemp(prefix="worker-speed-"))
    expected = _measure("one process", [], model, draft, tokens)
    for count in (1, 2):
        held = [WorkerProcess(home) for _ in range(count)]
        for delay in (0.0, 1.0, 5.0):
            ports, proxies = _behind([worker.port for worker in held], delay)
            flags = ["--rpc", ",".join(f"127.0.0.1:{port}" for port in ports)]
            texts = _measure(f"{count} worker(s), {delay:g} ms", flags, model, draft, tokens)
            print("   same text as one process:", texts == expected, flush=True)
            for proxy in proxies:
                proxy.kill()
                proxy.wait()
        for worker in held:
            worker.end()


def _behind(ports: Sequence[int], delay: float) -> tuple[list[int], list["subprocess.Popen[bytes]"]]:
    """Return ports that lead to these with a delay; the ports themselves for none."""
    if not delay:
        return list(ports), []
    fronts = [free_port() for _ in ports]
    tool = [sys.executable, str(ROOT / "tests" / "support" / "run.py"), "delay_proxy"]
    proxies = [
        subprocess.Popen([*tool, str(front), str(port), str(delay)]) for front, port in zip(fronts, ports, strict=True)
    ]
    time.sleep(1)
    return fronts, proxies


def _measure(label: str, flags: Sequence[str], model: str, draft: str, tokens: str) -> list[str]:
    figures, texts = {}, {}
    for name, drafter in (("plain", "off"), ("drafted", draft)):
        ends = [_answer(prompt, model, ["--draft", drafter, *flags, "-n", tokens]) for prompt in _PROMPTS]
        figures[name] = sum(end["tokens"] for end in ends) / sum(end["seconds"] for end in ends)
        texts[name] = [end["text"] for end in ends]
    ratio = figures["drafted"] / figures["plain"]
    same = texts["plain"] == texts["drafted"]
    print(f"{label:22} plain {figures['plain']:6.2f}  drafted {figures['drafted']:6.2f}  {ratio:.2f}x  same {same}")
    return texts["plain"]


def _answer(prompt: str, model: str, flags: Sequence[str]) -> dict[str, float | str]:
    command = [sys.executable, "-m", "app", "run", model, prompt, "--temp", "0", "-c", "2048", "--json", *flags]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode:
        sys.exit(done.stderr or str(lines[-1]))
    return _figures(lines[-1])


def _figures(end: dict[str, object]) -> dict[str, float | str]:
    timings, usage = end["timings"], end["usage"]
    assert isinstance(timings, dict)
    assert isinstance(usage, dict)
    count = usage["completion_tokens"]
    return {"tokens": count, "seconds": count / timings["tokens_per_second"], "text": str(end["text"])}


if __name__ == "__main__":
    main(*sys.argv[1:])
