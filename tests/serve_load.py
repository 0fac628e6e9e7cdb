"""Load on a running server: N clients for S seconds, each answer compared with the one that its question got alone.

    localspec serve MODEL & python tests/serve_load.py http://127.0.0.1:8080 --clients 1,2,4,8 --seconds 300 > load.json

At temperature 0 an answer that differs from the one given alone was mixed with another's, or forked at a near-tie:
`--strict` on the server rules the second out. Every third request is called off half-way. Exit code 1 for an answer
that differs, or an error.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx2

_PROMPTS = (
    "def fibonacci(n):\n    ",
    "The quick brown fox jumps over the lazy dog. The quick brown fox ",
    "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n        ",
    "Once upon a time there was a small server that ",
)
_TOKENS = 48


@dataclass(slots=True)
class Tally:
    """What one number of clients saw."""

    clients: int
    seconds: float = 0.0
    answers: int = 0
    tokens: int = 0
    cancelled: int = 0
    busy: int = 0
    errors: list[str] = field(default_factory=list)
    differing: list[dict[str, str]] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """Return what was seen, with times as percentiles."""
        figures = asdict(self)
        for name in ("first", "whole"):
            times = figures.pop(name)
            figures[f"{name}_seconds"] = {f"p{share}": _percentile(times, share) for share in (50, 95, 99)}
        return {**figures, "tokens_per_second": self.tokens / self.seconds if self.seconds else None}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, and the only right answer to it."""

    path: str
    body: dict[str, Any]


def questions() -> list[Asked]:
    """Return chats, completions and holes, all with one right answer."""
    shared = {"temperature": 0, "max_tokens": _TOKENS, "stream": True, "stream_options": {"include_usage": True}}
    found = [Asked("/v1/completions", {"prompt": prompt, **shared}) for prompt in _PROMPTS]
    found += [Asked("/v1/completions", {"prompt": prompt, "suffix": "\n\n", **shared}) for prompt in _PROMPTS[:2]]
    turns = [[{"role": "user", "content": prompt}] for prompt in _PROMPTS]
    return found + [Asked("/v1/chat/completions", {"messages": turn, **shared}) for turn in turns]


async def ask(client: httpx2.AsyncClient, asked: Asked, tally: Tally, leaves: bool) -> str | None:
    """Ask once; return the text, None for an answer that was called off or refused."""
    started, text = time.monotonic(), ""
    async with client.stream("POST", asked.path, json=asked.body) as response:
        if response.status_code == 503:
            tally.busy += 1
            return None
        if response.status_code != 200:
            raise RuntimeError(f"status {response.status_code}: {(await response.aread())[:200]!r}")
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line.removeprefix("data: "))
            text += _said(event)
            if text and leaves and len(text) > 20:
                tally.cancelled += 1
                return None
            if event.get("usage"):
                tally.tokens += event["usage"]["completion_tokens"]
            elif text and len(tally.first) == len(tally.whole):
                tally.first.append(time.monotonic() - started)
    tally.whole.append(time.monotonic() - started)
    tally.answers += 1
    return text


async def client_loop(url: str, key: str, known: dict[int, str], tally: Tally, end: float, seed: int) -> None:
    """Ask one question after the other until the time is over, as one client with times of its own."""
    chance, mine = random.Random(seed), Tally(1)
    asks = questions()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=600) as client:
        while time.monotonic() < end:
            place = chance.randrange(len(known))
            number = sorted(known)[place]
            try:
                text = await ask(client, asks[number], mine, leaves=chance.randrange(3) == 0)
            except (httpx2.HTTPError, RuntimeError, ValueError) as error:
                mine.errors.append(f"{type(error).__name__}: {error}")
                continue
            if text is not None and text != known[number]:
                mine.differing.append({"question": str(number), "wanted": known[number], "got": text})
            mine.first = mine.first[: len(mine.whole)]
    _add(tally, mine)


async def alone(url: str, key: str) -> dict[int, str]:
    """Return the answers that questions get when nobody else asks; those that the model can't be asked are left out."""
    known: dict[int, str] = {}
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=600) as client:
        for number, asked in enumerate(questions()):
            try:
                text = await ask(client, asked, Tally(1), leaves=False)
            except RuntimeError as error:
                print(f"question {number} is left out: {error}", file=sys.stderr)
                continue
            if text is not None:
                known[number] = text
    return known


async def run(url: str, key: str, clients: int, seconds: float, known: dict[int, str]) -> Tally:
    """Let so many clients ask for so long."""
    tally, started = Tally(clients), time.monotonic()
    loops = [client_loop(url, key, known, tally, started + seconds, seed) for seed in range(clients)]
    await asyncio.gather(*loops)
    tally.seconds = time.monotonic() - started
    return tally


async def main(options: argparse.Namespace) -> int:
    """Run every number of clients, and print what was seen."""
    known = await alone(options.url, options.api_key)
    tallies = []
    for clients in options.clients:
        tallies.append(await run(options.url, options.api_key, clients, options.seconds, known))
        print(f"{clients} clients: {tallies[-1].answers} answers", file=sys.stderr)
    print(json.dumps({"url": options.url, "runs": [tally.figures() for tally in tallies]}, indent=1))
    return int(not known or any(tally.errors or tally.differing for tally in tallies))


def _said(event: dict[str, Any]) -> str:
    if "error" in event:
        raise RuntimeError(str(event["error"])[:200])
    choices = event.get("choices") or [{}]
    return str(choices[0].get("text") or choices[0].get("delta", {}).get("content") or "")


def _add(tally: Tally, mine: Tally) -> None:
    for name in ("answers", "tokens", "cancelled", "busy"):
        setattr(tally, name, getattr(tally, name) + getattr(mine, name))
    for name in ("errors", "differing", "first", "whole"):
        getattr(tally, name).extend(getattr(mine, name))


def _percentile(times: Sequence[float], share: int) -> float | None:
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, len(ordered) * share // 100)] if ordered else None


def _counts(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--clients", type=_counts, default=[1, 2, 4, 8])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--api-key", default="")
    sys.exit(asyncio.run(main(parser.parse_args())))
