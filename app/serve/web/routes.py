"""The web application: its paths and handlers, behind the guard."""

from collections.abc import Mapping, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from app.serve.embeddings.door import EmbeddingsDoor
from app.serve.messages.door import MessagesDoor
from app.serve.replies.errors import MISTAKE, Gone, Refused, refusal
from app.serve.replies.pages import Pages
from app.serve.requests.asking import Asking
from app.serve.responses.door import ResponsesDoor
from app.serve.service import Service
from app.serve.slots.door import SlotsDoor
from app.serve.swapping.lease import Leased
from app.serve.web.guard import Guard
from models.errors import LocalspecError

_CLIENT_LEFT = 499
"""Status for an answer without a reader."""


def make_app(service: Service) -> ASGIApp:
    """Return the application that serves a model."""
    door = service.settings.door
    handlers = _Handlers(service)
    app: ASGIApp = Starlette(
        routes=_routes(service),
        exception_handlers={
            Refused: handlers.refused,
            LocalspecError: handlers.failed,
            HTTPException: handlers.no_path,
            Gone: handlers.gone,
            ClientDisconnect: handlers.gone,
            Exception: handlers.mistake,
        },
    )
    return Guard(_for_pages(app, door.origins) if door.origins else app, door, service.metrics)


def _for_pages(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """Let web pages of these origins read the application's replies."""
    # Outermost: Starlette's own middleware would sit inside the error handler, whose replies pages could not read. Any
    # header is allowed: OpenAI's client sends a dozen, and a page elsewhere asks for access to this network.
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],
        allow_private_network=True,
    )


def _routes(service: Service) -> list[Route]:
    pages, asking, messages, responses = Pages(service), Asking(service), MessagesDoor(service), ResponsesDoor(service)
    get = {
        ("/health", "/v1/health"): pages.health,
        # A slash at the end would otherwise name a model with an empty name.
        ("/v1/models", "/v1/models/", "/models", "/models/"): pages.models,
        ("/v1/models/{name:path}", "/models/{name:path}"): pages.model,
        ("/props", "/v1/props"): pages.props,
        ("/metrics",): pages.metrics,
        ("/v1/responses/{name}",): responses.find,
    }
    post = {
        ("/v1/chat/completions", "/chat/completions"): asking.chat,
        ("/v1/completions",): asking.completions,
        ("/completion", "/completions"): asking.completion,
        ("/infill",): asking.infill,
        ("/v1/responses",): responses.create,
        ("/v1/responses/input_tokens",): responses.count,
        ("/v1/messages",): messages.create,
        ("/v1/messages/count_tokens",): messages.count,
        ("/tokenize",): pages.tokenize,
        ("/detokenize",): pages.detokenize,
        ("/v1/embeddings", "/embeddings"): EmbeddingsDoor(service).create,
        ("/slots/{number}",): SlotsDoor(service).act,
    }
    delete = {("/v1/responses/{name}",): responses.drop}
    return [
        Route(path, Leased(handler, service) if method == "POST" else handler, methods=[method])
        for method, handlers in (("GET", get), ("POST", post), ("DELETE", delete))
        for paths, handler in handlers.items()
        for path in paths
    ]


class _Handlers:
    """Replies for requests that failed."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def refused(self, request: Request, error: Exception) -> Response:
        """Report why a request is refused."""
        assert isinstance(error, Refused)
        return self._tell(request, error)

    async def failed(self, request: Request, error: Exception) -> Response:
        """Report a failure of the engine, or of reading a request."""
        assert isinstance(error, LocalspecError)
        return self._tell(request, refusal(error, 0))

    async def no_path(self, request: Request, error: Exception) -> Response:
        """Report an unknown path or a wrong method."""
        assert isinstance(error, HTTPException)
        words = {404: "Unknown path: see localspec serve --help.", 405: "This path does not accept this method."}
        message = words.get(error.status_code, "The request is not valid HTTP.")
        return self._tell(request, Refused(error.status_code, message), error.headers)

    async def mistake(self, request: Request, _: Exception) -> Response:
        """Report an internal error without its message, which may quote other clients."""
        return self._tell(request, Refused(500, MISTAKE))

    async def gone(self, _: Request, __: Exception) -> Response:
        """Return an empty reply to a disconnected client."""
        return Response(status_code=_CLIENT_LEFT)

    def _tell(self, request: Request, refused: Refused, headers: Mapping[str, str] | None = None) -> Response:
        self._service.metrics.refused(refused.status)
        return refused.response(headers, request.url.path)
