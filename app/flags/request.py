"""From flags to what the engine understands; what makes no sense is refused here, before anything is loaded."""

import re
import secrets
import sys
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten
from typing import Any

from app.catalog.pairs import taken_apart
from app.chat_input.keys import read_keys
from app.config.origin import places_of
from app.engine.decoding.request import Question
from app.engine.runtime.load import TOY, LoadPlan
from app.flags.answer_form import FORM_FLAGS, read_grammar
from app.flags.context_size import AUTO
from app.flags.input_file import read_file
from app.flags.precedence import refuse_two_models
from app.history.resume import Resumed, find_resumed
from app.shell.input_bytes import read_pipe
from app.shell.paths import draft_copies, machine_memory, project_folder, texts_folder
from app.shell.terminal import Terminal
from app.shell.text_encoding import decoded
from drafters.history.store import Place
from drafters.registry import parse_drafter
from models.errors import ModelFileError, UsageError
from models.gguf.file import is_there
from models.library.catalog import STARTER, find_model
from models.library.names import PAIR
from models.llama.exact_width import WIDEST
from models.llama.load import LlamaOptions
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams
from models.system.counted import counted
from models.system.machine import physical_cores, usable_threads
from models.text.thoughts import Effort

_STORES = ("ollama:", "lmstudio:", "hf://", "hf.co/", PAIR)
"""What begins like this is meant as a model, there or not."""
_ORIGINS = "Leave out one of the two; localspec config show tells what a settings file says."
_FLASH = {"auto": None, "on": True, "off": False}


@dataclass(frozen=True, slots=True)
class ScreenSettings:
    """How the chat screen looks and what its keys are."""

    theme: str
    vim: bool
    keys: Mapping[str, str]
    """Keys that are not the built-in ones, by the names of `app.chat_input.keys`."""


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that one `run` was asked for."""

    plan: LoadPlan
    settings: Question
    """How to answer; its turns are still to come."""
    prompt: str | None
    """None: open a chat."""
    system: str | None
    """What the model is told first."""
    usual_system: str | None
    """The same in a conversation that is begun after this one."""
    as_json: bool
    quiet: bool
    saved: bool
    """Whether what is said is kept as a conversation."""
    resumed: Resumed | None
    """The conversation to go on with; None: a new one."""
    plain: bool
    """Whether a chat goes line by line, also where a screen could be drawn."""
    screen: ScreenSettings
    edit: str | None = None
    """A file to edit, maybe with a place in it; None: this is a chat, or a question."""


def read_request(
    model: str | None, words: tuple[str, ...], flags: dict[str, Any], *, named: bool = True, given: Container[str] = ()
) -> Request:
    """Read the arguments and flags of `run`; raises UsageError.

    `words` are what follows the model; `named` tells that it was given there, and is no default of the environment.
    `given` are the flags of the command line, by their parameters.
    """
    _check_edits_alone(words, flags)
    resumed = _resumed(flags)
    model, words = _divided(model, words, flags, resumed, named=named)
    plan = read_plan(model, flags)
    return Request(
        plan=replace(plan, texts=_texts()) if _remembers(plan, flags) else plan,
        settings=_settings(flags),
        prompt=None if flags["edit"] else _prompt(words, flags),
        system=_system(flags, resumed, given),
        usual_system=_system(flags, None, given),
        as_json=flags["as_json"],
        quiet=flags["quiet"],
        # Who reads JSON has the answer already; a conversation that goes on must know what came of it.
        saved=not flags["no_history"] and (resumed is not None or not flags["as_json"]),
        resumed=resumed,
        plain=flags["plain"],
        screen=ScreenSettings(flags["theme"], flags["vim"], read_keys(flags["key"])),
        edit=flags["edit"],
    )


def _check_edits_alone(words: tuple[str, ...], flags: dict[str, Any]) -> None:
    """Refuse what makes no sense beside --edit; raises UsageError."""
    if not flags["edit"]:
        return
    beside = {
        "PROMPT": words, "-p": flags["prompt_option"], "-f": flags["file"], "-C": flags["go_on"],
        "--resume": flags["resume"], "-sys": flags["system_prompt"], "--raw": flags["raw"],
        "--special": flags["special"],
        "--predict": flags["prediction"], "--json": flags["as_json"], "--plain": flags["plain"],
        **{flag: flags[name] for name, flag in FORM_FLAGS.items()},
    }  # fmt: skip
    if others := [name for name, said in beside.items() if said]:
        raise UsageError(f"--edit opens an editor, but {others[0]} is for a chat.", hint="Leave out one of the two.")


def read_plan(model: str, flags: dict[str, Any]) -> LoadPlan:
    """Read what to load, and how; raises UsageError, and ModelFileError for a pair whose models are not here."""
    if flags["flash_attn"] == "off" and flags["cache_type_v"] == "q8_0":
        where = places_of("cache_type_v", "flash_attn")
        raise UsageError("-ctv q8_0 needs flash attention, but -fa is off.", cause=where, hint=_ORIGINS)
    if flags["allow_rounding"] and flags.get("strict", False):
        raise UsageError("--strict and --allow-rounding contradict each other.", hint=_ORIGINS)
    terminal = Terminal(quiet=flags.get("quiet", False))
    tell_excess(max(flags["threads"], flags["threads_batch"]), terminal)
    fits = flags["ctx_size"] == AUTO
    options = LlamaOptions(
        context_size=0 if fits else flags["ctx_size"],
        threads=flags["threads"],
        batch_threads=flags["threads_batch"],
        gpu_layers=flags["gpu_layers"],
        max_rows=max(WIDEST, (flags["draft_max"] or 0) + 1),
        flash_attention=_FLASH[flags["flash_attn"]],
        cache_type_k=flags["cache_type_k"],
        cache_type_v=flags["cache_type_v"],
    )
    named = taken_apart(model, None if flags["draft"] == "auto" else flags["draft"])
    if named.note:
        terminal.warn(named.note)
    drafter, memory, rounding = parse_drafter(named.draft or "auto"), machine_memory(), flags["allow_rounding"]
    copies = None if flags.get("no_draft_copy", False) else draft_copies()
    strict = flags.get("strict", False)
    return LoadPlan(named.target, drafter, options, memory, rounding, strict, fit_context=fits, copies=copies)


def tell_excess(threads: int, terminal: Terminal) -> None:
    """Say so where more threads are asked for than this process can run at once, and what to do."""
    # They wait for each other: with some dozen times the cores, a token takes seconds.
    if threads > (cores := usable_threads()):
        there, best = counted(cores, "logical core"), physical_cores()
        terminal.warn(
            f"{threads} threads are more than the {there} that this process may use, and make it much slower. "
            f"Leave out -t, or give -t {best}."
        )


def _divided(
    model: str | None, words: tuple[str, ...], flags: dict[str, Any], resumed: Resumed | None, *, named: bool
) -> tuple[str, tuple[str, ...]]:
    """Return the model to load and the words of the prompt: with -m, and in a conversation, the first may be one."""
    default, model = (None, model) if named else (model, None)
    if model is not None and flags["model_option"] and _can_only_be_model(model):
        refuse_two_models(model, flags["model_option"], "Leave out one of the two; -p takes such a word as a prompt.")
    elif model is not None and (flags["model_option"] or (resumed is not None and not _is_model(model))):
        words, model = (model, *words), None
    elif model is not None and not words and " " in model.strip():
        _check_meant(model)
    return flags["model_option"] or model or (resumed and resumed.source) or default or STARTER, words


def _check_meant(name: str) -> None:
    """Refuse a question where a model belongs, before a screen is opened; raises UsageError."""
    if not _is_model(name) and not is_there(Path(name)):
        hint = "The model comes first: localspec run MODEL PROMPT, or -p PROMPT for the default model."
        raise UsageError(f"There is no model '{shorten(name, 60, placeholder=' ...')}'.", hint=hint)


def _can_only_be_model(word: str) -> bool:
    """Tell whether a word beside -m is a second model, and not the beginning of a prompt."""
    if is_there(Path(word)):
        return word.endswith(".gguf")
    return len(word.split()) == 1 and _is_model(word)


def _is_model(name: str) -> bool:
    try:
        return name in (STARTER, TOY) or name.endswith(".gguf") or find_model(name).is_file()
    except (OSError, RuntimeError, ModelFileError):
        # Too long for a name, beginning with a "~" that is nobody's home, or in no cache: a question, then.
        return name.startswith(_STORES)


def _resumed(flags: dict[str, Any]) -> Resumed | None:
    if flags["resume"] is None and not flags["go_on"]:
        return None
    if flags["resume"] == "":
        hint = "localspec history ls shows the ids; -C continues the last conversation."
        raise UsageError("The id of --resume is empty.", hint=hint)
    return find_resumed(flags["resume"] or "")


def _remembers(plan: LoadPlan, flags: dict[str, Any]) -> bool:
    """Return whether the drafter may keep what is said; who wants no trace of a chat wants none there either."""
    return not (flags["no_memory"] or flags["no_history"] or plan.model == TOY)


def _system(flags: dict[str, Any], resumed: Resumed | None, given: Container[str]) -> str | None:
    # What settings say is for new conversations; one that goes on has its own.
    if resumed is not None and "system_prompt" not in given:
        return resumed.conversation.system
    return None if flags["system_prompt"] is None else _cleaned(flags["system_prompt"])


def _cleaned(said: str) -> str:
    """Return an argument as a pipe would have been read: its bytes that are no UTF-8 arrive as lone surrogates."""
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", said)


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
    parts = [_cleaned(" ".join(words)), _cleaned(flags["prompt_option"] or "")]
    if flags["file"]:
        parts.append(read_file("-f", Path(flags["file"])))
    piped = not sys.stdin.isatty()
    if piped:
        parts.append(decoded(read_pipe(Terminal(quiet=flags["quiet"])), "The piped text"))
    text = "\n\n".join(part for part in parts if part.strip())
    if text:
        # A trailing line end is the shell's, not the question's.
        return text if flags["raw"] else text.rstrip("\r\n")
    if piped or flags["file"] or flags["as_json"]:
        raise UsageError("There is no prompt.", hint='Give a prompt: localspec run MODEL "PROMPT", or -f FILE.')
    return None


def _prediction(name: str | None) -> str:
    # Models end their lines so, whatever the file does.
    return read_file("--predict", Path(name)).replace("\r\n", "\n") if name else ""
