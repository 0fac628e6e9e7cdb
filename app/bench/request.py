"""Request of `bench`, read from its flags; contradictions are refused before anything is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.bench.measuring.arm_names import ALL, ArmSpec, parse_arms, with_every_method
from app.bench.measuring.arms import BenchPrompt
from app.bench.prompts import choose, names_in, read_prompts
from app.bench.suites import Suite, read_suite
from app.engine.costs.pass_cost import QUICK_WIDTHS
from app.engine.runtime.load import LoadPlan
from app.flags.load_plan import read_plan, with_standing
from app.flags.request import read_sampling
from app.shell.extras import install_command
from drafters.registry import AUTO, HEAD, DrafterSpec
from models.errors import UsageError
from models.library.catalog import STARTER
from models.sampling.sampler import SamplingParams
from models.system.home import at_home

_PLOTS = (".svg", ".png")


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """Settings of one `bench` run."""

    plan: LoadPlan
    arms: tuple[ArmSpec, ...]
    prompts: tuple[BenchPrompt, ...]
    samplings: tuple[SamplingParams, ...]
    """Sampling settings, one for each temperature."""
    max_tokens: int
    allow_rounding: bool
    as_json: bool
    plot: Path | None
    quiet: bool
    league: bool = False
    """Whether every method was asked for: those that can't be used are left out, and the others ranked."""
    suite: str | None = None
    """Name of the published benchmark that the prompts are from; None for other prompts."""
    notes: tuple[str, ...] = ()
    """Notes on the prompts for the user."""


def read_bench(model: str | None, flags: dict[str, Any]) -> BenchRequest:
    """Read the argument and flags of `bench`; raises UsageError."""
    # LOCALSPEC_MODEL comes as the argument, and -m is the more explicit of the two.
    plan = _plan(flags["model_option"] or model or STARTER, flags)
    names = names_in("--vs", flags["vs"])
    league = ALL in names
    has_draft = league or bool(plan.drafter.model)
    arms = parse_arms(with_every_method(names), flags["draft_max"], has_draft=has_draft)
    if not plan.drafter.model and any(arm.kind in (AUTO, HEAD) for arm in arms):
        # So that a head in the target's file is loaded.
        plan = replace(plan, drafter=DrafterSpec(HEAD))
    suite = _suite(flags)
    read = suite.prompts if suite else read_prompts(flags["prompts"])
    prompts = choose(read, names_in("--class", flags["classes"]), flags["limit"])
    return BenchRequest(
        plan=_with_rows(plan, arms),
        arms=tuple(arms),
        prompts=tuple(prompts),
        samplings=tuple(read_sampling({**flags, "temp": temperature}) for temperature in _temperatures(flags["temp"])),
        max_tokens=flags["predict"],
        allow_rounding=flags["allow_rounding"],
        as_json=flags["as_json"],
        plot=_plot(flags["plot"]),
        quiet=flags["quiet"],
        league=league,
        suite=suite.name if suite else None,
        notes=(suite.note,) if suite and suite.note else (),
    )


def _plan(model: str, flags: dict[str, Any]) -> LoadPlan:
    plan = read_plan(model, {**flags, "draft": flags["draft"] or "auto"})
    if plan.drafter.model:
        return with_standing(plan)
    if plan.drafter.kind != "auto":
        raise UsageError(
            f"--draft {flags['draft']} is not a draft model.", hint="Give --draft a GGUF file here; arms go in --vs."
        )
    return with_standing(replace(plan, drafter=DrafterSpec("off")))


def _suite(flags: dict[str, Any]) -> Suite | None:
    """Return the prompts of --suite; None without it. Raises UsageError."""
    given = flags.get("suite")
    if not given:
        return None
    if flags["prompts"] is not None:
        raise UsageError("--suite and --prompts name two files of prompts.", hint="Leave out one of them.")
    return read_suite(*given)


def _with_rows(plan: LoadPlan, arms: Sequence[ArmSpec]) -> LoadPlan:
    """Return the plan with passes as wide as the drawn curve and the longest draft."""
    rows = max(plan.options.max_rows, QUICK_WIDTHS[-1], *(arm.length + 1 for arm in arms))
    return replace(plan, options=replace(plan.options, max_rows=rows))


def _temperatures(values: Sequence[str]) -> list[float]:
    temperatures = [float(name) for name in names_in("--temp", values)]
    return list(dict.fromkeys(temperatures))


def _plot(name: str | None) -> Path | None:
    """Return the path of the drawing; an unusable path is refused now, not after minutes of measuring."""
    if name is None:
        return None
    path = at_home(name, "--plot")
    if path.suffix.lower() not in _PLOTS:
        raise UsageError(f"--plot {name} is neither .svg nor .png.", hint="Use one of these extensions.")
    if not path.parent.is_dir():
        raise UsageError(f"--plot {name}: there is no folder {path.parent}.", hint="Create it, or name another file.")
    if find_spec("matplotlib") is None:
        raise UsageError(
            "--plot needs matplotlib, which is not installed.", hint=f"Install it: {install_command('plot')}"
        )
    _check_writable(path)
    return path


def _check_writable(path: Path) -> None:
    """Open the file as the drawing will, changing nothing: an existing file stays, a new one is removed again."""
    try:
        # For a link, the file that it leads to.
        file = path.resolve()
        was_there = file.exists()
        file.open("ab").close()
        if not was_there:
            file.unlink()
    except OSError as error:
        hint = "Name a file that can be written."
        raise UsageError(f"--plot {path} can't be written.", cause=str(error.strerror), hint=hint) from error
