"""`localspec serve`: reads the flags and runs the server if its libraries are installed."""

import asyncio
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from app.engine.decoding.request import Question
from app.flags.load_plan import read_plan, with_standing
from app.flags.number_types import UNLIMITED
from app.flags.request import read_sampling
from app.serve.settings import Door, Limits, ServePlan
from app.serve.swapping.choices import read_choices
from app.shell.extras import install_command
from app.shell.terminal import Terminal
from models.errors import LocalspecError, UsageError
from models.gguf.file import check_file
from models.library.catalog import STARTER, find_model
from models.text.thoughts import Effort

_LIBRARIES = ("starlette", "uvicorn", "prometheus_client")
_PORT, _FILLING_PORT = 8080, 8012
_FILLING_TOKENS = 128
_TEMPERATURE = 0.8
_MIB = 1 << 20
_MINUTE = 60.0
# Electron's programs whose pages are files send the origin file://; browsers send null for such pages.
_ORIGIN = re.compile(r"(\*|null|file://|([a-z][a-z0-9+.-]*)://(?:[^\s/?#@:\[\]]+|\[[0-9a-f:.]+\])(?::[0-9]+)?)/?")
_USUAL_PORTS = {"http": ":80", "https": ":443"}
"""Default ports, which browsers leave out of an origin."""


def read_serve(model: str | None, flags: dict[str, Any]) -> ServePlan:
    """Read the argument and flags of `serve`; raises UsageError."""
    plan = with_standing(read_plan(flags["model_option"] or model or STARTER, flags))
    plan = replace(plan, slots=flags["parallel"])
    chatting, completing, filling = _questions(flags)
    limits = Limits(int(flags["max_body"] * _MIB), flags["queue"], flags["timeout"], flags["grace"])
    door, name = _door(flags), flags["alias"] or ""
    names = tuple(filter(None, (one.strip() for text in flags["models"] for one in text.split(","))))
    idle = flags["idle_unload"]
    choices = read_choices(plan.model, name, names)
    return ServePlan(
        plan,
        chatting,
        completing,
        filling,
        door,
        limits,
        name,
        flags["quiet"],
        choices,
        flags["fim"],
        idle and idle * _MINUTE,
        _embedder(flags["embedding_model"]),
        _slot_folder(flags["slot_save_path"]),
    )


def _embedder(name: str | None) -> Path | None:
    """Return the file of the model for embeddings; raises ModelFileError for a file that is not made for them."""
    if name is None:
        return None
    from models.embeddings.pooling import pooling_of

    check_file(path := find_model(name))
    pooling_of(path)
    return path


def _slot_folder(path: Path | None) -> Path | None:
    """Return the folder of saved slots; raises UsageError for none."""
    if path is not None and not path.is_dir():
        raise UsageError(
            f"--slot-save-path {path} is no folder.", hint="Create it first, for yourself alone (mode 700)."
        )
    return path


def run_serve(plan: ServePlan) -> int:
    """Serve until a signal ends it; return the exit code. Raises LocalspecError."""
    if missing := [name for name in _LIBRARIES if find_spec(name) is None]:
        raise LocalspecError(
            "The server needs libraries that are not installed.",
            cause=f"Missing: {', '.join(missing)}.",
            hint=f"Install them: {install_command('serve')}",
        )
    from app.serve.web.server import serve

    terminal = Terminal(quiet=plan.quiet)
    try:
        asyncio.run(serve(plan, terminal))
    finally:
        terminal.clear_progress()
    return 0


def print_service(context: click.Context) -> None:
    """Print the file that starts this server with the user's session, and to stderr what to do with it."""
    from app.serve.service_file import how_to_use, service_file

    terminal = Terminal()
    terminal.say(service_file(context))
    if hint := how_to_use():
        terminal.show(hint)


def _questions(flags: dict[str, Any]) -> tuple[Question, Question, Question]:
    """Return the default questions for chats, texts and infill."""
    given, predict = flags["temp"], flags["predict"]
    most = None if predict == UNLIMITED else predict
    sampling = read_sampling({**flags, "temp": _TEMPERATURE if given is None else given, "seed": 0})
    chatting = Question(
        turns=(),
        sampling=sampling,
        max_tokens=most,
        draft_length=flags["draft_max"],
        adapt=not flags["no_adapt"],
        allow_rounding=flags["allow_rounding"],
        effort=Effort(flags["think"]),
    )
    # Infill needs the most likely text, and with --fim texts do too. Chats keep the usual temperature.
    likeliest = sampling if given is not None else replace(sampling, temperature=0.0)
    short = _FILLING_TOKENS if predict is None and flags["fim"] else most
    filling = replace(chatting, sampling=likeliest, max_tokens=short)
    return chatting, replace(filling, sampling=likeliest if flags["fim"] else sampling), filling


def _door(flags: dict[str, Any]) -> Door:
    from app.serve.web.hosts import is_loopback

    host, key = flags["host"], _key(flags["api_key"])
    if not key and not is_loopback(host):
        raise UsageError(
            f"--host '{host}' is open to other machines, but no API key is set.",
            hint="Set a key with --api-key or LOCALSPEC_API_KEY. Clients must then send it.",
        )
    port = flags["port"]
    if port is None:
        port = _FILLING_PORT if flags["fim"] else _PORT
    return Door(host, port, key, flags["allow_host"], tuple(map(_origin, flags["allow_origin"])))


def _key(given: str | None) -> str:
    """Return the key that clients must send, "" for none; raises UsageError for a key that no client can send."""
    if given == "":
        hint = "A shell variable may be unset. Leave out the flag to accept requests without a key."
        raise UsageError("--api-key is empty.", hint=hint)
    if given and not (given.isprintable() and given == given.strip()):
        # Readers of headers strip blanks at both ends. A key from a file with Windows line ends has a \r at its end.
        hint = "A key can't begin or end with a blank, nor contain line ends or control characters."
        raise UsageError("--api-key has characters that no client can send.", hint=hint)
    return given or ""


def _origin(origin: str) -> str:
    """Return an origin in the form of browsers, which is compared exactly; raises UsageError for any other text."""
    found = _ORIGIN.fullmatch(origin.lower())
    if not found:
        hint = "An origin is a scheme, a host and optionally a port, such as http://localhost:3000."
        raise UsageError(f"--allow-origin '{origin}' is not an origin.", hint=hint)
    return found[1].removesuffix(_USUAL_PORTS.get(found[2], ""))
