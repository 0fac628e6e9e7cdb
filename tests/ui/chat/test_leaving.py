"""Signals that end a screen, where the system has them."""

import asyncio
import os
import signal

import pytest

from app.ui.terminal.terminal_guard import leave_at_signals


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize(
    ("number", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGQUIT", 131), ("SIGABRT", 134), ("SIGUSR1", 138)]
)
def test_a_signal_ends_a_screen_with_its_exit_code(number: str, code: int) -> None:
    async def told() -> int:
        left = asyncio.get_running_loop().create_future()
        leave_at_signals(left.set_result)
        os.kill(os.getpid(), getattr(signal, number))
        return int(await asyncio.wait_for(left, 10))

    assert asyncio.run(told()) == code


def test_a_screen_opens_where_no_signal_can_be_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    async def opened() -> list[int]:
        left: list[int] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", unheard, raising=False)
        leave_at_signals(left.append)
        return left

    def unheard(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.delattr(signal, "SIGHUP")
    assert asyncio.run(opened()) == []
