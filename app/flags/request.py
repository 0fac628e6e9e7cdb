"""Conversion of flags to a request for the engine; contradictory flags are refused before anything is loaded."""

import re
import secrets
import sys
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten
from typing import Any

from app.chat_input.keys import read_keys
from app.engine.decoding.request import Question
from app.engine.runtime.load import TOY, LoadPlan
from app.flags.answer_form import FORM_FLAGS, read_grammar
from app.flags.input_file import read_file
from app.flags.load_plan import read_plan, with_standing
from app.flags.precedence import refuse_two_models
from app.history.resume import Resumed, find_resumed
from app.shell.input_bytes import read_pipe
from app.shell.paths import project_folder, states_folder, texts_folder
from app.shell.terminal import Terminal
from app.shell.text_encoding import decoded
from drafters.history.store import Place
from models.errors import ModelFileError, UsageError
from models.gguf.file import is_there
from models.library.catalog import STARTER, find_model
from models.library.names import PAIR
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams
from models.states.folder import StateFolder
from models.text.thoughts import Effort

_STORES = ("ollama:", "lmstudio:", "hf://", "hf.co/", PAIR)
"""Prefixes that always name a model, present or missing."""
_GIB = 1 << 30
_SHORT = 64
"""Most tokens of answers that end before the load of a second model is paid back."""


@dataclass(frozen=True, slots=True)
class ScreenSettings:
    """Appearance and keys of the chat screen."""

    theme: str
    vim: bool
    keys: Mapping[str, str]
    """Rebound keys, by the names of `app.chat_input.keys`."""


@dataclass(frozen=True, slots=True)
class Request:
    """All settings of one `run`."""

    plan: LoadPlan
    settings: Question
    """Settings of an answer, without turns."""
    prompt: str | None
    """None: open a chat."""
    system: str | None
    """The system message."""
    usual_system: str | None
    """The system message of later conversations of this run."""
    as_json: bool
    quiet: bool
    saved: bool
    """Whether the conversation is saved."""
    resumed: Resumed | None
    """The conversation to continue; None: a new one."""
    plain: bool
    """Whether a chat goes line by line even on a terminal with a full screen."""
    screen: ScreenSettings
    edit: str | None = None
    """A file to edit, possibly with a position; None: a chat or a single answer."""


def read_request(
    model: str | None, words: tuple[str, ...], flags: dict[str, Any], *, named: bool = True, given: Container[str] = ()
) -> Request:
    """Read the arguments and flags of `run`; raises UsageError.

    `words` are the arguments after the model; `named` tells that the model was given there, not by the environment.
    `given` are the flags of the command line, by their parameters.
    """
    _check_edits_alone(words, flags)
    resumed = _resumed(flags)
    model, words = _divided(model, words, flags, resumed, named=named)
    plan = read_plan(model, flags)
    if not (flags["edit"] or (flags["predict"] is not None and flags["predict"] <= _SHORT)):
        plan = with_standing(plan)
    plan = replace(plan, online=flags.get("online", False))
    # A caller with --json has the answer already. A conversation that continues must include the new answer.
    saved = not flags["no_history"] and (resumed is not None or not flags["as_json"])
    plan = replace(plan, texts=_texts()) if _remembers(plan, flags) else plan
    return Request(
        plan=replace(plan, states=_states(flags)) if saved and not flags["edit"] else plan,
        settings=_settings(flags),
        prompt=None if flags["edit"] else _prompt(words, flags),
        system=_system(flags, resumed, given),
        usual_system=_system(flags, None, given),
        as_json=flags["as_json"],
        quiet=flags["quiet"],
        saved=saved,
        resumed=resumed,
        plain=flags["plain"],
        screen=ScreenSettings(flags["theme"], flags["vim"], read_keys(flags["key"])),
        edit=flags["edit"],
    )


def _check_edits_alone(words: tuple[str, ...], flags: dict[str, Any]) -> None:
    """Refuse flags that contradict --edit; raises UsageError."""
    if not flags["edit"]:
        return
    beside = {
        "PROMPT": words, "-p": flags["prompt_option"], "-f": flags["file"], "-C": flags["go_on"],
        "--resume": flags["resume"], "-sys": flags["system_prompt"], "--raw": flags["raw"],
        "--special": flags["special"],
        "--predict": flags["prediction"], "--json": flags["as_json"], "--plain": flags["plain"],
        **{flag: flags[name] for name, flag in FORM_FLAGS.items()},
    }  # fmt: skip
    if others := [name for name, value in beside.items() if value]:
        raise UsageError(
            f"--edit opens an editor, and {others[0]} works only in a chat.", hint="Leave out one of the two."
        )


def _divided(
    model: str | None, words: tuple[str, ...], flags: dict[str, Any], resumed: Resumed | None, *, named: bool
) -> tuple[str, tuple[str, ...]]:
    """Return model and prompt words; with -m, or in a resumed conversation, the first word may be prompt."""
    default, model = (None, model) if named else (model, None)
    if model is not None and flags["model_option"] and _can_only_be_model(model):
        refuse_two_models(
            model, flags["model_option"], "Leave out one of the two. To use the word as a prompt, give it with -p."
        )
    elif model is not None and (flags["model_option"] or (resumed is not None and not _is_model(model))):
        words, model = (model, *words), None
    elif model is not None and not words and " " in model.strip():
        _check_meant(model)
    return flags["model_option"] or model or (resumed and resumed.source) or default or STARTER, words


def _check_meant(name: str) -> None:
    """Refuse a prompt in the place of the model, before a screen opens; raises UsageError."""
    if not _is_model(name) and not is_there(Path(name)):
        hint = "The model comes first: localspec run MODEL PROMPT, or -p PROMPT for the default model."
        raise UsageError(f"There is no model '{shorten(name, 60, placeholder=' ...')}'.", hint=hint)


def _can_only_be_model(word: str) -> bool:
    """Tell whether a word beside -m must be a second model, not the beginning of a prompt."""
    if is_there(Path(word)):
        return word.endswith(".gguf")
    return len(word.split()) == 1 and _is_model(word)


def _is_model(name: str) -> bool:
    try:
        return name in (STARTER, TOY) or name.endswith(".gguf") or find_model(name).is_file()
    except (OSError, RuntimeError, ModelFileError):
        # Too long for a name, or "~" with an unknown user, or in no cache: a prompt.
        return name.startswith(_STORES)


def _resumed(flags: dict[str, Any]) -> Resumed | None:
    if flags["resume"] is None and not flags["go_on"]:
        return None
    if flags["resume"] == "":
        hint = "localspec history ls lists the ids. -C continues the last conversation."
        raise UsageError("The id of --resume is empty.", hint=hint)
    return find_resumed(flags["resume"] or "")


def _remembers(plan: LoadPlan, flags: dict[str, Any]) -> bool:
    """Return whether the drafter may remember this run; --no-history excludes that memory too."""
    return not (flags["no_memory"] or flags["no_history"] or plan.model == TOY)


def _system(flags: dict[str, Any], resumed: Resumed | None, given: Container[str]) -> str | None:
    # Settings hold for new conversations; a resumed one keeps its own system message.
    if resumed is not None and "system_prompt" not in given:
        return resumed.conversation.system
    return None if flags["system_prompt"] is None else _cleaned(flags["system_prompt"])


def _cleaned(value: str) -> str:
    """Return an argument as a pipe delivers it: invalid UTF-8 bytes of arguments arrive as lone surrogates."""
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", value)


def _texts() -> Place | None:
    """Return the place of the drafter's memory; None if the working directory was deleted."""
    try:
        return Place(texts_folder(), project_folder())
    except OSError:
        return None


def _states(flags: dict[str, Any]) -> StateFolder:
    """Return the folder of the caches of saved conversations, with its limits."""
    return StateFolder(states_folder(), int(flags["chat_cache"] * _GIB), flags["chat_cache_days"])


def _settings(flags: dict[str, Any]) -> Question:
    return Question(
        turns=(),
        sampling=read_sampling(flags),
        raw=flags["raw"],
        special=flags["special"],
        effort=Effort(flags["think"]),
        grammar=read_grammar(flags),
        drops_oldest=flags["overflow"] == "drop",
        stops=flags["stop"],
        max_tokens=flags["predict"],
        draft_length=flags["draft_max"],
        adapt=not flags["no_adapt"],
        allow_rounding=flags["allow_rounding"],
        prediction=_prediction(flags["prediction"]),
        explain=flags["explain"],
        accept=Accept(flags["accept"]),
    )


def read_sampling(flags: dict[str, Any]) -> SamplingParams:
    """Read the sampling settings; a negative seed requests a new one. Raises UsageError."""
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
    """Join the prompt from words, -p, -f and a pipe; None on a terminal without any of them."""
    parts = [_cleaned(" ".join(words)), _cleaned(flags["prompt_option"] or "")]
    if flags["file"]:
        parts.append(read_file("-f", Path(flags["file"])))
    piped = not sys.stdin.isatty()
    if piped:
        parts.append(decoded(read_pipe(Terminal(quiet=flags["quiet"])), "The piped text"))
    text = "\n\n".join(part for part in parts if part.strip())
    if text:
        # The final line end comes from the shell, not from the prompt.
        return text if flags["raw"] else text.rstrip("\r\n")
    if piped or flags["file"] or flags["as_json"]:
        raise UsageError("There is no prompt.", hint='Give a prompt: localspec run MODEL "PROMPT", or -f FILE.')
    return None


def _prediction(name: str | None) -> str:
    # Models end lines with \n, whatever line ends the file has.
    return read_file("--predict", Path(name)).replace("\r\n", "\n") if name else ""
