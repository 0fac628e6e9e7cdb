"""Pairs by name: where cards are, the files that they mean on this machine, and a new one after `tune`."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from app.catalog.listing import headers_file
from app.shell.paths import machine_memory, pairs_folder
from models.errors import LocalspecError, ModelFileError, UsageError
from models.gguf.file import parts_of
from models.gguf.fingerprint import fingerprint
from models.library.catalog import STARTER, find_model
from models.library.local import local_models
from models.library.names import PAIR, find_named, hub_name
from models.library.pair_card import CardModel, PairCard, card_text, read_card
from models.system.home import at_home
from models.system.machine import machine_id
from models.system.remembered import Remembered
from models.system.whole_file import SHARED, write_whole

_ENDING = ".toml"
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair card, and the two files it means here."""

    name: str
    card: PairCard
    target: Path
    draft: Path

    @property
    def note(self) -> str:
        """What the user should know of a card of another machine; "" for one of this."""
        if self.card.made.machine_id == machine_id():
            return ""
        return (
            f"{self.name} was made on another machine ({self.card.made.machine}): only the pair is used, not "
            f"its settings. localspec tune {PAIR}{self.name} finds those of this machine."
        )


@dataclass(frozen=True, slots=True)
class Named:
    """A target and its draft model, by names that stand for one model each."""

    target: str
    draft: str | None
    """None: no draft model was named."""
    note: str = ""
    """What the user should know of it; "" for nothing."""


def taken_apart(target: str, draft: str | None) -> Named:
    """Return the two models of a pair, and any other names as they are; a draft named beside a pair wins.

    Raises errors as `open_pair` does.
    """
    if not target.startswith(PAIR):
        return Named(target, draft)
    pair = open_pair(target)
    return Named(str(pair.target), draft or str(pair.draft), pair.note)


def open_pair(name: str) -> Pair:
    """Find the files of a pair by its name, pair:NAME or pair:FILE.toml.

    Raises ModelFileError where the card or a model is not here, UsageError for a card that can't be used.
    """
    path = card_file(name.removeprefix(PAIR))
    card = read_card(path)
    return Pair(path.stem, card, _found(card.target, path), _found(card.draft, path))


def card_file(name: str) -> Path:
    """Return the file of a card by its name, or by its path, which ends in .toml; raises ModelFileError."""
    if name.endswith(_ENDING):
        return at_home(name, failure=ModelFileError)
    path = pairs_folder() / f"{name}{_ENDING}"
    if _NAME.fullmatch(name) and path.is_file():
        return path
    here = [path.stem for path in card_files()]
    near = get_close_matches(name, here, n=1)
    hint = f"Did you mean {PAIR}{near[0]}?" if near else "localspec tune TARGET --draft DRAFT makes one."
    cause = f"Here are: {', '.join(here)}." if here else ""
    raise ModelFileError(f"There is no pair {name!r}.", cause=cause, hint=hint)


def card_files() -> list[Path]:
    """Return the cards in their folder, in order."""
    with suppress(OSError):
        return sorted(
            path for path in pairs_folder().iterdir() if path.suffix == _ENDING and _NAME.fullmatch(path.stem)
        )
    return []


def is_card_name(name: str) -> bool:
    """Tell whether a card can be called so."""
    return _NAME.fullmatch(name) is not None


def name_in_card(given: str, path: Path) -> str:
    """Return what a card calls a model: its name elsewhere, else that of its file; never a folder of this machine."""
    return path.name if at_home(given).exists() or path.stem == Path(given).name else given


def store_card(path: Path, card: PairCard) -> None:
    """Write a card, and make the folder for it; raises UsageError where that can't be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, card_text(card), SHARED)
    except OSError as error:
        cause, hint = str(error), "Make room for it, or name another place."
        raise UsageError(f"The pair card {path} can't be written.", cause=cause, hint=hint) from error


def remember_place(model: CardModel, path: Path) -> None:
    """Remember where a model of a card is: the card itself says nothing of this machine's folders."""
    Remembered(machine_memory()).put(_key(model), {"path": str(path.absolute())})


def _found(model: CardModel, card: Path) -> Path:
    """Return the file of a model, whose contents are those that the card was made for; raises ModelFileError."""
    other: Path | None = None
    for path in _places(model):
        with suppress(LocalspecError, OSError):
            size = sum(part.stat().st_size for part in parts_of(path))
            if size == model.size and fingerprint(path).digest == model.fingerprint:
                return path
            other = other or path
    if other is not None:
        raise ModelFileError(
            f"{other} is not the model that {card.stem} was made for.",
            cause=f"{model.about}, {model.size:,} bytes, is expected; another file has its name.",
            hint="Fetch the right one, or make a card for this one with localspec tune.",
        )
    raise ModelFileError(
        f"{card.stem} needs {model.name} ({model.about}), which is not on this machine.",
        hint=_how_to_get(model.name),
    )


def _places(model: CardModel) -> Iterator[Path]:
    """Yield where a model may be: what a card names is looked up, and never opened as a path of its own choice."""
    place = (Remembered(machine_memory()).get_table(_key(model)) or {}).get("path")
    if isinstance(place, str):
        yield Path(place)
    with suppress(ModelFileError):
        if (named := find_model(STARTER) if model.name == STARTER else find_named(model.name)) is not None:
            yield named
    for local in local_models(known=headers_file()):
        if local.path.name == model.name or (local.info is not None and local.info.size == model.size):
            yield local.path


def _how_to_get(name: str) -> str:
    if hub_name(name) is not None:
        return f"`localspec models pull {name}` fetches it."
    return "Put it in a folder that LOCALSPEC_MODELS lists, or where `localspec models ls` finds it."


def _key(model: CardModel) -> str:
    return f"place {model.fingerprint}"
