"""Child process that holds one target whose layers are on workers; it ends with the pipe that it reads.

Run as a program: it reads an `Order`, then pairs (name, arguments) of the methods below, and answers each.
"""

import os
import signal
import sys
from io import FileIO
from typing import Any

from models.errors import LocalspecError
from models.llama.model import LlamaModel
from models.llama.remote.messages import (
    CONNECTED,
    DONE,
    FAILED,
    PROGRESS,
    READY,
    REFUSED,
    Order,
    Properties,
    receive,
    send,
)
from models.llama.weights.workers import worker_devices

_METHODS = frozenset({"decode", "rewind", "can_rewind", "stretch", "use_threads", "reopen"})


def main() -> int:
    """Serve the parent process until it closes the pipe; return the exit code."""
    # Ctrl-C reaches every process of the terminal; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    orders, replies = FileIO(os.dup(0), "rb"), FileIO(os.dup(1), "wb")
    # What libraries print must not get between the replies.
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    try:
        model = _loaded(receive(orders), replies)
        if model is not None:
            _serve(model, orders, replies)
    except (EOFError, BrokenPipeError):
        # The parent has ended, or wants no more of this.
        return 0
    return 0


def _loaded(order: Order, replies: FileIO) -> LlamaModel | None:
    try:
        worker_devices(order.options.placement.workers)
        send(replies, (CONNECTED, None))
        model = LlamaModel(order.path, order.options, on_progress=lambda share: send(replies, (PROGRESS, share)))
    except LocalspecError as error:
        send(replies, (FAILED, _said(error)))
        return None
    send(replies, (READY, properties_of(model)))
    return model


def _serve(model: LlamaModel, orders: FileIO, replies: FileIO) -> None:
    while True:
        name, arguments = receive(orders)
        assert name in _METHODS
        try:
            result: Any = getattr(model, name)(*arguments)
        except LocalspecError as error:
            send(replies, (FAILED, (*_said(error), model.length)))
        except ValueError as error:
            send(replies, (REFUSED, (str(error), model.length)))
        else:
            send(replies, (DONE, (properties_of(model) if name == "reopen" else result, model.length)))


def properties_of(model: LlamaModel) -> Properties:
    """Return the properties of a loaded model."""
    return Properties(
        model.description,
        model.context_size,
        model.batch_size,
        model.max_rows,
        model.max_branches,
        model.rewind_support,
        model.chat_template,
        dict(model.named_templates),
        model.cache_types,
        model.trained,
        model.size_bytes,
        model.options,
    )


def _said(error: LocalspecError) -> tuple[str, str, str, str]:
    return type(error).__name__, error.title, error.cause, error.hint


if __name__ == "__main__":
    sys.exit(main())
