"""Errors for clients, in the form that OpenAI's clients read, and below `/v1/messages` in Anthropic's."""

from collections.abc import Mapping
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError
from starlette.responses import JSONResponse, Response

from app.shell.safe_text import one_line
from models.errors import (
    BusyError,
    ContextFullError,
    LocalspecError,
    MessagesRefusedError,
    TemplateBrokenError,
    UsageError,
)

_KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 503: "unavailable_error"}
_MESSAGES = "/v1/messages"
"""Path whose errors have Anthropic's form."""
_MESSAGES_KINDS = {413: "request_too_large", 500: "api_error", 503: "overloaded_error"}
MISTAKE = "Internal error in localspec. See the server's log."
"""Message for an error of the server's own."""
_RETRY = {"Retry-After": "1"}
_CLIENT, _SERVER = 400, 500
_WITHOUT_TEMPLATE = "/completion and /infill work without it."
_LONGEST = 200
"""Maximum characters quoted from a chat template's own error."""


class Refused(Exception):
    """A refused request, with its HTTP status and message."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None, **more: object
    ) -> None:
        """Take status and message; `param` names the wrong field, `more` is added to the error as it is.

        `message` must not quote the client's text, for it may reach a log. The one exception is an error in a form
        (grammar or schema).
        """
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.more = more

    @property
    def body(self) -> dict[str, Any]:
        """The error as JSON."""
        kind = _KINDS.get(self.status, "server_error" if self.status >= _SERVER else "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code, **self.more}}

    @property
    def messages_body(self) -> dict[str, Any]:
        """The error as JSON in Anthropic's form, with the same further members."""
        error = self.body["error"]
        return {"type": "error", "error": {**error, "type": _MESSAGES_KINDS.get(self.status, error["type"])}}

    def response(self, headers: Mapping[str, str] | None = None, path: str = "") -> Response:
        """Return the HTTP response for a request to a path."""
        retry = _RETRY if self.status == 503 else {}
        body = self.messages_body if path.startswith(_MESSAGES) else self.body
        return JSONResponse(body, self.status, {**retry, **(headers or {})})


class Gone(Exception):
    """The client has disconnected; the answer is not sent."""


def refusal(error: LocalspecError, context_size: int) -> Refused:
    """Return the HTTP error for a failure of the engine."""
    if isinstance(error, ContextFullError):
        return Refused(_CLIENT, error.title, code="context_length_exceeded", n_ctx=context_size)
    if isinstance(error, BusyError):
        return Refused(503, error.title, code="busy")
    if isinstance(error, UsageError):
        return Refused(_CLIENT, " ".join(filter(None, (f"{error.title.removesuffix('.')}.", error.hint))))
    if isinstance(error, MessagesRefusedError):
        message = (
            f"{error.title} The template's message: {_shortened(error.own_words)}" if error.own_words else error.title
        )
        return Refused(_CLIENT, message, param="messages")
    if isinstance(error, TemplateBrokenError) and isinstance(error.__cause__, TemplateSyntaxError):
        return Refused(_CLIENT, f"The model's chat template is broken. {_WITHOUT_TEMPLATE}", code="not_supported")
    if isinstance(error.__cause__, TemplateError):
        return Refused(_CLIENT, "The model's chat template can't be used for these messages.", param="messages")
    return Refused(_SERVER, error.title)


def _shortened(words: str) -> str:
    """Return a text from a model's file on one line of limited length."""
    line = one_line(words)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
