"""Decision whether the draft model that needs no flag is loaded for a target: by measured costs, and free memory."""

from collections.abc import Mapping
from pathlib import Path

from app.engine.constants import WORTH
from app.engine.costs.known_costs import KnownCosts, known_draft
from app.engine.costs.speedup_for_files import foresee
from models.gguf.bytes_read import bytes_a_token
from models.gguf.header import read_model
from models.llama.devices import gpus
from models.llama.load import LlamaOptions, need_of
from models.llama.memory import room_for
from models.system.machine import available_memory

TEXT_CONTEXT = 4096
"""Tokens of context of a draft model that drafts text: it seldom reads more than the end of a long conversation."""


def reason_against(
    target: Path, seconds: Mapping[int, float], draft: Path, memory: Path, options: LlamaOptions, caches: int
) -> str:
    """Return why a draft model that drafts text is not worth loading, in words; "" where it is.

    `seconds` is the target's T(w), measured; `memory` is the file of measurements. Headers are read only where a step
    of the draft model was never measured. Raises ModelFileError for a file that is no model.
    """
    known = known_draft(memory, draft)
    sizes = (0.0, 0.0) if known else (bytes_a_token(read_model(target)), bytes_a_token(read_model(draft)))
    foreseen = foresee(KnownCosts(seconds, None), *sizes, known, as_text=True)
    if foreseen.prediction.most < WORTH:
        return f"a step of it takes {foreseen.prediction.step:.0%} of a one-token pass of the target"
    need = need_of(draft, options, caches)
    room = room_for([need], available_memory(), gpus())
    total = need.plan(options.context_size, on_gpu=room.on_gpu).total
    return f"it needs {total:,} bytes of memory, {room.free:,} are free" if total > room.free else ""
