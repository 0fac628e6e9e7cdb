"""Draft model that a method begins with: the one that was named, or the best one for the target on this machine."""

from pathlib import Path

from app.catalog.candidates import Candidates
from app.shell.paths import forged_folder, headers_file, machine_memory
from models.errors import PairError
from models.gguf.model_info import model_info
from models.gguf.pair import check_files
from models.library.catalog import find_model
from models.library.families import sibling_of
from models.library.forged import forged_for
from models.library.local import LocalModel, local_models
from models.llama.devices import gpus
from models.llama.memory import room_for
from models.system.machine import available_memory


def sibling_for(target: Path, named: str | None) -> Path:
    """Return a draft model that has the target's tokens; raises PairError for none, ModelFileError, and UsageError.

    Without a name that is one that was forged for the target, else the one with the best predicted speed-up.
    """
    if named is None:
        found = _forged(target) or _best(target)
        if found is None:
            raise _none(target)
        return found
    draft = find_model(named)
    findings = check_files(target, draft)
    if reasons := (*findings.reasons, *findings.differences):
        raise PairError(
            f"{draft.name} is no draft model with the tokens of {target.name}.",
            cause="\n".join(f"- {reason}" for reason in dict.fromkeys(reasons)),
            hint=f"localspec models suggest {target} lists those that are.",
        )
    return draft


def _forged(target: Path) -> Path | None:
    """Return the draft model that was forged for a target and pays; one with fewer tokens can't be made smaller."""
    made = forged_for(forged_folder(), target)
    return next((each.path for each in made if each.pays and not each.is_head and each.method != "trim"), None)


def _best(target: Path) -> Path | None:
    """Return the best draft model among the models of this machine, those beside the target included."""
    here = local_models([target.parent], known=headers_file())
    finder = Candidates(here, machine_memory(), room_for([], available_memory(), gpus()))
    same = next((each.path for each in here if each.path.exists() and each.path.samefile(target)), target)
    found = finder.suggest(LocalModel(target.stem, same, model_info(target)))
    return next((each.model.path for each in found.candidates if each.model is not None), None)


def _none(target: Path) -> PairError:
    sibling = sibling_of(target.name)
    fetch = f" One of its family can be fetched: localspec models pull {sibling.repo}." if sibling else ""
    return PairError(
        f"No draft model for {target.name} was found on this machine.",
        cause="This method makes one smaller, so it needs a model with the target's tokens and fewer weights.",
        hint=f"Name one with --draft.{fetch}",
    )
