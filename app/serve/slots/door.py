"""Handler of `POST /slots/{id}?action=save|restore|erase`, with the members of llama.cpp's server."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.engine.conversation.session import Session
from app.engine.conversation.slot_states import clear, copied, put_back
from app.engine.runtime.worker import Worker
from app.serve.replies.errors import Refused
from app.serve.replies.warnings_list import with_warnings
from app.serve.requests.body import read_fields
from app.serve.requests.fields import Fields
from app.serve.requests.known_fields import Route
from app.serve.service import Service
from models.states.folder import DamagedStateError
from models.states.slot_file import read_slot, write_slot

T = TypeVar("T")
_LONGEST_NAME = 128
_MILLISECONDS = 1000.0


class SlotsDoor:
    """Saves, restores and empties slots."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._folder = service.settings.slot_folder

    async def act(self, request: Request) -> Response:
        """Do what the query's `action` names; raises Refused."""
        if self._folder is None:
            message = "This server saves no slots. Start it with --slot-save-path FOLDER."
            raise Refused(501, message, code="not_supported")
        acts = {"save": self._save, "restore": self._restore, "erase": self._erase}
        act = acts.get(request.query_params.get("action", ""))
        if act is None:
            raise Refused(400, "The query must have an action: save, restore or erase.", param="action")
        fields = await self._fields(request, has_body=act != self._erase)
        number = self._number(request.path_params["number"])
        return JSONResponse(with_warnings({"id_slot": number, **await act(fields, number)}, fields.warnings))

    async def _fields(self, request: Request, *, has_body: bool) -> Fields:
        """Return the members of the body; clients that erase a slot send none."""
        if has_body:
            return await read_fields(request, Route.SLOTS, self._service)
        self._service.check()
        await request.state.lease.take(request, None)
        return Fields({})

    async def _save(self, fields: Fields, number: int) -> dict[str, Any]:
        path, begun = self._path(fields), time.perf_counter()
        text = await self._look(number, copied)
        try:
            size = await asyncio.to_thread(write_slot, path, text)
        except IsADirectoryError:
            _refuse_file("There is a folder of this name.")
        except OSError as error:
            raise Refused(500, f"The file can't be written: {error.strerror}.") from error
        counts = {"n_saved": len(text.tokens), "n_written": size}
        return {"filename": path.name, **counts, "timings": {"save_ms": _since(begun)}}

    async def _restore(self, fields: Fields, number: int) -> dict[str, Any]:
        path, begun = self._path(fields), time.perf_counter()
        try:
            text = await asyncio.to_thread(read_slot, path)
            size = path.stat().st_size
        except FileNotFoundError:
            _refuse_file("There is no file of this name.")
        except DamagedStateError as error:
            _refuse_file(f"The file can't be used: {error}.")
        except OSError as error:
            _refuse_file(f"The file can't be read: {error.strerror}.")
        restored = await self._look(number, lambda session: put_back(session, text))
        counts = {"n_restored": restored, "n_read": size}
        return {"filename": path.name, **counts, "timings": {"restore_ms": _since(begun)}}

    async def _erase(self, _: Fields, number: int) -> dict[str, Any]:
        return {"n_erased": await self._look(number, clear)}

    async def _look(self, number: int, job: Callable[[Session], T]) -> T:
        """Return the result of a job on a slot's session, between two rounds of other answers; raises Refused."""

        def work(worker: Worker) -> T:
            if (session := worker.session(number)) is None:
                raise Refused(503, f"Slot {number} answers a request now. Try again later.", code="busy")
            return job(session)

        return await self._service.on_engine(work)

    def _number(self, text: str) -> int:
        slots = self._service.loaded.ready.slots
        if not (text.isascii() and text.isdigit() and int(text[:9]) < slots):
            raise Refused(404, f"There is no such slot. Slots have numbers from 0 to {slots - 1}.", param="id_slot")
        return int(text)

    def _path(self, fields: Fields) -> Path:
        name = fields.text("filename") or fields.refuse("filename", "is required")
        plain = name.isprintable() and not name.startswith(".") and not set(name) & set('/\\:*?"<>|')
        if not plain or len(name.encode()) > _LONGEST_NAME:
            why = f"must be the name of a file in the server's folder, with at most {_LONGEST_NAME} bytes"
            fields.refuse("filename", why)
        assert self._folder is not None, "checked before the body is read"
        return self._folder / name


def _refuse_file(message: str) -> NoReturn:
    raise Refused(400, message, param="filename", code="slot_file")


def _since(begun: float) -> float:
    return (time.perf_counter() - begun) * _MILLISECONDS
