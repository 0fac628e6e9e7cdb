"""Counters and histograms for Prometheus, by class of request and size of prompt."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from app.engine.decoding.ending import Finish
from app.engine.decoding.stats import Snapshot
from app.serve.requests.engine_request import Outcome, RequestKind

_PROMPTS = (256, 1024, 4096)
"""Lower bounds of the classes of prompt sizes, in tokens."""
_SECONDS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2.5, 5, 10, 20, 40, 80, 160)
_RATES = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024)
_DEEPEST = 63
"""The last draft position with its own counter: labels must not grow without bounds."""
_LABELS = ("kind", "prompt")


class Metrics:
    """The figures of /metrics, in a registry of their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        drafts = "localspec:spec_decode_num"
        self._drafts = self._counter(f"{drafts}_drafts", "Rounds that drafted.", *_LABELS)
        self._drafted = self._counter(f"{drafts}_draft_tokens", "Draft tokens that were verified.", *_LABELS)
        self._accepted = self._counter(f"{drafts}_accepted_tokens", "Draft tokens that became text.", *_LABELS)
        self._drafted_at = self._counter(
            f"{drafts}_draft_tokens_per_pos", "Drafts that reached a position, from 0.", *_LABELS, "position"
        )
        self._accepted_at = self._counter(
            f"{drafts}_accepted_tokens_per_pos", "Drafts whose token at a position was accepted.", *_LABELS, "position"
        )
        self._prompt = self._counter("localspec:prompt_tokens", "Tokens of prompts, cached ones included.", "kind")
        self._cached = self._counter("localspec:prompt_tokens_cached", "Tokens of prompts from the cache.", "kind")
        self._emitted = self._counter("localspec:generation_tokens", "Tokens of answers.", "kind")
        self._ended = self._counter("localspec:requests", "Answers, by how they ended.", "kind", "finish")
        self._cancelled = self._counter("localspec:requests_cancelled", "Requests whose client disconnected.", "kind")
        self._refused = self._counter("localspec:requests_refused", "Requests that were refused.", "status")
        self._waiting = self._gauge("localspec:requests_waiting", "Requests that are waiting.")
        self._running = self._gauge("localspec:requests_running", "Requests that are being answered.")
        self._first = self._histogram(
            "localspec:time_to_first_token_seconds", "Time from the request to the first token.", _SECONDS
        )
        self._whole = self._histogram(
            "localspec:request_seconds", "Time from the request to the end of the answer.", _SECONDS
        )
        self._rate = self._histogram("localspec:tokens_per_second", "Tokens per second after the first round.", _RATES)

    @contextmanager
    def meter(self, kind: RequestKind) -> Iterator["Meter"]:
        """Count a request while it waits and runs."""
        meter = Meter(self, kind)
        self._waiting.inc()
        try:
            yield meter
        finally:
            (self._running if meter.has_begun else self._waiting).dec()

    def begun(self) -> None:
        """Count a request that has stopped waiting."""
        self._waiting.dec()
        self._running.inc()

    def ended(self, kind: RequestKind, outcome: Outcome, first: float | None, whole: float) -> None:
        """Count a finished answer; `first` and `whole` are its times in seconds."""
        self._ended.labels(kind, outcome.finish).inc()
        self.counted(kind, outcome.stats)
        labels = (kind, prompt_class(outcome.stats.prompt_tokens))
        self._whole.labels(*labels).observe(whole)
        if first is not None:
            self._first.labels(*labels).observe(first)
        if (rate := outcome.stats.tokens_per_second) is not None:
            self._rate.labels(*labels).observe(rate)

    def cancelled(self, kind: RequestKind, stats: Snapshot, *, warms: bool) -> None:
        """Count a cancelled answer and its tokens; a request that only warms the cache counts as tokens alone."""
        if not warms:
            self._ended.labels(kind, Finish.CANCELLED).inc()
            self._cancelled.labels(kind).inc()
        self.counted(kind, stats)

    def refused(self, status: int) -> None:
        """Count a request that was not answered."""
        self._refused.labels(status).inc()

    def counted(self, kind: RequestKind, stats: Snapshot) -> None:
        """Add the tokens of an answer."""
        self._prompt.labels(kind).inc(stats.prompt_tokens)
        self._cached.labels(kind).inc(stats.reused_tokens)
        self._emitted.labels(kind).inc(stats.emitted)
        labels = (kind, prompt_class(stats.prompt_tokens))
        self._drafts.labels(*labels).inc(stats.drafts)
        self._drafted.labels(*labels).inc(stats.drafted)
        self._accepted.labels(*labels).inc(stats.accepted)
        for counter, counts in ((self._drafted_at, stats.drafted_at), (self._accepted_at, stats.accepted_at)):
            for position, count in enumerate(counts):
                counter.labels(*labels, min(position, _DEEPEST)).inc(count)

    def text(self) -> bytes:
        """Return all figures in Prometheus's text format."""
        return generate_latest(self._registry)

    def _counter(self, name: str, help_: str, *labels: str) -> Counter:
        return Counter(name, help_, labels, registry=self._registry)

    def _gauge(self, name: str, help_: str) -> Gauge:
        return Gauge(name, help_, registry=self._registry)

    def _histogram(self, name: str, help_: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, help_, _LABELS, buckets=buckets, registry=self._registry)


class Meter:
    """The times of one request."""

    def __init__(self, metrics: Metrics, kind: RequestKind) -> None:
        self._metrics = metrics
        self._kind = kind
        self._started = time.perf_counter()
        self.has_begun = False
        """Whether the request has stopped waiting."""
        self._first: float | None = None

    def count(self, *, token: bool) -> None:
        """Note the engine's first message for the request: a token, or reading progress."""
        if not self.has_begun:
            self.has_begun = True
            self._metrics.begun()
        if token and self._first is None:
            self._first = time.perf_counter()

    def ended(self, outcome: Outcome, *, warms: bool) -> None:
        """Count the request as answered. Requests that only warm the cache add no times: no client waits for them."""
        if warms:
            self._metrics.counted(self._kind, outcome.stats)
            return
        first = None if self._first is None else self._first - self._started
        self._metrics.ended(self._kind, outcome, first, time.perf_counter() - self._started)


def prompt_class(tokens: int) -> str:
    """Return the size class of a prompt."""
    edges = (0, *_PROMPTS)
    low = max(edge for edge in edges if edge <= tokens)
    higher = [edge for edge in _PROMPTS if edge > low]
    return f"{low}-{higher[0] - 1}" if higher else f"{low}+"
