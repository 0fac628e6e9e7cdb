"""Acceptance of a draft model, kept from one run to the next: counts of its target's verdicts, and no text.

An unproven draft model gets no loan to read a prompt (see `loss_budget`). A script that starts one process for each
answer would begin every answer with an unproven pair. So a run starts with half the weight of the stored
observations, as an answer does after another. The first run of a pair starts with `agreement_probe`.
"""

from app.engine.control.acceptance import Acceptance
from app.engine.control.agreement_probe import agreement_of
from drafters.base import ModelDrafter
from models.base import LanguageModel
from models.errors import LocalspecError
from models.heads.head_model import HeadModel
from models.llama.model import LlamaModel
from models.llama.probe import identity
from models.llama.remote.remote_model import RemoteModel
from models.system.remembered import Remembered

RECORD_KEY = "guesses "
"""Prefix of the records' keys."""
WORTH_WRITING = 32
"""New draft tokens after which the record is written during a run: a killed run loses at most these."""


class AcceptanceStore:
    """Stored acceptance of one draft model by one target."""

    def __init__(self, known: Remembered, key: str, drafter: ModelDrafter, acceptance: Acceptance) -> None:
        """Take the file, the key of the record, the drafter, and the `acceptance` to load it into."""
        self._known = known
        self._key = key
        self._drafter = drafter
        self._source = drafter.name
        self._acceptance = acceptance
        self._written = 0
        acceptance.recall(self._source, known.get_table(key) or {})

    def introduce(self, target: LanguageModel) -> None:
        """Measure the agreement of target and draft model, if no record of the pair exists."""
        if self._known.get_table(self._key) is None and (agreed := agreement_of(target, self._drafter)) is not None:
            self._acceptance.expect(self._source, agreed)
            self._known.put(self._key, self._acceptance.shown(self._source))

    def keep(self, least: int = WORTH_WRITING) -> None:
        """Write the record if at least `least` draft tokens are new."""
        count = self._acceptance.counts.get(self._source)
        seen = sum(count.proposed_at) if count else 0
        if seen - self._written >= least:
            self._known.put(self._key, self._acceptance.shown(self._source))
            self._written = seen


def stored_acceptance(
    known: Remembered, target: LanguageModel, model: ModelDrafter, acceptance: Acceptance
) -> AcceptanceStore | None:
    """Return the record of a pair of files, loaded into `acceptance`; None for models without files."""
    if not isinstance(target, LlamaModel | RemoteModel):
        return None
    if not isinstance(model.model, LlamaModel | HeadModel):
        return None
    try:
        adapters = " ".join(adapter.identity for adapter in target.options.adapters)
        with_adapters = f" with {adapters}" if adapters else ""
        key = f"{RECORD_KEY}{identity(model.model.path)} for {identity(target.path)}{with_adapters}"
    except LocalspecError:
        # The file of a loaded model may have been deleted meanwhile.
        return None
    return AcceptanceStore(known, key, model, acceptance)
