"""Load on running servers: N clients at once, every answer compared with the one that its question got alone.

    localspec serve MODEL --port 8080 & localspec serve MODEL --draft off --port 8081 &
    python tests/support/run.py serve_load http://127.0.0.1:8080 --against http://127.0.0.1:8081 --minutes 5 > load.json

With --against, short windows go in turns to both (ABBA), with the same questions in the same order for both windows of
a pair, until the windows of a number of clients make --minutes; the other server is idle meanwhile. Reported are the
ratio of tokens a second of each pair, their median, their geometric mean with its bootstrap interval, and the times of
whole answers and first texts of both. What was said before can be copied: so a pair asks questions that none before it
asked, as long as there are any (`fresh` tells), and the right answers are asked of the other server, after the pair.

Without --against there is one window of --minutes for each number of clients; the right answers are asked before.

At temperature 0 an answer that differs was mixed with another's, or forked at a near-tie: `--strict` rules the second
out, and lets no passes be shared, so that both servers want it or neither. One request in three is called off after a
few words. Exit code 1 for an answer that differs, or an error.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
from serve_load_clients import Asked, Known, Tally, alone, headers, questions, turns, window

from app.bench.measuring.arithmetic import geometric_mean, interval

_LOADING = 300
"""Seconds that a server has to load its model."""


@dataclass(slots=True)
class Load:
    """Servers, questions, and what is known of them."""

    options: argparse.Namespace
    asks: Sequence[Asked]
    known: dict[int, Known] = field(default_factory=dict)
    usable: list[int] = field(default_factory=list)
    """Questions that were not asked yet, and those that were, behind them."""

    async def learn(self, url: str, numbers: Sequence[int]) -> None:
        """Ask for the right answers that are not known yet; a question that can't be asked is used no more."""
        for number in numbers:
            if number in self.known:
                continue
            try:
                right = await alone(url, self.options.api_key, self.asks, number)
            except RuntimeError as error:
                print(f"question {number} is left out: {error}", file=sys.stderr)
                right = None
            if right is None:
                self.usable.remove(number)
            else:
                self.known[number] = right

    async def single(self, clients: int) -> dict[str, Any]:
        """Load one server."""
        seconds, url = self.options.minutes * 60, self.options.url
        tally = await self._window(url, [[*one] * 1000 for one in turns(0, clients, [*self.known])], seconds)
        tally.judge(self.known)
        return {"clients": clients, **tally.figures()}

    async def pairs(self, clients: int) -> dict[str, Any]:
        """Load both servers in turns."""
        ours, other = self.options.url, self.options.against
        both, found = {ours: Tally(), other: Tally()}, list[dict[str, Any]]()
        while not found or sum(tally.seconds for tally in both.values()) < self.options.minutes * 60:
            found.append(await self._pair([other, ours] if len(found) % 2 == 0 else [ours, other], clients, both))
            print(f"{clients} clients, pair {len(found)}: {found[-1]['ratio']}", file=sys.stderr)
        ratios = [pair["ratio"] for pair in found if pair["ratio"]]
        return {
            "clients": clients,
            "ratio": {
                "median": median(ratios) if ratios else None,
                "geometric_mean": geometric_mean(ratios),
                "interval_95": interval([ratios]) if ratios else None,
                "pairs": len(ratios),
            },
            "url": both[ours].figures(),
            "against": both[other].figures(),
            "pairs": found,
        }

    async def _pair(self, order: Sequence[str], clients: int, both: dict[str, Tally]) -> dict[str, Any]:
        numbers = self._next(clients)
        fresh = not any(number in self.known for number in numbers)
        lists = [numbers[client::clients] for client in range(clients)]
        seen = {url: await self._window(url, lists, self.options.window) for url in order}
        asked = {heard.question for tally in seen.values() for heard in (*tally.answers, *tally.called_off)}
        await self.learn(self.options.against, sorted(asked))
        self._used(asked)
        for url, tally in seen.items():
            tally.judge(self.known)
            both[url].add(tally)
        mine, others = (seen[url].tokens_per_second for url in (self.options.url, self.options.against))
        ratio = mine / others if mine and others else None
        return {"ratio": ratio, "url": mine, "against": others, "first": _name(order[0], self.options), "fresh": fresh}

    def _next(self, clients: int) -> list[int]:
        """Return the questions of a pair: as many as there can be without asking one for the second time."""
        new = [number for number in self.usable if number not in self.known]
        return new if len(new) >= clients * self.options.least else self.usable

    def _used(self, asked: set[int]) -> None:
        self.usable = [n for n in self.usable if n not in asked] + [n for n in self.usable if n in asked]

    async def _window(self, url: str, lists: Sequence[Sequence[int]], seconds: float) -> Tally:
        return await window(url, self.options.api_key, self.asks, lists, seconds)


async def main(options: argparse.Namespace) -> int:
    """Run every number of clients, and print what was seen."""
    for url in filter(None, (options.url, options.against)):
        _wait_for(url, options)
    asks = questions(options.prompts)
    load = Load(options, asks, usable=turns(0, 1, range(len(asks)))[0])
    runs = []
    if options.against:
        fills = httpx2.get(f"{options.url}/props", headers=headers(options.api_key), timeout=60).json()["infill"]
        load.usable = [number for number in load.usable if fills or not asks[number].body.get("suffix")]
    else:
        load.usable = load.usable[: options.questions]
        await load.learn(options.url, [*load.usable])
    for clients in options.clients:
        runs.append(await (load.pairs(clients) if options.against else load.single(clients)))
        print(f"{clients} clients are done", file=sys.stderr)
    told = {"url": options.url, "against": options.against, "prompts": str(options.prompts or "built-in")}
    print(json.dumps({**told, "runs": runs}, indent=1))
    seen = [run[name] for run in runs for name in ("url", "against")] if options.against else runs
    return int(not load.known or any(one["errors"] or one["differing"] for one in seen))


def _wait_for(url: str, options: argparse.Namespace) -> None:
    """Wait until a server has loaded its model; exit where there is none."""
    for left in range(_LOADING, 0, -1):
        try:
            said = httpx2.get(f"{url}/health", headers=headers(options.api_key), timeout=60)
        except httpx2.ConnectError:
            said = None
        if said is not None and said.status_code == httpx2.codes.OK:
            return
        print(f"{url} is not ready, {left} s left", file=sys.stderr)
        time.sleep(1)
    sys.exit(f"{url} is not ready after {_LOADING} s.")


def _name(url: str, options: argparse.Namespace) -> str:
    return "url" if url == options.url else "against"


def _counts(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _read() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--against", help="another server with the same model, plain for example")
    parser.add_argument("--clients", type=_counts, default=[1, 2, 4, 8])
    parser.add_argument("--minutes", type=float, default=5, help="of load for each number of clients")
    parser.add_argument("--window", type=float, default=10, help="seconds of one window of a pair")
    parser.add_argument("--prompts", type=Path, help="JSON lines with turns, or prefix and suffix")
    parser.add_argument("--questions", type=int, default=20, help="how many are asked without --against")
    parser.add_argument("--least", type=int, default=4, help="fresh questions that a client needs for a window")
    parser.add_argument("--api-key", default="")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(_read())))
