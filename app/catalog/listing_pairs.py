"""`localspec models pairs`: the pair cards, with missing models marked."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.catalog.pairs import card_files, open_pair
from app.catalog.words import plain
from app.shell.columns import table
from app.shell.paths import pairs_folder
from app.shell.terminal import Terminal
from models.errors import LocalspecError, ModelFileError
from models.library.names import PAIR
from models.library.pair_card import PairCard, read_card

_HEAD = ("NAME", "TARGET", "DRAFT", "PREDICTED", "MEASURED", "MADE", "HERE")
_FLUSH_LEFT = {0, 1, 2, 5, 6}
_HINT = "There are no pair cards. localspec tune TARGET --draft DRAFT makes one."


def list_pairs(*, as_json: bool) -> None:
    """Print every card; unusable ones with the reason."""
    terminal, files = Terminal(), card_files()
    if as_json:
        record = {"type": "pairs", "folder": str(pairs_folder()), "pairs": [_record(path) for path in files]}
        terminal.say(json.dumps(record, default=str) + "\n")
    elif files:
        terminal.say("\n".join(_lines(files)) + "\n")
    else:
        terminal.show(_HINT)


def _lines(files: list[Path]) -> list[str]:
    cards, broken = {}, []
    for path in files:
        try:
            cards[path] = read_card(path)
        except LocalspecError as error:
            broken.append(f"{path.stem}: {_reason(error)}")
    rows = [_row(path, card) for path, card in cards.items()]
    lines = table(_HEAD, rows, 0, _FLUSH_LEFT) if rows else []
    return lines + ([""] * bool(rows) + ["Can't be used:", *(f"  {line}" for line in broken)] if broken else [])


def _row(path: Path, card: PairCard) -> list[str]:
    low, high = (f"{speed:.2f}" for speed in card.predicted_speed_up)
    measured = "" if card.measured_speed_up is None else f"{card.measured_speed_up:.2f}"
    names = [plain(model.name) for model in (card.target, card.draft)]
    predicted = low if low == high else f"{low}-{high}"
    return [f"{PAIR}{path.stem}", *names, predicted, measured, str(card.made.date), "no" if _missing(path) else "yes"]


def _record(path: Path) -> dict[str, Any]:
    about = {"name": f"{PAIR}{path.stem}", "path": str(path)}
    try:
        card = read_card(path)
    except LocalspecError as error:
        return {**about, "reason": _reason(error)}
    missing = _missing(path)
    return {**about, **asdict(card), "here": not missing, "missing": missing or None}


def _missing(path: Path) -> str:
    """Return the reason why a card's models are missing; "" if both are here."""
    try:
        open_pair(f"{PAIR}{path}")
    except ModelFileError as error:
        return _reason(error)
    return ""


def _reason(error: LocalspecError) -> str:
    return plain(" ".join(part for part in (error.title, error.cause) if part))
