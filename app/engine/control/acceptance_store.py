"""Acceptance of a draft model, kept from one run to the next: how often its target accepted its drafts, and no text.

A draft model that has shown nothing is not lent the time to read a prompt (see `loss_budget`). A script gives one
answer a process: it would begin each of them with an unknown pair. So a run goes on from what the last one knew,
as one answer does from another: half of it counts. The very first run begins with `agreement_probe`.
"""

from app.engine.control.acceptance import Acceptance
from app.engine.control.agreement_probe import agreement
from drafters.draft_model import DraftModel
from models.base import LanguageModel
from models.errors import LocalspecError
from models.llama.model import LlamaModel
from models.llama.probe import identity
from models.system.remembered import Remembered

RECORD_KEY = "guesses "
"""How the keys of the records begin."""
_WORTH_WRITING = 32
"""New draft tokens after which the record is written before the run ends: a run that is killed loses no more."""


class AcceptanceStore:
    """What one draft model has shown to one target, as a controller learns it."""

    def __init__(self, known: Remembered, key: str, source: str, acceptance: Acceptance) -> None:
        """Take where it is kept and under which key; `acceptance` learns about the source, from what is known on."""
        self._known = known
        self._key = key
        self._source = source
        self._acceptance = acceptance
        self._written = 0
        acceptance.recall(source, known.get_table(key) or {})

    def introduce(self, target: LanguageModel, draft: LanguageModel) -> None:
        """Measure how often both agree, where nothing is known of them yet."""
        if self._known.get_table(self._key) is None and (agreed := agreement(target, draft)) is not None:
            self._acceptance.expect(self._source, agreed)
            self._known.put(self._key, self._acceptance.shown(self._source))

    def keep(self, least: int = _WORTH_WRITING) -> None:
        """Write the record if at least so many draft tokens are new."""
        count = self._acceptance.counts.get(self._source)
        seen = sum(count.proposed_at) if count else 0
        if seen - self._written >= least:
            self._known.put(self._key, self._acceptance.shown(self._source))
            self._written = seen


def stored_acceptance(
    known: Remembered, target: LanguageModel, model: DraftModel | None, acceptance: Acceptance
) -> AcceptanceStore | None:
    """Return the record of a pair of files, of which `acceptance` then knows; None where there is no such pair."""
    if model is None or not isinstance(target, LlamaModel) or not isinstance(model.model, LlamaModel):
        return None
    try:
        key = f"{RECORD_KEY}{identity(model.model.path)} for {identity(target.path)}"
    except LocalspecError:
        # A file that is gone by now, from under a model that works.
        return None
    return AcceptanceStore(known, key, model.name, acceptance)
