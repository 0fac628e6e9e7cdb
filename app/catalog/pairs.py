"""Pairs by name: pair cards, the files they refer to on this machine, and new cards after `tune`."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from app.shell.paths import headers_file, machine_memory, pairs_folder
from models.errors import LocalspecError, ModelFileError, UsageError
from models.gguf.file import parts_of
from models.gguf.fingerprint import fingerprint
from models.library.catalog import STARTER, find_model
from models.library.local import local_models, local_names
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
    """A pair card with its two files on this machine."""

    name: str
    card: PairCard
    target: Path
    draft: Path

    @property
    def note(self) -> str:
        """Note for the user about a card from another machine; "" for one of this machine."""
        if self.card.made.machine_id == machine_id():
            return ""
        return (
            f"{self.name} was made on another machine ({self.card.made.machine}): its models are used, but not "
            f"its settings. localspec tune {PAIR}{self.name} measures settings for this machine."
        )


@dataclass(frozen=True, slots=True)
class Named:
    """A target and its draft model, by unambiguous names."""

    target: str
    draft: str | None
    """None: no draft model was given."""
    note: str = ""
    """Note for the user; "" for none."""


def taken_apart(target: str, draft: str | None) -> Named:
    """Return the two models of a pair, and other names unchanged; a draft given beside a pair wins.

    Raises errors as `open_pair` does.
    """
    if not target.startswith(PAIR):
        return Named(target, draft)
    pair = open_pair(target)
    return Named(str(pair.target), draft or str(pair.draft), pair.note)


def open_pair(name: str) -> Pair:
    """Return a pair by its name, pair:NAME or pair:FILE.toml.

    Raises ModelFileError for a missing card or model, UsageError for an invalid card.
    """
    path = card_file(name.removeprefix(PAIR))
    card = read_card(path)
    return Pair(path.stem, card, _found(card.target, path), _found(card.draft, path))


def card_file(name: str) -> Path:
    """Return a card's file by its name, or by a path that ends in .toml; raises ModelFileError."""
    if name.endswith(_ENDING):
        return at_home(name, failure=ModelFileError)
    path = pairs_folder() / f"{name}{_ENDING}"
    if _NAME.fullmatch(name) and path.is_file():
        return path
    here = [path.stem for path in card_files()]
    near = get_close_matches(name, here, n=1)
    hint = f"Did you mean {PAIR}{near[0]}?" if near else "localspec tune TARGET --draft DRAFT makes one."
    cause = f"Pairs on this machine: {', '.join(here)}." if here else ""
    raise ModelFileError(f"There is no pair {name!r}.", cause=cause, hint=hint)


def card_files() -> list[Path]:
    """Return the card files in their folder, sorted."""
    with suppress(OSError):
        return sorted(
            path for path in pairs_folder().iterdir() if path.suffix == _ENDING and _NAME.fullmatch(path.stem)
        )
    return []


def is_card_name(name: str) -> bool:
    """Tell whether a text is a valid card name."""
    return _NAME.fullmatch(name) is not None


def name_in_card(given: str, path: Path) -> str:
    """Return the name of a model for a card: its name on the hub, else its file's name; never a local folder."""
    return path.name if at_home(given).exists() or path.stem == Path(given).name else given


def store_card(path: Path, card: PairCard) -> None:
    """Write a card into its folder, which is created; raises UsageError if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, card_text(card), SHARED)
    except OSError as error:
        cause, hint = str(error), "Free some disk space, or give another path."
        raise UsageError(f"The pair card {path} can't be written.", cause=cause, hint=hint) from error


def remember_place(model: CardModel, path: Path) -> None:
    """Remember the path of a card's model: the card itself holds no local path."""
    Remembered(machine_memory()).put(_key(model), {"path": str(path.absolute())})


def _found(model: CardModel, card: Path) -> Path:
    """Return the file of a card's model, checked against the card's fingerprint; raises ModelFileError."""
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
            cause=f"Expected {model.about} of {model.size:,} bytes; another file has that name.",
            hint="Fetch the expected file, or make a card for this one with localspec tune.",
        )
    raise ModelFileError(
        f"{card.stem} needs {model.name} ({model.about}), which is not on this machine.",
        hint=_how_to_get(model.name),
    )


def _places(model: CardModel) -> Iterator[Path]:
    """Yield possible paths of a model. A name in a card is looked up, never opened as a path."""
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


def known_names() -> list[str]:
    """Return the names of the models on this machine, and of the pair cards: what a user may be about to type."""
    return [*local_names(), *(f"{PAIR}{path.stem}" for path in card_files())]
