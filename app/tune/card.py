"""Pair card written by `tune`: both models, their best settings on this machine, and the predicted speed-up."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from app import __version__
from app.catalog.pairs import is_card_name, name_in_card, remember_place, store_card
from app.engine.costs.known_costs import KnownCosts
from app.engine.costs.provenance import processor_name
from app.engine.costs.speedup_model import Prediction, predict
from app.engine.costs.tuned import Setting, Tuned, TunedDraft
from app.shell.paths import pairs_folder
from models.errors import LocalspecError, UsageError
from models.gguf.fingerprint import fingerprint
from models.gguf.model_info import model_info
from models.gguf.parameter_count import parameter_count
from models.library.pair_card import CardModel, CardSettings, Made, PairCard, read_card
from models.llama.bindings import VERSION
from models.system.counted import counted
from models.system.home import at_home
from models.system.machine import machine_id, physical_cores

_ATTENTION: Mapping[bool | None, str] = {None: "auto", True: "on", False: "off"}
_LONGEST = 45
"""Most characters of one model's name in the name of a card."""
_LONGEST_TEXT = 300
_FLAG = "--card"


@dataclass(frozen=True, slots=True)
class CardWanted:
    """Request for a card: its place, and the names of its models."""

    place: str | None
    """Name, or path that ends in .toml; None: a name made from the target's."""
    target: str
    """Name of the model as the user gave it."""
    draft: str


@dataclass(frozen=True, slots=True)
class Written:
    """Card that was written."""

    name: str
    """Name of the card for "pair:NAME"."""
    path: Path
    predicted_speed_up: tuple[float, float]


def check_place(place: str | None) -> None:
    """Raise UsageError for a name or path that no card can have."""
    if place is not None and place.endswith(".toml"):
        at_home(place, _FLAG)
    elif place is not None and not is_card_name(place):
        raise UsageError(
            f"{_FLAG} {place} is not a name for a pair.",
            hint="A name has letters, digits and . _ + -; a file ends in .toml.",
        )


def foreseen_gain(target: Tuned, draft: TunedDraft) -> Prediction:
    """Return the predicted gain of the draft model, from the measurements of both models."""
    known = KnownCosts(target.verify, target.exact_width)
    return predict(draft.step / known.one_token, known.verify)


def write_card(wanted: CardWanted, target: Path, tuned: Tuned, draft: Path, tuned_draft: TunedDraft) -> Written:
    """Write the card of a measured pair; raises UsageError where that is not possible."""
    gain = foreseen_gain(tuned, tuned_draft)
    card = PairCard(
        target=_model(wanted.target, target),
        draft=_model(wanted.draft, draft),
        draft_lengths=gain.lengths,
        predicted_speed_up=(gain.least, gain.most),
        made=_made(),
        target_settings=_settings(tuned.setting),
        draft_settings=_settings(tuned_draft.setting),
    )
    path = _place(wanted, card)
    store_card(path, card)
    remember_place(card.target, target)
    remember_place(card.draft, draft)
    own = path.parent == pairs_folder()
    return Written(path.stem if own else str(path), path, card.predicted_speed_up)


def _model(name: str, path: Path) -> CardModel:
    info, print_ = model_info(path), fingerprint(path)
    about = f"{info.architecture} {parameter_count(info.parameters)} {info.quantisation}"
    return CardModel(_shown(name_in_card(name, path)), print_.size, print_.digest, _shown(about))


def _made() -> Made:
    cores = physical_cores()
    machine = f"{processor_name()}, {counted(cores, 'core')}"
    return Made(date.today(), _shown(machine), machine_id(), __version__, VERSION)


def _settings(setting: Setting) -> CardSettings:
    attention = _ATTENTION[setting.flash_attention]
    return CardSettings(setting.threads, setting.batch_threads, attention, setting.cache_type_k, setting.cache_type_v)


def _place(wanted: CardWanted, card: PairCard) -> Path:
    """Return the file to write: the card of another pair is replaced only if the user named it."""
    if wanted.place is not None and wanted.place.endswith(".toml"):
        return at_home(wanted.place, _FLAG)
    name = wanted.place or _name(card.target.name)
    path = pairs_folder() / f"{name}.toml"
    if wanted.place is None and _is_other(path, card):
        return path.with_name(f"{name}-with-{_name(card.draft.name)}.toml")
    return path


def _is_other(path: Path, card: PairCard) -> bool:
    if not path.exists():
        return False
    with suppress(LocalspecError):
        found = read_card(path)
        return _files(found) != _files(card)
    return True


def _files(card: PairCard) -> tuple[str, str]:
    return card.target.fingerprint, card.draft.fingerprint


def _name(model: str) -> str:
    name = re.sub(r"[^a-z0-9._]+", "-", model.lower().removesuffix(".gguf")).strip("-._")
    return name[:_LONGEST] or "pair"


def _shown(text: str) -> str:
    """Return a text without characters that a card may not hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:_LONGEST_TEXT] or "?"
