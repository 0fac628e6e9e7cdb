"""A small server of the OpenAI protocol on a free port: ToyModel or a script answers, with faults that are real."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from models.toy import ToyModel

Body = dict[str, Any]
CHAT, RAW, MODELS = "/v1/chat/completions", "/v1/completions", "/v1/models"


@dataclass(frozen=True)
class Said:
    """One token of a scripted answer."""

    data: bytes
    logprob: float | None = -0.25
    others: tuple[tuple[bytes, float], ...] = ((b"~", -5.0), (b"^", -6.0))


@dataclass(frozen=True)
class Reply:
    """What is sent in place of an answer."""

    status: int
    body: bytes = b'{"error": {"message": "no"}}'
    headers: dict[str, str] = field(default_factory=dict)


Answer = Callable[[Body], Sequence[Said] | Reply]


@dataclass
class Plan:
    """What a server does."""

    answer: Answer
    models: Sequence[str] | Reply = ("toy",)
    facts: dict[str, int] = field(default_factory=dict)
    form: str = "given"
    """given, older, filler (what some write for drafted tokens), drafting (for all but the first), ignored, refused."""
    missing: tuple[str, ...] = ()
    """Paths that it does not have."""
    takes_suffix: bool = True
    repeats: bool = False
    """Whether an answer that goes on with a begun one has all of it."""
    timings: dict[str, int] = field(default_factory=dict)
    counts: bool = True
    """Whether it sends `usage`."""


@dataclass
class Served:
    """A running server."""

    url: str
    requests: list[tuple[str, Body, dict[str, str]]] = field(default_factory=list)
    """Path, body and headers of each request, in their order."""

    def bodies(self, path: str = CHAT) -> list[Body]:
        return [body for asked, body, _ in self.requests if asked == path]


def script(*pieces: str | bytes | Said) -> Answer:
    """Return an answer that is always the same."""
    said = [Said(p) if isinstance(p, bytes) else Said(p.encode()) if isinstance(p, str) else p for p in pieces]
    return lambda _: said


def asked_text(body: Body) -> str:
    """Return the text of a question in either form."""
    return body["messages"][-1]["content"] if "messages" in body else body["prompt"]


def toy(change: int | None = None, seed: int = 0) -> Answer:
    """Return greedy decoding of a ToyModel, which says its second choice at one place if it is to change a token."""

    def answer(body: Body) -> list[Said]:
        model = ToyModel(seed, context_size=512)
        vocab = model.vocab
        row = model.decode(vocab.tokenize(asked_text(body), special=False)[-60:] or [0], 1)[0]
        said: list[Said] = []
        while len(said) < body["max_tokens"]:
            logprobs = row - np.logaddexp.reduce(row)
            ranked = [int(token) for token in np.argsort(-row)[:5]]
            token = ranked[1 if len(said) == change else 0]
            if vocab.is_end(token):
                break
            others = tuple((vocab.piece(one), float(logprobs[one])) for one in ranked if one != token)
            said.append(Said(vocab.piece(token), float(logprobs[token]), others))
            row = model.decode([token], 1)[0]
        return said

    return answer


@contextmanager
def serve(plan: Plan) -> Iterator[Served]:
    """Run a server as long as the block lasts."""
    served = Served("")

    class Handler(_Handler):
        def reply(self, body: Body) -> Reply:
            served.requests.append((self.path, body, dict(self.headers)))
            return _reply(plan, self.path, body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    def reply(self, body: Body) -> Reply:
        raise NotImplementedError

    def do_GET(self) -> None:
        self._send(self.reply({}))

    def do_POST(self) -> None:
        self._send(self.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"])))))

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(reply.body)
        except (BrokenPipeError, ConnectionResetError):
            # The client has given up.
            return

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _reply(plan: Plan, path: str, body: Body) -> Reply:
    if path in plan.missing:
        return Reply(404, b"no such path")
    if path == MODELS:
        return (
            plan.models if isinstance(plan.models, Reply) else _json({"data": [_model(plan, n) for n in plan.models]})
        )
    if "suffix" in body and not plan.takes_suffix:
        return Reply(500, b'{"error": {"message": "unsupported: suffix"}}')
    if "logprobs" in body and plan.form == "refused":
        return Reply(400, b'{"error": {"message": "unsupported: logprobs"}}')
    said = plan.answer(body)
    return said if isinstance(said, Reply) else _json(_completion(plan, path, body, said))


def _model(plan: Plan, name: str) -> Body:
    return {"id": name, "object": "model", "meta": plan.facts} if plan.facts else {"id": name, "object": "model"}


def _json(value: object) -> Reply:
    return Reply(200, json.dumps(value).encode(), {"Content-Type": "application/json"})


def _completion(plan: Plan, path: str, body: Body, said: Sequence[Said]) -> Body:
    tokens = said[: body["max_tokens"]]
    text = b"".join(token.data for token in tokens).decode(errors="replace")
    choice: Body = {"index": 0, "finish_reason": "length" if len(tokens) == body["max_tokens"] else "stop"}
    choice |= (
        {"message": {"role": "assistant", "content": _begun(plan, body) + text}} if path == CHAT else {"text": text}
    )
    if "logprobs" in body and plan.form != "ignored":
        choice["logprobs"] = (
            _older(tokens) if plan.form == "older" else {"content": [_entry(plan, *t) for t in enumerate(tokens)]}
        )
    usage = {"usage": {"completion_tokens": len(tokens)}} if plan.counts else {}
    return {"choices": [choice], "timings": plan.timings, **usage}


def _begun(plan: Plan, body: Body) -> str:
    last = body["messages"][-1]
    return last["content"] if plan.repeats and last["role"] == "assistant" else ""


def _entry(plan: Plan, place: int, token: Said) -> Body:
    if plan.form == "filler" or (plan.form == "drafting" and place > 0):
        return {**_spelled(token.data), "logprob": 0.0, "top_logprobs": []}
    listed = sorted([(token.data, token.logprob), *token.others], key=lambda pair: -(pair[1] or 0.0))
    top = [{**_spelled(data), "logprob": logprob} for data, logprob in listed]
    return {**_spelled(token.data), "logprob": token.logprob, "top_logprobs": top}


def _spelled(data: bytes) -> Body:
    return {"token": data.decode(errors="replace"), "bytes": list(data)}


def _older(tokens: Sequence[Said]) -> Body:
    names = [token.data.decode(errors="replace") for token in tokens]
    tops = [
        {data.decode(errors="replace"): logprob for data, logprob in ((token.data, token.logprob), *token.others)}
        for token in tokens
    ]
    return {"tokens": names, "token_logprobs": [token.logprob for token in tokens], "top_logprobs": tops}
