"""Settings for `--strict`: those under which every pass gives, bit for bit, the rows of one-token passes.

Tried in order: the settings of a load without --strict; passes padded to a multiple of four tokens (rearranged weights
have one kernel for blocks of four and another for the rest); weights that are not rearranged, which are read again;
one thread, where nothing else is exact. A GPU has other kernels for almost every width, so there passes are padded to
eight and sixteen too: passes of one width round alike, and drafts can win back the cost of the wider pass. Exactness is
measured at each load, on this machine, and never stored.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from app.engine.costs.pass_cost import measure_steady, timed_passes
from app.engine.costs.timer import measured_cost
from app.engine.decoding.round import Clock
from models.base import LanguageModel
from models.errors import LocalspecError
from models.llama.exact_width import WIDEST
from models.llama.load import LlamaOptions, has_gpu
from models.llama.model import LlamaModel
from models.llama.strict import TIMED_WIDTHS, Checked, Trial, best, check, gains
from models.system.machine import available_memory

_UNBUFFERED, _ONE_THREAD = "weights not rearranged", "one thread"
_NO_COST = "at no cost: passes are the same without --strict"
_ROWS = {4: "four"}
"""Rows that the kernels of rearranged weights process at once, as number and in words."""
_ROWS_ON_GPU = {4: "four", 8: "eight", 16: "sixteen"}
"""Up to eight, llama.cpp multiplies by vectors; by a matrix from nine on."""
_CHECKING_SECONDS = 5.0
_TIMING_SECONDS = 0.5
_TURNS, _PASSES = 3, 3
_ROOM = 1.3
"""Memory that a second copy of the weights and its cache need, over the size of the weights."""
Open = Callable[[LlamaOptions], LanguageModel]
"""Loads the target; raises LocalspecError."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Target under settings that were measured to be exact."""

    model: LanguageModel
    checked: Checked
    note: str
    """Sentence for the user: the chosen settings, what was checked, and the cost."""


class Strict:
    """Search for the exact settings of one target."""

    def __init__(self, open_model: Open, clock: Clock, tell: Callable[[str], None]) -> None:
        self._open = open_model
        self._clock = clock
        self._tell = tell
        self._models: dict[bool | None, LlamaModel] = {}
        self._trials: list[Trial] = []
        self._refused: list[str] = []

    def settle(self, model: LanguageModel) -> Settled:
        """Return the target under exact settings; closes it and raises LocalspecError where no settings are exact."""
        try:
            if not isinstance(model, LlamaModel):
                return _as_it_is(model, self._clock)
            require_rewinds(model)
            self._models[model.options.extra_buffers] = model
            return self._choose(model.name, model.options)
        except BaseException:
            for opened in (model, *self._models.values()):
                opened.close()
            raise

    def _choose(self, name: str, options: LlamaOptions) -> Settled:
        self._try_all(options)
        chosen = best(self._trials)
        if chosen is None:
            raise never_exact(name, self._refused)
        usual = self._trials[0]
        if chosen is not usual:
            # Another program may have slowed one of them, so costs measured in turns decide.
            usual, chosen = self._timed_in_turns(usual, chosen)
            chosen = best((usual, chosen)) or chosen
        return Settled(self._keep(chosen.options), chosen.checked, _note(chosen, usual))

    def _try_all(self, options: LlamaOptions) -> None:
        self._try("", options)
        if self._trials[0].checked.difference is None:
            return
        for rows, word in (_ROWS_ON_GPU if has_gpu(options) else _ROWS).items():
            self._try(f"passes padded to {word} tokens", replace(options, pad_rows=rows))
        if options.extra_buffers and not has_gpu(options):
            self._try(_UNBUFFERED, replace(options, extra_buffers=False))
        if best(self._trials) is None and not has_gpu(options):
            self._try(_ONE_THREAD, replace(options, threads=1, batch_threads=1))

    def _try(self, label: str, options: LlamaOptions) -> None:
        """Time a setting and, unless its cost rules it out, check that it is exact."""
        model = self._under(options)
        self._tell(f"{model.name}: checking that passes are exact")
        seconds = measure_steady(model, self._clock, TIMED_WIDTHS, _TIMING_SECONDS)
        so_far = best(self._trials)
        if so_far is not None and not gains(seconds, WIDEST, so_far):
            return
        checked = check(model, self._clock, _CHECKING_SECONDS)
        self._trials.append(Trial(label, options, seconds, checked))
        if checked.difference:
            self._refused.append(f"{label or 'usual settings'}: {checked.difference}")

    def _under(self, options: LlamaOptions) -> LlamaModel:
        """Return the target under these settings, over weights in memory where possible."""
        model = self._models.get(options.extra_buffers)
        if model is None:
            self._make_room()
            opened = self._open(options)
            assert isinstance(opened, LlamaModel)
            model = self._models[options.extra_buffers] = opened
        if model.options != options:
            model.reopen(options)
        return model

    def _make_room(self) -> None:
        """Close what is open, unless this machine has room for the weights twice."""
        size = max(model.size_bytes for model in self._models.values())
        if available_memory() < _ROOM * size:
            for model in self._models.values():
                model.close()
            self._models.clear()

    def _keep(self, options: LlamaOptions) -> LlamaModel:
        """Return the target under these settings, everything else closed."""
        model = self._under(options)
        for opened in self._models.values():
            if opened is not model:
                opened.close()
        self._models = {options.extra_buffers: model}
        return model

    def _timed_in_turns(self, *trials: Trial) -> list[Trial]:
        """Return trials with one-token costs measured in turns, where all fit in memory at once."""
        if len({trial.options.extra_buffers for trial in trials}) > len(self._models):
            return list(trials)
        times: dict[str, list[float]] = {trial.label: [] for trial in trials}
        for _ in range(_TURNS):
            for trial in trials:
                passes = timed_passes(self._under(trial.options), self._clock, (1,), _PASSES)
                times[trial.label] += [seconds for _, seconds in passes]
        return [_at_cost(trial, measured_cost(times[trial.label])) for trial in trials]


def _at_cost(trial: Trial, one_token: float) -> Trial:
    ratio = one_token / trial.seconds[1]
    return replace(trial, seconds={width: ratio * spent for width, spent in trial.seconds.items()})


def _note(chosen: Trial, usual: Trial) -> str:
    what, plainly = checked_note(chosen.checked), 1 / usual.seconds[1]
    if chosen is usual:
        return f"{what}, {_NO_COST}; {plainly:.1f} tokens/s plain."
    return f"{what}, {chosen.label}; {1 / chosen.seconds[1]:.1f} tokens/s plain, {plainly:.1f} without --strict."


def check_now(model: LanguageModel, clock: Clock) -> Checked:
    """Check a target as it runs; raises LocalspecError where no pass of several tokens is exact."""
    require_rewinds(model)
    checked = check(model, clock, _CHECKING_SECONDS)
    if checked.width == 1:
        difference = checked.difference or "the context has no room for what is to be compared"
        raise never_exact(model.name, [f"usual settings: {difference}"])
    return checked


def checked_note(checked: Checked) -> str:
    """Return the note on what was checked."""
    *most, last = [f"{depth:,}" for depth in checked.depths]
    depths = f"{', '.join(most)} and {last}" if most else last
    return f"strict: exact up to {checked.width} tokens per pass (checked after {depths} tokens)"


def require_rewinds(model: LanguageModel) -> None:
    """Raise LocalspecError for a model whose memory can't rewind."""
    if model.rewind_support.limit is not None:
        raise LocalspecError(
            f"--strict can't be used with {model.name}: its memory can't be rewound bit for bit.",
            cause=f"It has a {model.rewind_support.reason}.",
            hint="Use --draft off without --strict: plain decoding drafts nothing.",
        )


def never_exact(name: str, differences: list[str]) -> LocalspecError:
    """Return the error for a target that no settings make exact."""
    return LocalspecError(
        f"--strict can't be used with {name}: no setting was found that makes passes over several tokens exact.",
        cause="\n".join(differences),
        hint="Leave out -ctk, -ctv, -fa and -ngl, or use --draft off without --strict: plain decoding drafts nothing.",
    )


def _as_it_is(model: LanguageModel, clock: Clock) -> Settled:
    checked = check_now(model, clock)
    return Settled(model, checked, f"{checked_note(checked)}, {_NO_COST}.")
