"""Handlers of the paths that need no answer of the model: health, models, properties, metrics, tokens."""

from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app import __version__
from app.serve.replies.errors import Refused
from app.serve.replies.warnings_list import with_warnings
from app.serve.requests import tokens
from app.serve.requests.body import read_fields
from app.serve.requests.known_fields import Route
from app.serve.requests.native import sampling_settings
from app.serve.service import Loaded, Service
from models.embeddings.embedder import Embedder


class Pages:
    """The paths that run no model."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def health(self, _: Request) -> Response:
        """Report readiness; raises Refused while the model is not ready."""
        service = self._service
        if service.gate.last and service.gate.current is None:
            service.check()
            return JSONResponse({"status": "ok", "model": service.gate.last, "loaded": False})
        return JSONResponse({"status": "ok", "model": service.loaded.name})

    async def models(self, _: Request) -> Response:
        """List the models that requests may name."""
        return JSONResponse({"object": "list", "data": [*self._all().values()]})

    async def model(self, request: Request) -> Response:
        """Describe one model."""
        if (found := self._all().get(request.path_params["name"])) is None:
            raise Refused(404, "There is no such model.", code="model_not_found")
        return JSONResponse(found)

    def _all(self) -> dict[str, dict[str, Any]]:
        """Return the description of each model by its name."""
        service = self._service
        service.check()
        more = {} if service.shelf is None else {service.shelf.embedder.name: _embedder(service.shelf.embedder)}
        if not service.choices.is_open:
            loaded = service.loaded
            return {loaded.name: _model(loaded), **more}
        return {**{name: self._described(name) for name in service.choices.names}, **more}

    def _described(self, name: str) -> dict[str, Any]:
        """Return the description of a model that may be loaded or not."""
        if name == self._service.gate.current:
            return {**_model(self._service.loaded), "status": {"value": "loaded"}}
        return {"id": name, "object": "model", "created": 0, "owned_by": "localspec", "status": {"value": "unloaded"}}

    async def props(self, _: Request) -> Response:
        """Return model properties and default settings, as llama.cpp's server does."""
        loaded, settings = self._service.loaded, self._service.settings
        size = loaded.ready.context_size
        # -1: a new seed for each request. Clients send back the values that they read here.
        defaults = {"n_ctx": size, "params": {**sampling_settings(settings.chatting), "seed": -1}}
        return JSONResponse(
            {
                "default_generation_settings": defaults,
                "total_slots": loaded.ready.slots,
                "model_alias": loaded.name,
                "model_path": loaded.ready.model,
                "modalities": {"vision": False, "audio": False},
                "build_info": f"localspec-{__version__}",
                "drafter": loaded.ready.drafter,
                "infill": loaded.fills,
                "tools": loaded.calls is not None,
            }
        )

    async def metrics(self, _: Request) -> Response:
        """Return all counters in Prometheus's text format."""
        return Response(self._service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def tokenize(self, request: Request) -> Response:
        """Convert text to tokens."""
        fields = await read_fields(request, Route.TOKENIZE, self._service)
        return Response(await tokens.tokenize(fields, self._service), media_type="application/json")

    async def detokenize(self, request: Request) -> Response:
        """Convert tokens to text."""
        fields = await read_fields(request, Route.DETOKENIZE, self._service)
        return JSONResponse(with_warnings(await tokens.detokenize(fields, self._service), fields.warnings))


def _embedder(embedder: Embedder) -> dict[str, Any]:
    about = {"n_ctx": embedder.longest, "n_vocab": embedder.vocabulary, "n_embd": embedder.width, "embeddings": True}
    return {"id": embedder.name, "object": "model", "created": 0, "owned_by": "localspec", "meta": about}


def _model(loaded: Loaded) -> dict[str, Any]:
    about = {"n_ctx": loaded.ready.context_size, "n_vocab": loaded.tokens, "description": loaded.ready.description}
    return {"id": loaded.name, "object": "model", "created": loaded.since, "owned_by": "localspec", "meta": about}
