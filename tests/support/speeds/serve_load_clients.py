"""Clients for `serve_load.py`: questions with one right answer, their askers, and the replies."""

import asyncio
import json
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx2

TOKENS = 48
_SHOWN = 20
"""Characters after which a client that leaves has seen enough."""
_LEAVES = 3
"""One request in so many is called off."""
_CODE = (
    "def fibonacci_{0}(n):\n    ",
    "class Stack{0}:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n        ",
)
_PROSE = (
    "{0} quick brown foxes jump over the lazy dog. {0} quick brown foxes ",
    "Once upon a time there were {0} small servers that ",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request at temperature 0, which has one right answer."""

    path: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Known:
    """The answer that a question got while no other client asked."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Heard:
    """One answer, or the beginning of one that was called off."""

    question: int
    text: str
    tokens: int | None
    """None where it was called off."""
    first: float
    """Seconds to the first text."""
    whole: float


@dataclass(slots=True)
class Tally:
    """What clients saw."""

    answers: list[Heard] = field(default_factory=list)
    called_off: list[Heard] = field(default_factory=list)
    busy: int = 0
    errors: list[str] = field(default_factory=list)
    differing: list[dict[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    """The time that a client asked for, on the average: one that is done waits for no other."""
    tokens: float = 0.0
    """Those of what was called off are counted by its share of the whole text."""

    def add(self, other: "Tally") -> None:
        """Add what was seen in another window."""
        for name in ("answers", "called_off", "errors", "differing"):
            getattr(self, name).extend(getattr(other, name))
        for name in ("busy", "seconds", "tokens"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens a second of all clients together."""
        return self.tokens / self.seconds if self.seconds else None

    def judge(self, known: dict[int, Known]) -> None:
        """Compare with what questions get alone, and count tokens; called once, on a window of its own."""
        for heard in (*self.answers, *self.called_off):
            if (right := known.get(heard.question)) is None:
                self.errors.append(f"question {heard.question} was answered, but not when it was asked alone")
                continue
            wanted = right.text if heard.tokens is not None else right.text[: len(heard.text)]
            if heard.text != wanted:
                self.differing.append({"question": str(heard.question), "wanted": wanted, "got": heard.text})
            share = len(heard.text) / len(right.text) if right.text else 0.0
            self.tokens += right.tokens * min(1.0, share) if heard.tokens is None else heard.tokens

    def figures(self) -> dict[str, Any]:
        """Return what was seen, with times as percentiles."""
        figures = asdict(self)
        answers, called_off = figures.pop("answers"), figures.pop("called_off")
        figures |= {"answers": len(answers), "called_off": len(called_off)}
        figures["first_seconds"] = _percentiles([heard.first for heard in (*self.answers, *self.called_off)])
        figures["whole_seconds"] = _percentiles([heard.whole for heard in self.answers])
        return {**figures, "tokens_per_second": self.tokens_per_second}


def questions(prompts: Path | None, count: int = 400) -> list[Asked]:
    """Return questions: those of a file of JSON lines ("turns", or "prefix" and "suffix"), or built-in ones.

    The built-in ones are much alike, so that much can be copied from one to the next: good to find mixed answers, and
    too favourable to drafting.
    """
    if prompts is not None:
        return [_of_line(json.loads(line)) for line in prompts.read_text().splitlines() if line.strip()]
    return [_built_in(number) for number in range(count)]


def headers(key: str) -> dict[str, str]:
    """Return what a server with a key wants to be sent."""
    return {"Authorization": f"Bearer {key}"} if key else {}


async def window(url: str, key: str, asks: Sequence[Asked], lists: Iterable[Iterable[int]], seconds: float) -> Tally:
    """Let each client ask the questions of its own list for so long; the last ones are heard to their end."""
    end = time.monotonic() + seconds
    seen = await asyncio.gather(*(_client(url, key, asks, numbers, end) for numbers in lists))
    tally = Tally()
    for one in seen:
        tally.add(one)
    tally.seconds /= len(seen)
    return tally


async def alone(url: str, key: str, asks: Sequence[Asked], number: int) -> Known | None:
    """Return what a question gets while no other client asks; None where this model can't be asked it."""
    async with _connected(url, key) as client:
        heard = await _ask(client, asks[number], number, leaves=False)
    return None if heard is None or heard.tokens is None else Known(heard.text, heard.tokens)


def turns(seed: int, clients: int, numbers: Sequence[int]) -> list[list[int]]:
    """Return an order of questions for each client: the same for the same seed and any server."""
    return [random.Random(f"{seed}/{client}").sample(numbers, len(numbers)) for client in range(clients)]


async def _client(url: str, key: str, asks: Sequence[Asked], numbers: Iterable[int], end: float) -> Tally:
    mine, started = Tally(), time.monotonic()
    async with _connected(url, key) as client:
        for place, number in enumerate(numbers):
            if time.monotonic() >= end:
                break
            try:
                heard = await _ask(client, asks[number], number, leaves=(number + place) % _LEAVES == 0)
            except (httpx2.HTTPError, RuntimeError, ValueError) as error:
                mine.errors.append(f"{type(error).__name__}: {error}")
                continue
            if heard is None:
                mine.busy += 1
            else:
                (mine.called_off if heard.tokens is None else mine.answers).append(heard)
    mine.seconds = time.monotonic() - started
    return mine


async def _ask(client: httpx2.AsyncClient, asked: Asked, number: int, *, leaves: bool) -> Heard | None:
    """Ask once; return what was heard, None where the server had no room."""
    started, text, tokens, first = time.monotonic(), "", 0, 0.0
    async with client.stream("POST", asked.path, json=asked.body) as response:
        if response.status_code == 503:
            return None
        if response.status_code != 200:
            raise RuntimeError(f"status {response.status_code}: {(await response.aread())[:200]!r}")
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line.removeprefix("data: "))
            text += _said(event)
            first = first or (time.monotonic() - started if text else 0.0)
            if leaves and len(text) > _SHOWN:
                return Heard(number, text, None, first, time.monotonic() - started)
            tokens = event["usage"]["completion_tokens"] if event.get("usage") else tokens
    whole = time.monotonic() - started
    return Heard(number, text, tokens, first or whole, whole)


def _connected(url: str, key: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=url, headers=headers(key), timeout=600, trust_env=False)


def _said(event: dict[str, Any]) -> str:
    if "error" in event:
        raise RuntimeError(str(event["error"])[:200])
    choices = event.get("choices") or [{}]
    return str(choices[0].get("text") or choices[0].get("delta", {}).get("content") or "")


def _of_line(line: dict[str, Any]) -> Asked:
    if "prefix" in line:
        return _completion(line["prefix"], line["suffix"])
    return _chat(line["turns"][0])


def _built_in(number: int) -> Asked:
    kind, variant = number % 5, number // 5
    if kind < 2:
        return _completion(_CODE[kind].format(variant), "")
    return _completion(_CODE[0].format(variant), "\n\n") if kind == 2 else _chat(_PROSE[kind - 3].format(variant))


def _completion(prompt: str, suffix: str) -> Asked:
    return Asked("/v1/completions", {"prompt": prompt, "suffix": suffix, **_shared()})


def _chat(prompt: str) -> Asked:
    return Asked("/v1/chat/completions", {"messages": [{"role": "user", "content": prompt}], **_shared()})


def _shared() -> dict[str, Any]:
    return {"temperature": 0, "max_tokens": TOKENS, "stream": True, "stream_options": {"include_usage": True}}


def _percentiles(times: Sequence[float]) -> dict[str, float | None]:
    ordered = sorted(times)
    return {
        f"p{share}": ordered[min(len(ordered) - 1, len(ordered) * share // 100)] if ordered else None
        for share in (50, 95, 99)
    }
