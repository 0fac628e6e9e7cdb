"""Report of `tune`, at most 80 columns wide: tables, a sentence for each choice, a small plot; and its JSON record."""

import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.engine.costs.speedup_model import Prediction
from app.shell.terminal import bar
from app.tune.card import Written
from app.tune.measuring.choice import Measure, verdict
from app.tune.measuring.draft_model import DraftFindings, DraftMeasure
from app.tune.measuring.target import TargetFindings
from app.tune.measuring.threads import WIDE

_WIDTH = 80
_PLOT = 56
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_STARVED = (
    "Other programs hold the processor: all cores together were far slower than some of them, which does not happen "
    "on an idle machine. These measurements are not stored: close the programs and tune again."
)
_BUSY = "Other programs were using the processor: the figures are rough. Close them and tune again."


@dataclass(frozen=True, slots=True)
class TuneOutcome:
    """Outcome of a run besides its findings."""

    seconds: float
    """Seconds of the whole run."""
    busy: bool
    """Whether other programs were using the processor."""
    allow_rounding: bool
    stored: str | None
    """File of the stored results; None: nothing is stored."""
    gain: Prediction | None = None
    """Predicted gain of the draft model; None without one."""
    card: Written | None = None
    """Pair card that was written."""
    threads: int = 0
    """Threads given by the user, without which the result is not used; 0: none."""


def progress_line(what: str, elapsed: float, seconds: float) -> str:
    """Return one line: a bar of the time spent, and the present measurement."""
    return f"{bar(elapsed, seconds)} {elapsed:3.0f} s  {what}"[: _WIDTH - 1]


def report(target: TargetFindings, draft: DraftFindings | None, outcome: TuneOutcome) -> str:
    """Return all findings, complete or not."""
    parts = [_wrapped(f"{target.model}, {target.description}: measured in {outcome.seconds:.0f} s")]
    if target.threads:
        parts.append(_threads(target))
    if target.rows:
        parts.append(_settings(target))
        parts += _verdicts(target, allow_rounding=outcome.allow_rounding)
    if target.tuned is not None:
        parts.append(plot(target.tuned.verify, target.tuned.depth, unicode=_can_write(_EIGHTHS)))
    if draft is not None and draft.rows:
        parts.append(_draft(draft))
    notes = [*target.notes, *(draft.notes if draft else [])]
    if target.starved or (draft is not None and draft.starved):
        notes.append(_STARVED)
    elif outcome.busy:
        notes.append(_BUSY)
    parts += [_wrapped(note) for note in notes]
    users = f"later runs with -t {outcome.threads}" if outcome.threads else "later runs"
    parts.append(f"Stored in {outcome.stored}; {users} use it." if outcome.stored else "Nothing was stored.")
    parts += _pair(outcome)
    return "\n\n".join(parts) + "\n"


def record(target: TargetFindings, draft: DraftFindings | None, outcome: TuneOutcome) -> dict[str, Any]:
    """Return all findings as one JSON object; all times in seconds."""
    found = asdict(target)
    found["chosen"] = target.chosen.label if target.chosen else None
    found["draft"] = _plain(asdict(draft)) if draft else None
    gain, card = outcome.gain, outcome.card
    about = {key: getattr(outcome, key) for key in ("seconds", "busy", "allow_rounding", "stored")}
    predicted = {"least": gain.least, "most": gain.most, "draft_lengths": gain.lengths} if gain else None
    written = {"name": f"pair:{card.name}", "path": str(card.path)} if card else None
    return {"type": "tune", **_plain(found), **about, "predicted_speed_up": predicted, "card": written}


def plot(seconds: Mapping[int, float], depth: int, *, unicode: bool) -> str:
    """Return T(w) / T(1) as bars, one line for each width."""
    ratios = {width: taken / seconds[1] for width, taken in sorted(seconds.items())}
    longest = max(ratios.values())
    head = f"T(w) / T(1) at {depth:,} tokens of context; T(1) = {_ms(seconds[1])}"
    lines = [
        f"  {width:>3} {ratio:>6.2f}  {_bar(_PLOT * ratio / longest, unicode=unicode)}"
        for width, ratio in ratios.items()
    ]
    return "\n".join([head, *lines])


def _pair(outcome: TuneOutcome) -> list[str]:
    """Return the predicted gain of the pair, and the place of its card."""
    parts = []
    if outcome.gain is not None:
        low, high = (f"{speed:.2f}" for speed in (outcome.gain.least, outcome.gain.most))
        gain = f"Predicted speed-up with this draft model, from hard to easy text: {low} to {high}"
        pays = "" if outcome.gain.pays else ", so it does not pay off here"
        parts.append(_wrapped(f"{gain}{pays}. localspec bench measures it."))
    if outcome.card is not None:
        parts.append(f"Pair card: {outcome.card.path}\nUse it: localspec run pair:{outcome.card.name}")
    return parts


def _threads(target: TargetFindings) -> str:
    taken = target.rows[0].setting if target.rows else None
    rows = [("threads", "one token", f"{WIDE} tokens")]
    for measured_cost in target.threads:
        stars = (bool(taken and measured_cost.threads == count) for count in _counts(taken))
        first, second = ("*" if star else " " for star in stars)
        wide = "-" if measured_cost.wide is None else _ms(measured_cost.wide)
        rows.append((str(measured_cost.threads), f"{_ms(measured_cost.one_token)} {first}", f"{wide} {second}"))
    return "\n".join(f"  {count:>7} {narrow:>14} {wide:>14}" for count, narrow, wide in rows)


def _counts(taken: Any) -> tuple[int, int]:
    return (taken.threads, taken.batch_threads) if taken else (0, 0)


def _settings(target: TargetFindings) -> str:
    depths = sorted({depth for row in target.rows for depth in row.seconds})
    head = "".join(f"{f'at {depth:,}':>9}" for depth in depths)
    lines = [f"  {'one token':<47}{head}{'exact to':>10}"]
    for row in target.rows:
        cells = "".join(f"{_cell(row, depth):>9}" for depth in depths)
        star = " *" if row is target.chosen else ""
        lines.append(f"  {_short(row.label):<47}{cells}{row.exact_width if row.exact else '-':>10}{star}")
    return "\n".join(lines)


def _verdicts(target: TargetFindings, *, allow_rounding: bool) -> Sequence[str]:
    if target.chosen is None:
        return []
    default, *others = target.rows
    return [_wrapped(verdict(row, default, target.chosen, allow_rounding=allow_rounding)) for row in others]


def _draft(draft: DraftFindings) -> str:
    depths = sorted({depth for row in draft.rows for depth in row.one_token})
    head = "".join(f"{f'at {depth:,}':>9}" for depth in depths)
    lines = [f"  {_short(f'draft step, {draft.model}'):<47}{head}{'size':>10}"]
    for row in draft.rows:
        cells = "".join(f"{_step(row, depth):>9}" for depth in depths)
        lines.append(f"  {_short(row.label):<47}{cells}{f'{row.size / 2**20:,.0f} MiB':>10}{_taken(row, draft)}")
    return "\n".join(lines)


def _taken(row: DraftMeasure, draft: DraftFindings) -> str:
    return " *" if draft.tuned is not None and row.one_token == draft.tuned.one_token else ""


def _cell(row: Measure, depth: int) -> str:
    return _ms(row.seconds[depth][1]) if depth in row.seconds else "-"


def _step(row: DraftMeasure, depth: int) -> str:
    return _ms(row.one_token[depth]) if depth in row.one_token else "-"


def _short(text: str) -> str:
    return text if len(text) <= 47 else text[:46] + "~"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _bar(length: float, *, unicode: bool) -> str:
    if not unicode:
        return "#" * max(1, round(length))
    eighths = max(1, round(8 * length))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _can_write(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _plain(value: Any) -> Any:
    """Return a value for JSON: keys and paths become text."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value
