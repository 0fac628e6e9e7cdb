"""`localspec check`: a verdict on a model or a pair, from headers alone."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from app.catalog.checking_head import run_head_check
from app.catalog.foreseen import Standing, prediction_lines, prediction_record, standing_of
from app.catalog.pairs import taken_apart
from app.catalog.templates import broken_templates, template_words
from app.catalog.words import in_a_line, memory_row, plain, size
from app.engine.costs.known_costs import known_target
from app.engine.costs.speedup_for_files import Foreseen, foresee_file
from app.engine.costs.standing_model import TEXT_CONTEXT
from app.shell.columns import table, wrapped
from app.shell.paths import machine_memory
from app.shell.terminal import Terminal
from models.errors import MemoryLimitError, PairError
from models.gguf.header import read_model
from models.gguf.model_info import ModelInfo
from models.gguf.pair import PairFindings, ReadModel, check_read, has_end, read, token_words
from models.library.catalog import find_model
from models.library.head_files import is_head_file
from models.llama.cache_types import CacheTypes
from models.llama.devices import gpus
from models.llama.load import LlamaOptions
from models.llama.memory import MemoryPlan, Need, Room, beyond_training, default_context, largest_context, room_for
from models.llama.weights.load_params import check_devices
from models.llama.weights.placed import Placed, place_weights
from models.system.machine import available_memory

_HEAD = ("", "weights", "cache", "buffers", "together")
_ROLES = ("target", "draft")
_WITHOUT = "its chat template is broken. Completion, --raw and /completion work without it."
_OTHER_DRAFT = "Use a smaller model of the same family and version, or --draft lookup."


@dataclass(frozen=True, slots=True)
class Checked:
    """The results of a check."""

    models: tuple[ReadModel, ...]
    """The target, and the draft model if there is one."""
    reasons: tuple[str, ...]
    """Reasons why the models are not a pair."""
    differences: tuple[str, ...]
    """How their tokens differ; the draft model then drafts text."""
    notes: tuple[str, ...]
    plans: tuple[MemoryPlan, ...]
    """Memory plan of each model, at the target's context."""
    room: Room
    """Free memory, and the device that it is on."""
    largest: int
    """Longest context at which all models fit together; 0 for none."""
    foreseen: Foreseen | None
    """Predicted speed-up; None for models that are not a pair."""
    placed: Placed | None = None
    """Placement that flags ask for; None where they ask for none."""
    standing: Standing | None = None
    """The draft model that needs no flag; None where a draft model was given, or none can draft."""

    @property
    def infos(self) -> tuple[ModelInfo, ...]:
        """Headers of the models."""
        return tuple(model.info for model in self.models)

    @property
    def need(self) -> int:
        """Bytes needed by all models."""
        return sum(plan.total for plan in self.plans)

    @property
    def fits(self) -> bool:
        """Whether all models fit in free memory."""
        layout = self.placed.layout if self.placed else None
        if layout is None:
            return self.need <= self.room.free
        drafts = sum(plan.total for plan in self.plans[1:])
        return layout.on_gpu + drafts <= self.room.free and layout.in_main <= available_memory()

    @property
    def exit_code(self) -> int:
        """Exit code; "not a pair" has priority over "does not fit"."""
        if self.reasons:
            return PairError.exit_code
        return 0 if self.fits else MemoryLimitError.exit_code


def run_check(
    target: str,
    draft: str | None,
    context: int,
    cache_types: CacheTypes,
    *,
    as_json: bool,
    options: LlamaOptions | None = None,
) -> int:
    """Print the verdict; return the exit code. `options` say where the weights go, if flags do.

    Raises ModelFileError for a missing or damaged file. `target` may be a pair card; its draft model then counts unless
    another is given.
    """
    named = taken_apart(target, draft)
    if named.draft is not None and is_head_file(find_model(named.draft)):
        return run_head_check(find_model(named.target), find_model(named.draft), context, cache_types, as_json=as_json)
    checked = look(named.target, named.draft, context, cache_types, options)
    if as_json:
        Terminal().say(json.dumps(_record(checked)) + "\n")
    else:
        Terminal().say("\n".join(_lines(checked)) + "\n")
    return checked.exit_code


def look(
    target: str, draft: str | None, context: int, cache_types: CacheTypes, options: LlamaOptions | None = None
) -> Checked:
    """Return the results for one or two models, from their headers; raises ModelFileError."""
    models = tuple(read(read_model(find_model(name))) for name in (target, draft) if name is not None)
    found = check_read(*models) if len(models) > 1 else None
    needs = [Need(model.info.shape, model.info.layers, cache_types) for model in models]
    room = room_for(needs, available_memory(), gpus())
    context = context or default_context(needs[0].shape)
    # A draft model that drafts text reads the end of a conversation alone.
    own = min(context, TEXT_CONTEXT) if found and found.differences else context
    plans = tuple(need.plan(size, on_gpu=room.on_gpu) for need, size in zip(needs, (context, own), strict=False))
    reasons, differences, notes = (found.reasons, found.differences, found.notes) if found else ((), (), ())
    largest = largest_context([need.shape for need in needs], room.free, cache_types, on_gpu=room.on_gpu)
    standing = standing_of(models[0], cache_types) if found is None else None
    placed = None if options is None else _placed(models[0].info, replace(options, context_size=context), needs[1:])
    foreseen = _foreseen(models, found)
    return Checked(models, reasons, differences, notes, plans, room, largest, foreseen, placed, standing)


def _placed(target: ModelInfo, options: LlamaOptions, others: Sequence[Need]) -> Placed:
    check_devices(options.placement.overrides)
    return place_weights(target.path, options, 1, others)


def _foreseen(models: Sequence[ReadModel], found: PairFindings | None) -> Foreseen | None:
    if found is None or found.reasons:
        return None
    target, draft = models
    memory = machine_memory()
    known = known_target(memory, target.info.path)
    as_text = bool(found.differences)
    return foresee_file(memory, known, target.bytes_a_token, draft.info.path, draft.bytes_a_token, as_text=as_text)


def _lines(checked: Checked) -> list[str]:
    width = len("target") + 2
    lines = [
        line
        for role, info in zip(_ROLES, checked.infos, strict=False)
        for line in wrapped(f"{role:<{width}}{plain(info.path.name)}: {in_a_line(info)}", 0, width)
    ]
    if len(checked.infos) > 1:
        lines += ["", *_tokens(checked)]
    lines += ["", *_of_texts(checked), "", *_memory(checked)]
    if checked.foreseen is not None:
        lines += ["", *prediction_lines(checked.foreseen)]
    if len(checked.infos) == 1 and checked.infos[0].head:
        lines += ["", *wrapped(f"Draft head: {checked.infos[0].head}.", 0)]
    elif checked.standing is not None:
        lines += ["", *wrapped(checked.standing.line, 0)]
    return [*lines, "", *_verdict(checked)]


def _tokens(checked: Checked) -> list[str]:
    if checked.reasons:
        return [
            "Not usable together:",
            *(line for reason in checked.reasons for line in wrapped(f"- {plain(reason)}", 2, 2)),
        ]
    if checked.differences:
        return [
            "Other tokens, so the draft model drafts text, which is spelled in the target's tokens:",
            *(line for reason in checked.differences for line in wrapped(f"- {plain(reason)}", 2, 2)),
        ]
    shared = min(info.vocabulary for info in checked.infos)
    lines = [f"The tokenizers agree on all {shared:,} tokens."]
    return lines + [line for note in checked.notes for line in wrapped(f"Harmless: {plain(note)}.", 0, 2)]


def _of_texts(checked: Checked) -> list[str]:
    """Return the lines about special tokens, infill and chat templates, for one model or two side by side."""
    target = checked.models[0]
    lines = {
        "special tokens": _special(checked),
        "fill in the middle": _infills(checked),
        "chat template": _templates(checked),
    }
    if not has_end(target):
        lines["end of answers"] = (
            "the file names no end token: answers end at an end token that the engine finds, or at -n"
        )
    width = max(map(len, lines)) + 2
    return [line for key, shown in lines.items() for line in wrapped(f"{key:<{width}}{plain(shown)}", 0, width)]


def _special(checked: Checked) -> str:
    """Return the special tokens with their roles; where two models differ, the notes say how."""
    target, *draft = checked.models
    roles = [f"{role} {token_words(target, token)}" for role, token in target.info.special.items()]
    shown = ", ".join(roles) or "none named"
    if not draft:
        return shown
    return f"{shown}; {'the same in both' if draft[0].info.special == target.info.special else 'of the target'}"


def _infills(checked: Checked) -> str:
    """Return the infill tokens; only the target's matter, because infill prompts go to the target."""
    target, *draft = checked.models
    shown = " ".join(target.info.fim) or "no"
    if not draft:
        return shown
    if draft[0].info.fim == target.info.fim:
        return f"{shown}, both" if target.info.fim else "no, neither"
    return f"{shown}; the draft model: {' '.join(draft[0].info.fim) or 'no'}"


def _templates(checked: Checked) -> str:
    """Return the comparison of the chat templates; only the target's is used."""
    target, *draft = checked.models
    if not draft or broken_templates(target):
        return template_words(target)
    if draft[0].template == target.template:
        return "the same in both" if target.template else "no, neither"
    if not target.template:
        return "only in the draft model, which does not use it"
    if checked.differences:
        return "the target's for the target, the draft model's own for the draft model"
    differs = "they differ" if draft[0].template else "only in the target"
    return f"{differs}; the target's is used, the draft model needs none"


def _memory(checked: Checked) -> list[str]:
    rows = [memory_row(role, plan) for role, plan in zip(_ROLES, checked.plans, strict=False)]
    if len(rows) > 1:
        parts = ("weights", "cache", "buffers", "total")
        rows.append(["both", *(size(sum(getattr(plan, part) for plan in checked.plans)) for part in parts)])
    context = checked.plans[0].context
    beyond = beyond_training(context, checked.infos[0].context)
    lines = [f"Memory with a context of {context:,} tokens:", *table(_HEAD, rows, 2, {0})]
    lines += wrapped(beyond, 0) if beyond else []
    return lines + [line for text in (checked.placed.words if checked.placed else ()) for line in wrapped(text, 0)]


def _verdict(checked: Checked) -> list[str]:
    fits = checked.fits
    where = " on the GPU" if checked.room.on_gpu else ""
    room = f"{size(checked.need)} needed, {size(checked.room.free)} free{where}"
    lines = [f"{'They fit' if len(checked.infos) > 1 else 'It fits'}: {room}." if fits else f"Too large: {room}."]
    if not fits:
        lines.append(_less(checked.largest))
    if checked.reasons:
        return [*lines, f"Not usable together. {_OTHER_DRAFT}"]
    if fits and checked.foreseen is not None and not checked.foreseen.prediction.pays:
        return [*lines, "Usable, but no speed-up is predicted on this machine."]
    if not fits:
        return lines
    if broken := broken_templates(checked.models[0]):
        return [*lines, f"Usable, but not for {' or '.join(broken)}: {_WITHOUT}"]
    if checked.differences:
        return [
            *lines,
            "Good to use. Drafts go as text; a draft model with the target's tokens is accepted more often.",
        ]
    return [*lines, "Good to use."]


def _less(largest: int) -> str:
    if largest:
        return f"Use a smaller context: -c {largest} fits."
    return "Close other programs, or use a smaller model or quantisation."


def _record(checked: Checked) -> dict[str, Any]:
    models = [_model(info, plan) for info, plan in zip(checked.infos, checked.plans, strict=True)]
    both = len(models) > 1
    return {
        "type": "check",
        **dict(zip(_ROLES, models, strict=False)),
        "context": checked.plans[0].context,
        "pair": not checked.reasons if both else None,
        "drafts": _drafts(checked) if both else None,
        "reasons": checked.reasons,
        "differences": checked.differences,
        "notes": checked.notes,
        "broken_chat_templates": broken_templates(checked.models[0]),
        "chat_templates_equal": len({model.template for model in checked.models}) == 1 if both else None,
        "placement": checked.placed.record if checked.placed else None,
        "standing": checked.standing.record if checked.standing else None,
        "predicted": prediction_record(checked.foreseen) if checked.foreseen else None,
        "need": checked.need,
        "available": checked.room.free,
        "on_gpu": checked.room.on_gpu,
        "fits": checked.fits,
        "largest_context": checked.largest,
        "exit_code": checked.exit_code,
    }


def _drafts(checked: Checked) -> str:
    """Return how the draft model drafts, as scripts read it."""
    if checked.reasons:
        return "not usable"
    return "as text" if checked.differences else "same tokens"


def _model(info: ModelInfo, plan: MemoryPlan) -> dict[str, Any]:
    about = {key: value for key, value in asdict(info).items() if key != "shape"}
    return {**about, "path": str(info.path), "memory_plan": {**asdict(plan), "total": plan.total}}
