"""Memory of a model that is to take another's place, planned from the headers before anything is freed."""

from app.engine.runtime.load import TOY, TOY_FIM, LoadPlan
from app.serve.replies.errors import Refused
from models.errors import LocalspecError
from models.library.catalog import find_model
from models.llama.load import has_gpu, need_of
from models.llama.memory import default_context
from models.system.machine import available_memory

_GIB = 1 << 30


def check_room(plan: LoadPlan, loaded: LoadPlan | None) -> None:
    """Raise Refused if a model can't fit even when the loaded one is freed; what can't be planned is tried."""
    try:
        needed = _bytes_of(plan)
        room = available_memory() + (0 if loaded is None else _bytes_of(loaded))
    except LocalspecError:
        return
    if needed > room:
        message = f"{plan.model} needs {needed / _GIB:.1f} GiB, and {room / _GIB:.1f} GiB would be free for it."
        hint = "Serve fewer answers at once (-np), with less context (-c), or name a smaller model."
        raise Refused(503, f"{message} {hint}", code="out_of_memory")


def _bytes_of(plan: LoadPlan) -> int:
    """Return the planned bytes of a target; 0 where it has no file, or goes to a GPU."""
    if plan.model in (TOY, TOY_FIM) or has_gpu(plan.options):
        return 0
    need = need_of(find_model(plan.model), plan.options, plan.slots)
    # A context that is to fit is made as small as it has to be.
    context = 1 if plan.fit_context else plan.options.context_size or default_context(need.shape)
    return need.plan(context).total
