"""The command `worker`, its flags and help; its code is imported when it runs."""

import click

from app.flags.number_types import FiniteRange
from app.flags.options import THREADS
from app.flags.placing import is_loopback
from models.errors import UsageError

_HELP = """Hold layers of a model for another localspec, on this machine's GPUs or processor.

\b
  localspec worker                           on 127.0.0.1:50052, for this machine and tunnels
  localspec worker --port 50053 --memory 8   a second one, which takes up to 8 GiB

The other machine runs `localspec run big.gguf --rpc HOST:PORT,...` and sends the weights of its layers here. A worker
serves one program at a time, keeps nothing on disk, and ends with Ctrl-C.

A connection has no authentication and no encryption: anything that reaches the port can use this machine's memory and
may crash or take over the worker. Use a tunnel, as in `ssh -L 50052:127.0.0.1:50052 HOST`.
"""
_HOST_HELP = "Address to listen on, in numbers; others than this machine's own need --no-authentication."
_OPEN_HELP = "Listen on an address that other machines reach, without authentication and encryption."
_MEMORY_HELP = "Most memory for layers, in GiB.  [default: all that is free]"


@click.command(help=_HELP, short_help="Hold layers of a model for another localspec.")
@click.option("--host", default="127.0.0.1", show_default=True, help=_HOST_HELP)
@click.option("--port", default=50052, show_default=True, type=click.IntRange(1, 65535), help="Port to listen on.")
@click.option("--no-authentication", "is_open", is_flag=True, help=_OPEN_HELP)
@click.option("-t", "--threads", default=0, type=THREADS, help="Number of threads; 0: one per physical core.")
@click.option("--memory", type=FiniteRange(min=0.0625), metavar="GIB", help=_MEMORY_HELP)
@click.pass_context
def worker(
    context: click.Context, /, *, host: str, port: int, is_open: bool, threads: int, memory: float | None
) -> None:
    """Lend this machine."""
    if not is_open and not is_loopback(host):
        raise UsageError(
            f"--host {host} can be reached by other machines, and a worker has no authentication.",
            hint="Use a tunnel to 127.0.0.1, or allow it: --no-authentication.",
        )
    from app.shell.log import open_log
    from app.worker.command import run_worker

    open_log()
    context.exit(run_worker(host, port, threads, memory))
