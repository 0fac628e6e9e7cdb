"""From flags to what the engine understands; what makes no sense is refused here, before anything is loaded."""

import secrets
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.engine.load import TOY, LoadPlan
from app.engine.worker import Question
from app.paths import machine_memory, project_folder, texts_folder
from drafters.memory import Place
from drafters.registry import parse_drafter
from models.catalog import STARTER
from models.errors import UsageError
from models.exact_width import WIDEST
from models.llama_load import LlamaOptions
from models.sampling import SamplingParams

_FLASH = {"auto": None, "on": True, "off": False}


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that one `run` was asked for."""

    plan: LoadPlan
    settings: Question
    """How to answer; its turns are still to come."""
    prompt: str | None
    """None: open a chat."""
    system: str | None
    as_json: bool
    quiet: bool


def read_request(model: str | None, words: tuple[str, ...], flags: dict[str, Any]) -> Request:
    """Read the arguments and flags of `run`; `words` are what follows the model. Raises UsageError."""
    if flags["model_option"] is not None:
        words = (model, *words) if model is not None else words
        model = flags["model_option"]
    plan = read_plan(model or STARTER, flags)
    return Request(
        plan=plan if flags["no_memory"] or plan.model == TOY else replace(plan, texts=_texts()),
        settings=_settings(flags),
        prompt=_prompt(words, flags),
        system=flags["system_prompt"],
        as_json=flags["as_json"],
        quiet=flags["quiet"],
    )


def read_plan(model: str, flags: dict[str, Any]) -> LoadPlan:
    """Read what to load, and how; raises UsageError."""
    if flags["flash_attn"] == "off" and flags["cache_type_v"] == "q8_0":
        raise UsageError("-ctv q8_0 needs flash attention, and -fa is off.", hint="Leave out one of the two.")
    options = LlamaOptions(
        context_size=flags["ctx_size"],
        threads=flags["threads"],
        batch_threads=flags["threads_batch"],
        gpu_layers=flags["gpu_layers"],
        max_rows=max(WIDEST, (flags["draft_max"] or 0) + 1),
        flash_attention=_FLASH[flags["flash_attn"]],
        cache_type_k=flags["cache_type_k"],
        cache_type_v=flags["cache_type_v"],
    )
    return LoadPlan(model, parse_drafter(flags["draft"]), options, machine_memory(), flags["allow_rounding"])


def _texts() -> Place | None:
    """Return where to keep what is said; None in a working directory that is gone."""
    try:
        return Place(texts_folder(), project_folder())
    except OSError:
        return None


def _settings(flags: dict[str, Any]) -> Question:
    return Question(
        turns=(),
        sampling=read_sampling(flags),
        raw=flags["raw"],
        stops=flags["stop"],
        max_tokens=flags["predict"],
        draft_length=flags["draft_max"],
        adapt=not flags["no_adapt"],
        allow_rounding=flags["allow_rounding"],
        prediction=_read_file("--predict", Path(flags["prediction"])) if flags["prediction"] else "",
        explain=flags["explain"],
    )


def read_sampling(flags: dict[str, Any]) -> SamplingParams:
    """Read how to sample; a seed below 0 asks for a new one. Raises UsageError."""
    return SamplingParams(
        temperature=flags["temp"],
        top_k=flags["top_k"],
        top_p=flags["top_p"],
        min_p=flags["min_p"],
        repeat_penalty=flags["repeat_penalty"],
        frequency_penalty=flags["frequency_penalty"],
        presence_penalty=flags["presence_penalty"],
        penalty_window=flags["repeat_last_n"],
        seed=flags["seed"] if flags["seed"] >= 0 else secrets.randbits(32),
    )


def _prompt(words: tuple[str, ...], flags: dict[str, Any]) -> str | None:
    """Join what was given as words, -p, -f and a pipe; None when nothing was, on a terminal."""
    parts = [" ".join(words), flags["prompt_option"] or ""]
    if flags["file"]:
        parts.append(_read_file("-f", Path(flags["file"])))
    piped = not sys.stdin.isatty()
    if piped:
        parts.append(sys.stdin.buffer.read().decode("utf-8", errors="replace"))
    text = "\n\n".join(part for part in parts if part.strip())
    if text:
        # A trailing line end is the shell's, not the question's.
        return text if flags["raw"] else text.rstrip("\n")
    if piped or flags["file"] or flags["as_json"]:
        raise UsageError("There is nothing to answer.", hint='Give a prompt: localspec run MODEL "PROMPT", or -f FILE.')
    return None


def _read_file(flag: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{flag} {path} can't be read.", cause=str(error.strerror), hint="Check the path.") from error
