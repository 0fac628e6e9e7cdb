"""A client of the OpenAI protocol that requests greedy answers and explains every failure.

Requests stay where the user sends them: the client follows no redirect, and uses no proxy or password from the
environment. Replies are read up to a maximum size and time, which keeps a faulty server from doing harm.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx2

from app.serve.client.address import Address
from app.serve.client.openai_reply import read_answer, read_models
from app.serve.client.served_answers import ServedAnswer, ServedModel
from models.errors import LocalspecError, UsageError

_LARGEST = 32 << 20
"""Maximum bytes of a reply."""
_EXCERPT = 300
_LISTED = 5
"""Number of likely tokens requested per position: the largest that every server accepts."""
_FORBIDDEN = (401, 403)
_BUSY = (429, 503)


class RefusedError(LocalspecError):
    """An error status of a server. Another form of the request may still succeed."""

    def __init__(self, title: str, *, status: int, cause: str, hint: str) -> None:
        super().__init__(title, cause=cause, hint=hint)
        self.status = status


@dataclass(frozen=True, slots=True)
class Question:
    """A question: the messages of a chat, or a text to continue."""

    messages: tuple[tuple[str, str], ...] = ()
    """Pairs of role and text; empty for a text to continue."""
    prompt: str = ""
    suffix: str = ""
    """The text after the gap to fill; "": no gap."""

    @property
    def begun(self) -> str:
        """The beginning of the answer, to be continued; "": a new answer."""
        role, text = self.messages[-1] if self.messages else ("", "")
        return text if role == "assistant" else ""


class OpenAIClient:
    """A connection to one server. Close it, or use it as a context manager."""

    def __init__(
        self, address: Address, *, timeout: float, api_key: str = "", clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """Take where the server is, the seconds that an answer may take, and a key that is sent and never shown.

        Raises UsageError for a key or an address that can't be sent.
        """
        # A header that can't carry the key would show the key in the library's error.
        if not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
            raise UsageError("--api-key has characters no key may have.", hint="Give the key alone, without quotes.")
        self.address = address
        self.model = address.model
        """Sent with each question; "": the server chooses."""
        self.gives_logprobs: bool | None = None
        """Whether the server accepts requests for log probabilities; None: not tried yet."""
        self._key = api_key
        self._timeout = timeout
        self._clock = clock
        headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {})
        try:
            httpx2.URL(address.base)
        except httpx2.InvalidURL as error:
            raise UsageError(f"{address.base} is not the URL of a server.", cause=str(error)) from error
        self._http = httpx2.Client(headers=headers, timeout=timeout, follow_redirects=False, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def models(self) -> tuple[ServedModel, ...]:
        """Return the models that the server names; none where it has no such list. Raises LocalspecError."""
        try:
            return read_models(self._request("GET", "models", None))
        except RefusedError:
            return ()

    def ask(self, question: Question, *, max_tokens: int, seed: int) -> ServedAnswer:
        """Return the greedy answer, with log probabilities where the server gives them.

        Raises RefusedError for an error status, LocalspecError for a server that fails.
        """
        body = self._body(question, max_tokens, seed)
        if self.gives_logprobs is False:
            return self._answer(question, body)
        try:
            answer = self._answer(question, body | _asking_logprobs(question))
        except RefusedError as refused:
            if self.gives_logprobs:
                raise
            return self._answer_without(question, body, refused)
        self.gives_logprobs = True
        return answer

    def _answer_without(self, question: Question, body: dict[str, Any], refused: RefusedError) -> ServedAnswer:
        try:
            answer = self._answer(question, body)
        except RefusedError:
            # The retry fails too, so the log probabilities were not the reason: report the first error.
            raise refused from None
        self.gives_logprobs = False
        return answer

    def _body(self, question: Question, max_tokens: int, seed: int) -> dict[str, Any]:
        body: dict[str, Any] = {"temperature": 0, "seed": seed, "max_tokens": max_tokens, "stream": False}
        if self.model:
            body["model"] = self.model
        if question.messages:
            return body | {"messages": [{"role": role, "content": text} for role, text in question.messages]}
        return body | {"prompt": question.prompt} | ({"suffix": question.suffix} if question.suffix else {})

    def _answer(self, question: Question, body: dict[str, Any]) -> ServedAnswer:
        path = "chat/completions" if question.messages else "completions"
        started = self._clock()
        reply = self._request("POST", path, body)
        answer = read_answer(reply, self._clock() - started, question.begun)
        if answer is None:
            raise self._failed(path, "sent no answer", f"It sent: {self._excerpt(json.dumps(reply))}", _OTHER_SERVER)
        return answer

    def _request(self, method: str, path: str, body: dict[str, Any] | None) -> object:
        with self._explained(path):
            deadline = self._clock() + self._timeout
            with self._http.stream(method, f"{self.address.base}/{path}", json=body) as response:
                sent = self._read(response, path, deadline)
                status, target = response.status_code, response.headers.get("location", "")
        if status >= 300:
            raise self._refusal(path, status, sent, target)
        try:
            return json.loads(sent)
        except (ValueError, RecursionError) as error:
            raise self._failed(
                path, "sent something that is not JSON", f"It sent: {self._excerpt(_text(sent))}", _OTHER_SERVER
            ) from error

    def _read(self, response: httpx2.Response, path: str, deadline: float) -> bytes:
        """Return the body. The library's timeouts hold for each piece, this deadline for the whole body."""
        sent = bytearray()
        for piece in response.iter_bytes():
            sent += piece
            if len(sent) > _LARGEST:
                raise self._failed(path, f"sent more than {_LARGEST >> 20} MiB", "", _OTHER_SERVER)
            if self._clock() > deadline:
                raise httpx2.ReadTimeout("the reply was not complete in time")
        return bytes(sent)

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        try:
            yield
        except httpx2.ConnectError as error:
            hint = "Start the server, or check host and port."
            raise self._failed(path, "can't be reached", self._shown(str(error)), hint) from error
        except httpx2.TimeoutException as error:
            hint = "Give it more time (--timeout), or ask for less (-n)."
            raise self._failed(path, f"did not answer within {self._timeout:g} s", "", hint) from error
        except httpx2.HTTPError as error:
            hint = "See the server's own log; it may have crashed."
            raise self._failed(path, "closed the connection", self._shown(str(error)), hint) from error

    def _refusal(self, path: str, status: int, sent: bytes, target: str) -> LocalspecError:
        cause = f"It sent: {self._excerpt(_text(sent))}"
        if status < 400:
            cause = f"It points to {self._excerpt(target)}"
            return self._failed(path, f"redirects (HTTP {status})", cause, "If you trust that server, give its URL.")
        if status in _FORBIDDEN:
            return self._failed(path, f"refuses access (HTTP {status})", cause, "Give its key with --api-key.")
        if status in _BUSY:
            hint = "It is busy, or still loading its model: try again."
            return self._failed(path, f"is overloaded (HTTP {status})", cause, hint)
        hint = "See the server's own log, and whether it serves the OpenAI protocol under this path."
        return RefusedError(self._title(path, f"answered HTTP {status}"), status=status, cause=cause, hint=hint)

    def _failed(self, path: str, what: str, cause: str, hint: str) -> LocalspecError:
        return LocalspecError(self._title(path, what), cause=cause, hint=hint)

    def _title(self, path: str, what: str) -> str:
        return f"{self.address.base}/{path} {what}."

    def _excerpt(self, text: str) -> str:
        shown = self._shown(" ".join(text.split()))
        return f"{shown[:_EXCERPT]} ..." if len(shown) > _EXCERPT else shown or "nothing"

    def _shown(self, text: str) -> str:
        """Return a text that may be printed: without the key, which servers repeat, and without control sequences."""
        hidden = text.replace(self._key, "***") if self._key else text
        return "".join(c if c.isprintable() else "?" for c in hidden)


_OTHER_SERVER = "Is it an OpenAI-compatible server? Give the URL that ends before /chat/completions."


def _asking_logprobs(question: Question) -> dict[str, Any]:
    """Return the fields that ask for log probabilities; the older endpoint wants a number."""
    return {"logprobs": True, "top_logprobs": _LISTED} if question.messages else {"logprobs": _LISTED}


def _text(sent: bytes) -> str:
    return sent.decode(errors="replace")
