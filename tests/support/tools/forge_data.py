"""What more answers give a forged head: python tests/support/run.py forge_data TARGET FOLDER [--minutes M].

FOLDER is what `localspec forge TARGET` has left in the cache folder: the target's answers and the computed start. A
head is trained for the same time from the same start on a quarter, on half and on all of these answers, and measured on
the same held-back ones. Needs torch.
"""

import argparse
import random
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from app.forge.answering.parts import HELD, Parts, Stored
from app.forge.training.head_facts import head_facts
from models.library.catalog import find_model


class SomeAnswers:
    """Stored answers of which only a share is learnt from; the held-back ones stay in their places."""

    def __init__(self, parts: Parts, share: float) -> None:
        self.read = parts.read
        held = parts.answers[::HELD]
        learnt = [each for number, each in enumerate(parts.answers) if number % HELD]
        random.Random(1).shuffle(learnt)
        self.learnt = learnt[: round(share * len(learnt))]
        self.answers: list[Stored] = []
        for first in range(0, len(self.learnt), HELD - 1):
            self.answers += [held[0], *self.learnt[first : first + HELD - 1]]

    @property
    def tokens(self) -> int:
        """Tokens of the answers that are learnt from."""
        return sum(each.length for each in self.learnt)


def trained(target: Path, parts: Parts, share: float, start: dict[str, Any], asked: argparse.Namespace) -> str:
    """Train on a share of the answers; return a line with what came of it."""
    # They need torch, and its absence has to be said in words first.
    from app.forge.training.session import TrainingSession
    from app.forge.training.trainer import Batches

    facts = head_facts(target)
    request = SimpleNamespace(target=target, threads=asked.threads, device="auto")
    session = TrainingSession(request, facts, Path("none"), parts, start)  # type: ignore[arg-type]
    some = SomeAnswers(parts, share)
    batches = Batches(some, start["kept"], facts.vocabulary)  # type: ignore[arg-type]
    # Whatever the share, the same answers are held back.
    session._batches = SimpleNamespace(endless=batches.endless, held=session._batches.held)  # type: ignore[assignment]
    session.begin()
    began, wanted = time.monotonic(), asked.minutes * 60
    session.run(lambda: (time.monotonic() - began) / wanted, lambda _: None)
    return f"{some.tokens:>9,} {session.places:>12,}   {_shares(session.accuracy())}"


def parts_in(folder: Path) -> Parts | None:
    """Return the stored answers of a folder; None where there are none. Makes no folder."""
    parts = Parts(folder / "data") if (folder / "data").is_dir() else None
    return parts if parts is not None and parts.answers else None


def _shares(right: Sequence[float]) -> str:
    return "  ".join(f"{share:5.1%}" for share in right)


def main() -> None:
    """Print a table: tokens learnt from, places seen, right by step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=5, help="of training, each")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--shares", default="0.25,0.5,1")
    asked = parser.parse_args()
    if find_spec("torch") is None:
        parser.error("it trains, which needs torch: localspec[forge] brings it.")
    parts, made = parts_in(asked.folder), asked.folder / "start.npz"
    if parts is None or not made.is_file():
        parser.error(
            f"{asked.folder} has no answers with a computed start: run `localspec forge {asked.target}` first."
        )
    target = find_model(asked.target)
    with np.load(made) as file:
        start = {name: file[name] for name in file.files}
    print("   tokens  places seen   right at step 1, 2, ...", flush=True)
    for share in map(float, asked.shares.split(",")):
        print(trained(target, parts, share, start, asked), flush=True)


if __name__ == "__main__":
    main()
