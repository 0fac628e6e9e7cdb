"""`localspec models pull`: shows size and memory, then downloads."""

import json
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from app.catalog.choosing import Choice, choose_draft, choose_head, choose_model
from app.catalog.fetch_progress import FetchProgress, FetchStopped, Output, duration
from app.catalog.pulled import remember
from app.catalog.words import free_in, in_a_line, plain, size
from app.shell.columns import wrapped
from app.shell.terminal import Terminal
from models.errors import Cancelled, LocalspecError, ModelFileError, UsageError
from models.gguf.file import check_file, is_there
from models.gguf.heads import has_own_head
from models.gguf.pair import check_headers
from models.library.catalog import find_model
from models.library.families import small_sibling
from models.library.hub import Hub, is_offline, switched_on
from models.library.hub_files import HubFile, Repository
from models.library.hub_header import HubHeaders
from models.library.names import MAIN, HubName, hub_name
from models.library.stores import hub_folder
from models.llama.devices import gpus
from models.llama.memory import Room, room_for
from models.system.machine import available_memory

_KEPT = 1
_KEY = 8
_FORMS = "Names are like user/repo, user/repo:Q4_K_M, or the address of a .gguf file on the hub."


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A request of the user to fetch a model."""

    name: str
    quantisation: str = ""
    with_draft: bool = False
    ask: bool = True
    offline: bool = False
    as_json: bool = False


def run_pull(request: PullRequest) -> int:
    """Fetch a model and print the name to use it by; return the exit code. Raises LocalspecError."""
    terminal = Terminal()
    record = pull(request, terminal)
    if record is None:
        terminal.show("Nothing was fetched.")
        return _KEPT
    _say(terminal, record, as_json=request.as_json)
    return 0


def pull(request: PullRequest, output: Output, sleep: Callable[[float], None] = time.sleep) -> dict[str, Any] | None:
    """Fetch a model; return its record as for JSON, None if the user declined. Raises LocalspecError.

    `sleep` waits some seconds between two attempts, and may raise `FetchStopped`.
    """
    wanted = _wanted(request)
    if request.offline or is_offline():
        return _offline(request, wanted)
    hub = Hub(output.tell, sleep=sleep)
    try:
        return _pull(output, hub, request, wanted)
    finally:
        output.clear_progress()
        hub.close()


def _wanted(request: PullRequest) -> HubName:
    """Return the model to fetch; raises UsageError for a name outside the hub."""
    wanted = hub_name(request.name)
    if wanted is None:
        raise UsageError(f"{request.name} is not a model on the Hugging Face hub.", hint=_FORMS)
    label, wanted_label = wanted.label.lower(), request.quantisation.lower()
    if wanted_label and (wanted.file or label not in ("", wanted_label)):
        raise UsageError(f"{request.name} and --quant name two quantisations.", hint="Leave out one of the two.")
    return replace(wanted, label=wanted.label or request.quantisation)


def _offline(request: PullRequest, wanted: HubName) -> dict[str, Any]:
    at = "" if wanted.revision == MAIN else f"@{wanted.revision}"
    name = request.name if not request.quantisation else f"{wanted.repo}{at}:{request.quantisation}"
    return {"type": "pull", "name": name, "path": str(_here(name)), "fetched": 0}


def _here(name: str) -> Path:
    """Return the file of a complete local model; raises ModelFileError."""
    try:
        path = find_model(name)
        check_file(path)
    except ModelFileError as error:
        raise ModelFileError(
            f"{name} is incomplete on this machine, and nothing is fetched offline.",
            cause=error.cause or error.title,
            hint=f"{_way_online()}; `localspec models ls` lists the models on this machine.",
        ) from error
    return path


def _way_online() -> str:
    on = switched_on("LOCALSPEC_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return f"Unset {' and '.join(on)}" if on else "Leave out --offline"


def _pull(output: Output, hub: Hub, request: PullRequest, wanted: HubName) -> dict[str, Any] | None:
    # By default the whole model goes to the GPUs, if there are any.
    room = room_for([], available_memory(), gpus())
    with HubHeaders(hub) as headers:
        output.progress(f"Looking at {plain(wanted.repo)}")
        repository = hub.repository(wanted.repo, wanted.revision)
        target = choose_model(repository, wanted, headers, room)
        draft = _draft(output, hub, repository, target, headers, room) if request.with_draft else None
    choices = [target, draft] if draft else [target]
    missing = sum(choice.size - choice.fetched for choice in choices)
    _show(output, "model", target, room)
    if draft:
        taken = target.plan.total if target.plan else 0
        role = "head" if draft.head else "draft"
        _show(output, role, draft, replace(room, free=max(room.free - taken, 0)))
    _check_disk(output, missing)
    if missing and request.ask and sys.stdin.isatty() and not click.confirm(f"Fetch {size(missing)}?", err=True):
        return None
    for choice in choices:
        _fetch(output, hub, choice)
    return _record(target, draft, missing)


def _draft(
    output: Output, hub: Hub, repository: Repository, target: Choice, headers: HubHeaders, room: Room
) -> Choice | None:
    """Return the head that lies beside a model, else the small model of its family if both are a pair.

    Prints the reason where neither is fetched.
    """
    repo = target.files[0].repo
    if target.header is not None and has_own_head(target.header):
        output.warn(f"{plain(target.name)} drafts with a head of its own (MTP), so no draft model is fetched.")
        return None
    if (head := choose_head(repository, headers, target)) is not None:
        return head
    sibling = small_sibling(repo)
    if sibling is None:
        output.warn(f"no smaller model of {plain(repo)}'s family is known. Drafts can still be copied from the text.")
        return None
    try:
        draft = choose_draft(hub.repository(sibling), headers, on_gpu=room.on_gpu)
    except LocalspecError as error:
        output.warn(f"the draft model {sibling} can't be fetched. {error.title}")
        return None
    reason = _no_pair(target, draft)
    if reason:
        output.warn(f"{draft.name} was not fetched: {plain(reason)}.")
        return None
    return draft


def _no_pair(target: Choice, draft: Choice) -> str:
    if target.header is None or draft.header is None:
        return "a check of the pair is possible only after both are fetched"
    found = check_headers(target.header, draft.header)
    if against := (*found.reasons, *found.differences):
        return against[0]
    return "" if 2 * found.draft.parameters <= found.target.parameters else "it is no smaller than the model itself"


def _show(output: Output, role: str, choice: Choice, room: Room) -> None:
    """Print the files to fetch, and whether the model fits in memory."""
    files = f"{len(choice.files)} files, " if len(choice.files) > 1 else ""
    here = f", of which {size(choice.fetched)} are here" if choice.fetched else ""
    lines = {
        role: f"{plain(choice.name)}{f' ({choice.reason})' if choice.reason else ''}",
        "file": plain(choice.files[0].name) + (f": {about}" if (about := _about(choice)) else ""),
        "size": f"{files}{size(choice.size)}{here}",
        "memory": _memory(choice, room),
    }
    for key, text in lines.items():
        for line in wrapped(f"{key:<{_KEY}}{text}", 0, _KEY):
            output.show(line)


def _about(choice: Choice) -> str:
    return plain(choice.head) if choice.head else in_a_line(choice.info) if choice.info else ""


def _memory(choice: Choice, room: Room) -> str:
    if choice.plan is None:
        return "unknown until it is fetched"
    fits = "it fits" if choice.plan.total <= room.free else "it does not fit now"
    return f"{size(choice.plan.total)} with a context of {choice.plan.context:,}; {free_in(room)}: {fits}"


def _check_disk(output: Output, missing: int) -> None:
    """Print the free disk space; raises LocalspecError if it is too small."""
    folder = hub_folder()
    existing = next(path for path in (folder, *folder.absolute().parents) if is_there(path))
    free = shutil.disk_usage(existing).free
    if missing > free:
        raise LocalspecError(
            f"The disk is too small: {size(missing)} to fetch, {size(free)} free.",
            hint=f"Free space on the disk of {folder}, or set HF_HUB_CACHE to a folder on another disk.",
        )
    if missing:
        output.show(f"{'disk':<{_KEY}}{size(free)} are free in {folder}")


def _fetch(output: Output, hub: Hub, choice: Choice) -> None:
    # The first part last: models are found by it, so an interrupted download hides no older complete copy.
    files = [file for file in (*choice.files[1:], choice.files[0]) if not file.is_here]
    if not files:
        return
    try:
        # Before the first byte, so that parts of an interrupted download can be removed.
        remember(choice.name, choice.files)
    except OSError as error:
        output.warn(f"the download can't be recorded, so `models rm` will not remove it: {error}")
    begun = time.monotonic()
    try:
        for place, file in enumerate(files, 1):
            count = f"{place}/{len(files)} " if len(files) > 1 else ""
            hub.fetch(file, FetchProgress(output, count + Path(file.name).name, file.size))
    except (KeyboardInterrupt, FetchStopped):
        raise _stopped(choice, files) from None
    output.tell(f"Fetched and checked in {duration(time.monotonic() - begun)}.")


def _stopped(choice: Choice, files: Sequence[HubFile]) -> Cancelled:
    here = sum(file.fetched for file in files)
    return Cancelled(
        f"Stopped: {size(here)} of {size(sum(file.size for file in files))} are here.",
        hint=f"The same command resumes; `localspec models rm {shlex.quote(choice.name)}` removes them.",
    )


def _record(target: Choice, draft: Choice | None, fetched: int) -> dict[str, Any]:
    record = {"type": "pull", **_model(target), "fetched": fetched}
    return record | {"draft": _model(draft)} if draft else record


def _model(choice: Choice) -> dict[str, Any]:
    files = [{"path": str(file.path), "size": file.size, "sha256": file.sha256} for file in choice.files]
    return {"name": choice.name, "path": str(choice.files[0].path), "size": choice.size, "files": files}


def _say(terminal: Terminal, record: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        terminal.say(json.dumps(record) + "\n")
        return
    verb = "Ready" if record["fetched"] else "Already here"
    draft = ["--draft", record["draft"]["name"]] if "draft" in record else []
    terminal.say(f"{verb}: {plain(shlex.join(['localspec', 'run', record['name'], *draft]))}\n")
