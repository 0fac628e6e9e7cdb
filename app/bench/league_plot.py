"""Drawing of a league: what `auto` drafted with in each class, as shares of its rounds. Needs matplotlib."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from app.bench.measuring.league import ClassLeague


def draw_rounds(part: Axes, leagues: Sequence[ClassLeague]) -> None:
    """Draw a stacked bar for each class of one temperature; methods keep their colour over the classes."""
    classes = [league.class_name for league in leagues]
    shares = [dict(league.auto_rounds) for league in leagues]
    bottom = [0.0] * len(leagues)
    for method in dict.fromkeys(method for each in shares for method in each):
        heights = [100 * each.get(method, 0.0) for each in shares]
        part.bar(range(len(classes)), heights, 0.6, bottom, label=method)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    part.set_xticks(range(len(classes)), classes)
    part.set_ylabel("auto's rounds, %")
    part.set_title(f"what auto drafted with, temperature {leagues[0].temperature:g}")
    if any(shares):
        part.legend(fontsize="small")
