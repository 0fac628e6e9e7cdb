"""Drawing of a benchmark: speed-ups by class and arm, pass costs, and what `auto` used. Needs matplotlib."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from app.bench.findings import BenchFindings
from app.bench.league_plot import draw_rounds
from app.bench.measuring.arithmetic import geometric_mean
from app.bench.measuring.league import ClassLeague
from app.bench.measuring.results import Result
from app.engine.costs.pass_cost import VerifyCurve
from models.errors import LocalspecError

_INCHES = (9.0, 3.2)
"""Width of the drawing and height of each part, in inches."""
_BARS = 0.8
"""Share of a class's width that its bars fill."""
_ABOVE = 2.0
"""Largest height of the drawing, in tallest bars: an interval of two prompts can reach 100, and would hide all bars."""


def draw(findings: BenchFindings, path: Path) -> None:
    """Write an SVG or PNG file, by its extension: one part for each temperature, and one for the pass costs.

    A league has a further part for each temperature: what `auto` drafted with.

    Raises LocalspecError where the file can't be written.
    """
    by_temperature = [list(group) for _, group in groupby(findings.results(), key=lambda result: result.temperature)]
    oracle = findings.conditions.oracle if findings.conditions else None
    leagues = _leagues(findings)
    parts = len(by_temperature) + len(leagues) + (oracle is not None)
    figure = Figure(figsize=(_INCHES[0], _INCHES[1] * parts), layout="constrained")
    axes: list[Axes] = list(figure.subplots(parts, 1, squeeze=False)[:, 0])
    for results, part in zip(by_temperature, axes, strict=False):
        _draw_speed_ups(part, results)
    for members, part in zip(leagues, axes[len(by_temperature) :], strict=False):
        draw_rounds(part, members)
    if oracle is not None:
        _draw_curve(axes[-1], oracle.curve, oracle.widest)
    # Equal figures give equal files: no date, and no random names inside.
    with mpl.rc_context({"svg.hashsalt": "localspec"}):
        try:
            figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
        except OSError as error:
            hint = "The figures above are complete."
            raise LocalspecError(f"{path} can't be drawn.", cause=str(error.strerror or error), hint=hint) from error


def _leagues(findings: BenchFindings) -> list[list[ClassLeague]]:
    """Return the leagues by temperature in which `auto` ran; none where no league was asked for."""
    found = [league for league in findings.leagues() if league.auto_rounds] if findings.request.league else []
    return [list(group) for _, group in groupby(found, key=lambda league: league.temperature)]


def _draw_speed_ups(part: Axes, results: Sequence[Result]) -> None:
    classes = list(dict.fromkeys(result.class_name for result in results))
    arms = list(dict.fromkeys(result.arm for result in results if result.verdict is not None))
    width = _BARS / max(1, len(arms))
    for number, arm in enumerate(arms):
        shown = [result for result in results if result.arm == arm and result.speed_up is not None]
        places = [classes.index(result.class_name) + (number - (len(arms) - 1) / 2) * width for result in shown]
        heights = [result.speed_up or 0.0 for result in shown]
        mean = geometric_mean(heights)
        label = arm if mean is None else f"{arm} ({mean:.2f})"
        part.bar(places, heights, width, label=label, yerr=_errors(shown), capsize=2, error_kw={"linewidth": 0.8})
    part.axhline(1.0, color="black", linewidth=0.8)
    tallest = max(result.speed_up or 0.0 for result in results)
    part.set_ylim(bottom=0, top=min(part.get_ylim()[1], _ABOVE * tallest))
    part.set_xticks(range(len(classes)), classes)
    part.set_ylabel("speed-up over plain")
    part.set_title(f"temperature {results[0].temperature:g}")
    if arms:
        part.legend(fontsize="small")


def _errors(results: Sequence[Result]) -> list[list[float]]:
    """Return how far the intervals reach below and above the bars; 0 where there is none."""
    below, above = [], []
    for result in results:
        middle = result.speed_up or 0.0
        low, high = result.interval or (middle, middle)
        below.append(max(0.0, middle - low))
        above.append(max(0.0, high - middle))
    return [below, above]


def _draw_curve(part: Axes, curve: VerifyCurve, widest: int) -> None:
    widths = list(curve.measured)
    part.plot(widths, [curve.ratio(width) for width in widths], marker="o", label="measured")
    part.plot(widths, widths, linestyle=":", color="grey", label="one pass per token")
    if widest < widths[-1]:
        part.axvline(widest, color="grey", linewidth=0.8, label="widest pass allowed")
    part.set_ylim(bottom=0, top=1.1 * max(curve.ratio(width) for width in widths))
    part.set_xlabel("tokens in a pass (w)")
    part.set_ylabel("T(w) / T(1)")
    part.legend(fontsize="small")
