"""Judge the constants of drafting on recorded answers: python tests/support/run.py constants [NAME ...] [--jobs N]

Each number of app/engine/constants.py is halved and doubled (of a factor near 1, its distance from 1 is), and the
recorded answers are played with it, by the real engine and controller, in the situations of `decision_log`. The prompts
are in two halves. The first half chooses: a value counts as better if it gains at least .2 % there and makes no more
answers slower than plain decoding. What it gains on the second half is shown beside it. Lists are not varied.

With --counted the chances of drafters/chances.py and of the first acceptance are counted again, on each half.

    --recordings FILE   play these answers, as `text_drafts --record` writes them; else tests/data/traces.jsonl.gz
    --situations A,B    only situations whose names begin so
    --jobs N            processes at a time; default 2
"""

import argparse
import ast
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any
from unittest.mock import patch

import app.engine.constants as all_constants

_LEAST_GAIN = 0.002
_SLOWER = 0.985
"""Speed over plain decoding below which an answer counts as slower."""
_TOOL = [str(Path(__file__).parents[1] / "run.py"), "constants"]
_NOT_PLAYED = frozenset({"CHEAP_ROW", "DEAR_ROW", "WORTH", "HINT", "CHANGE_WORTH"})
"""Constants that decide before an answer begins, about a probe that recordings lack, or between two draft models."""


@dataclass(frozen=True, slots=True)
class Score:
    """What one setting gives on one half."""

    speedup: float
    """Geometric mean over the situations and classes."""
    slower: float
    """Share of the answers that took longer than plain decoding."""


Scores = tuple[Score, Score]
"""Of the half that chooses, and of the half that judges."""


def numbers() -> dict[str, float]:
    """Return the constants that can be varied."""
    found = {name: value for name, value in vars(all_constants).items() if name.isupper() and name not in _NOT_PLAYED}
    return {name: value for name, value in found.items() if isinstance(value, int | float)}


def others(value: float) -> tuple[float, ...]:
    """Return the values to try in place of one."""
    if isinstance(value, int):
        return tuple(dict.fromkeys(each for each in (max(1, value // 2), value * 2) if each != value))
    if 0.5 < value < 1:
        return 1 - 2 * (1 - value), 1 - (1 - value) / 2
    return value / 2, value * 2


# --- Playback, in a process of its own: constants are read when modules are imported


def played(changed: Mapping[str, float], recordings: str | None, situations: Sequence[str]) -> list[list[float]]:
    """Return speed-up and share of slower answers of both halves, with some constants changed."""
    for name, value in changed.items():
        setattr(all_constants, name, value)
    import decision_log

    traces = _traces(recordings) if recordings else decision_log.traces()
    chosen = [each for each in decision_log.SITUATIONS if not situations or each.name.startswith(tuple(situations))]
    found = []
    for half in halves(traces):
        with patch.object(decision_log, "traces", lambda half=half: half):
            found.append(_score(list(decision_log.logged_answers(chosen))))
    return found


def halves(traces: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Divide recordings by prompt: both temperatures of one are in the same half, and each class is in both."""
    places: dict[str, int] = {}
    counts: dict[str, int] = defaultdict(int)
    for trace in traces:
        name = f"{trace.kind} {hash(trace.prompt)}"
        if name not in places:
            places[name] = counts[trace.kind] % 2
            counts[trace.kind] += 1
    by_half = [tuple(one for one in traces if places[f"{one.kind} {hash(one.prompt)}"] == half) for half in (0, 1)]
    return by_half[0], by_half[1]


def _traces(path: str) -> tuple[Any, ...]:
    from replay import load

    found = [trace for temperature in (0.0, 0.7) for trace in load(Path(path), temperature)]
    return tuple(sorted(found, key=lambda trace: trace.kind))


def _score(answers: Sequence[Any]) -> list[float]:
    by_class: dict[tuple[str, str], list[float]] = defaultdict(list)
    for answer in answers:
        by_class[answer.key.split(",")[0], answer.kind].append(answer.speedup)
    means = (len(each) / sum(1 / one for one in each) for each in by_class.values())
    slow = sum(answer.speedup < _SLOWER for answer in answers if not answer.key.startswith("shared"))
    return [geometric_mean(means), slow / len(answers)]


def score(changed: Mapping[str, float], options: argparse.Namespace) -> Scores:
    """Play with some constants changed, in a child process."""
    command = [sys.executable, *_TOOL, "--child", json.dumps(changed), "--situations", options.situations]
    command += ["--recordings", options.recordings] if options.recordings else []
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    first, second = json.loads(done.stdout.splitlines()[-1])
    return Score(*first), Score(*second)


# --- Counted chances


def counted(recordings: str | None) -> Iterator[str]:
    """Yield lines with the chances that drafters state, and how often they were right, on each half."""
    import decision_log

    groups = halves(_traces(recordings) if recordings else decision_log.traces())
    copies, models = [_copies(half) for half in groups], [_model(half) for half in groups]
    for title, tables in (("copies, by stated chance", copies), ("draft model, by class", models)):
        yield title
        for key in sorted({key for table in tables for key in table}):
            shown = (f"{_share(table[key])} of {len(table[key]):5}" if key in table else " " * 12 for table in tables)
            yield f"  {key:<28} {'   '.join(shown)}"


def _copies(traces: Sequence[Any]) -> dict[str, list[bool]]:
    """Return whether the first token of a copy was right, by the chance that the suffix index stated."""
    from drafters.suffix import SuffixDrafter
    from models.sampling.sampler import Sampler, SamplingParams

    found: dict[str, list[bool]] = defaultdict(list)
    for trace in traces:
        drafter = SuffixDrafter(lambda _: False)
        drafter.begin(trace.prompt, Sampler(SamplingParams(temperature=0)))
        for place, token in enumerate(trace.answer):
            draft = drafter.propose((*trace.prompt, *trace.answer[:place]), 1)
            if draft.tokens:
                found[f"{draft.confidence[0]:.2f}"].append(draft.tokens[0] == token)
            drafter.accept((token,), 0)
    return found


def _model(traces: Sequence[Any]) -> dict[str, list[bool]]:
    found: dict[str, list[bool]] = defaultdict(list)
    for trace in traces:
        found[trace.kind] += [drafted == token for drafted, token in zip(trace.proposal, trace.answer, strict=True)]
    return found


def _share(right: Sequence[bool]) -> str:
    return f"{sum(right) / len(right):.2f}"


# --- The command


def judged(name: str, value: float, tried: Mapping[float, Scores], now: Scores) -> str:
    """Return the line of one constant: each other value with its gain on both halves, and what follows."""
    shown, better = [], []
    for other, (first, second) in tried.items():
        gains = first.speedup / now[0].speedup - 1, second.speedup / now[1].speedup - 1
        slower = first.slower - now[0].slower, second.slower - now[1].slower
        shown.append(f"{other:g}: {gains[0]:+.1%} {gains[1]:+.1%} (slower {slower[0]:+.1%} {slower[1]:+.1%})")
        if gains[0] >= _LEAST_GAIN and slower[0] <= 0:
            better.append((gains[0], other, gains[1] > 0 and slower[1] <= 0))
    verdict = "kept"
    if better:
        _, other, confirmed = max(better)
        verdict = f"{other:g} is better on the first half, and {'too' if confirmed else 'not'} on the second"
    return f"{name:<18} {value:<6g} {'; '.join(shown)}: {verdict}"


def main() -> None:
    """Print what each constant's neighbours would give."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--recordings")
    parser.add_argument("--situations", default="")
    parser.add_argument("--counted", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--child", type=ast.literal_eval, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        situations = [name for name in options.situations.split(",") if name]
        print(json.dumps(played(options.child, options.recordings, situations)))
        return
    if options.counted:
        for line in counted(options.recordings):
            print(line)
        return
    every = numbers()
    if unknown := [name for name in options.names if name not in every]:
        parser.error(f"no number to vary is named {', '.join(unknown)}; there are {', '.join(every)}")
    asked = {name: every[name] for name in options.names or every}
    with ThreadPoolExecutor(options.jobs) as pool:
        present = pool.submit(score, {}, options)
        tries = {
            name: {o: pool.submit(score, {name: o}, options) for o in others(value)} for name, value in asked.items()
        }
        now = present.result()
        for half, each in zip(("choosing", "judging"), now, strict=True):
            print(f"{half} half: {each.speedup:.3f}, slower than plain: {each.slower:.1%}", flush=True)
        for name, value in asked.items():
            tried = {other: job.result() for other, job in tries[name].items()}
            print(judged(name, value, tried, now), flush=True)


if __name__ == "__main__":
    main()
