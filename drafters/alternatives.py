"""Several draft models for one target, of which one drafts at a time: a named one, and one that drafts text.

Which is faster depends on the text and on the machine: a model with the target's tokens is accepted more often, a
smaller one that drafts text takes less time. The controller chooses (`DraftModelControl.choose`), by what both cost and
how often each was right.
"""

from collections.abc import Sequence

from drafters.base import Draft, GoesOn, Hindsight, ModelDrafter, hand_messages
from models.base import LanguageModel
from models.sampling.sampler import Sampler
from models.text.prompts import Message


class AlternativeModels:
    """Draft models of which one drafts at a time; a `ModelDrafter` that stands for that one. Owns all of them.

    Each keeps its own cache and its own view of the context, so a change costs only the reading of what is new to it.
    """

    def __init__(self, drafters: Sequence[ModelDrafter]) -> None:
        """Take two draft models or more, with different names; the first one drafts until another is used."""
        self.all = tuple(drafters)
        self._failed: set[str] = set()
        self._take(self.all[0])

    @property
    def working(self) -> tuple[ModelDrafter, ...]:
        """Return those that did not fail in this answer."""
        return tuple(drafter for drafter in self.all if drafter.name not in self._failed)

    def use(self, name: str) -> None:
        """Let the draft model of this name draft from now on."""
        self._take(next(drafter for drafter in self.all if drafter.name == name))

    def leave_out(self) -> None:
        """Leave the one that drafts out of this answer: it failed, and what is in its cache is not known."""
        self._failed.add(self.name)

    def _take(self, drafter: ModelDrafter) -> None:
        self._used = drafter
        self.name, self.model, self.longest = drafter.name, drafter.model, drafter.longest
        self.drafts_text, self.drafts_blocks = drafter.drafts_text, drafter.drafts_blocks

    def all_unread(self, context: Sequence[int]) -> dict[str, int]:
        """Return the number of tokens that each working one has to read before it can draft, by name."""
        return {drafter.name: drafter.unread(context) for drafter in self.working}

    @property
    def skipped(self) -> int:
        """Tokens of its view that the one that drafts leaves unread."""
        return self._used.skipped

    def converse(self, turns: Sequence[Message]) -> None:
        """Hand the messages of the next prompt to those that read them."""
        for drafter in self.all:
            hand_messages(drafter, turns)

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:
        """Start an answer with all of them, those that failed before too; none reads anything yet."""
        self._failed.clear()
        for drafter in self.all:
            drafter.begin(prompt, sampler)

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        """Return a draft of the one that drafts."""
        return self._used.propose(context, limit)

    def unread(self, context: Sequence[int]) -> int:
        """Return the number of tokens that the one that drafts has to read first."""
        return self._used.unread(context)

    def focus(self, context: Sequence[int], window: int) -> None:
        """Let the one that drafts read no more than the last `window` tokens of its view."""
        self._used.focus(context, window)

    def catch_up(self, context: Sequence[int], said: int) -> Hindsight:
        """Let the one that drafts read; return what it would have drafted of the last `said` tokens."""
        return self._used.catch_up(context, said)

    def extend(self, context: Sequence[int], given: Sequence[int], limit: int, goes_on: GoesOn) -> Draft:
        """Return the draft of the one that drafts after the `given` tokens; see `ModelDrafter.extend`."""
        return self._used.extend(context, given, limit, goes_on)

    def accept(self, emitted: Sequence[int], accepted: int) -> None:
        """Tell the working ones what a round emitted; draft tokens are in the cache of the one that drafted."""
        for drafter in self.working:
            drafter.accept(emitted, accepted)

    def beside(self, model: LanguageModel) -> ModelDrafter:
        """Return only the one that drafts, with a further cache; a caller that wants all asks each of `all`."""
        return self._used.beside(model)

    def close(self) -> None:
        """Free all of them."""
        for drafter in self.all:
            drafter.close()


def parts_of(drafter: ModelDrafter | None) -> tuple[ModelDrafter, ...]:
    """Return the draft models that a drafter consists of; none for None."""
    if drafter is None:
        return ()
    return drafter.all if isinstance(drafter, AlternativeModels) else (drafter,)


def one_of(drafters: Sequence[ModelDrafter]) -> ModelDrafter | None:
    """Return one drafter of any number; None for none."""
    return AlternativeModels(drafters) if len(drafters) > 1 else next(iter(drafters), None)
