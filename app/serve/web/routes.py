"""The web application: which path is what, behind the guard."""

from collections.abc import Mapping, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from app.serve.replies.errors import MISTAKE, Gone, Refused, refusal
from app.serve.replies.pages import Pages
from app.serve.requests.asking import Asking
from app.serve.service import Service
from app.serve.web.guard import Guard
from models.errors import LocalspecError

_CLIENT_LEFT = 499
"""Status of an answer that nobody reads."""


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
    """Let pages of these origins read what an application answers."""
    # Around all of it: Starlette's own middleware would be within what answers for mistakes, and pages not see those.
    # Any header: OpenAI's client sends a dozen of its own. And a page from elsewhere asks to be let into this network.
    return CORSMiddleware(
        app, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["*"], allow_private_network=True
    )


def _routes(service: Service) -> list[Route]:
    pages, asking = Pages(service), Asking(service)
    get = {
        ("/health", "/v1/health"): pages.health,
        # With a slash at the end they would be a model without a name.
        ("/v1/models", "/v1/models/", "/models", "/models/"): pages.models,
        ("/v1/models/{name:path}", "/models/{name:path}"): pages.model,
        ("/props", "/v1/props"): pages.props,
        ("/metrics",): pages.metrics,
    }
    post = {
        ("/v1/chat/completions", "/chat/completions"): asking.chat,
        ("/v1/completions",): asking.completions,
        ("/completion", "/completions"): asking.completion,
        ("/infill",): asking.infill,
        ("/tokenize",): pages.tokenize,
        ("/detokenize",): pages.detokenize,
    }
    return [
        Route(path, handler, methods=[method])
        for method, handlers in (("GET", get), ("POST", post))
        for paths, handler in handlers.items()
        for path in paths
    ]


class _Handlers:
    """What a client is told where a request could not be answered."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def refused(self, _: Request, error: Exception) -> Response:
        """Tell why a request is refused."""
        assert isinstance(error, Refused)
        return self._tell(error)

    async def failed(self, _: Request, error: Exception) -> Response:
        """Tell what the engine, or the reading of a request, failed at."""
        assert isinstance(error, LocalspecError)
        return self._tell(refusal(error, 0))

    async def no_path(self, _: Request, error: Exception) -> Response:
        """Tell that there is no such path, or that it takes another method."""
        assert isinstance(error, HTTPException)
        words = {404: "Unknown path: see localspec serve --help.", 405: "This path does not allow this method."}
        message = words.get(error.status_code, "The request can't be read.")
        return self._tell(Refused(error.status_code, message), error.headers)

    async def mistake(self, _: Request, __: Exception) -> Response:
        """Tell that it was not the client's fault; what the error says is not the client's business."""
        return self._tell(Refused(500, MISTAKE))

    async def gone(self, _: Request, __: Exception) -> Response:
        """Give back what nobody reads."""
        return Response(status_code=_CLIENT_LEFT)

    def _tell(self, refused: Refused, headers: Mapping[str, str] | None = None) -> Response:
        self._service.metrics.refused(refused.status)
        return refused.response(headers)
