"""Timers that ring once, where every look at the clock comes late, as on a machine that has other things to do."""

import asyncio
from contextlib import suppress

import pytest
import textual._time
from textual.app import App

from app.ui.app import ChatApp
from app.ui.edit_app import EditApp
from app.ui.timely_app import TimelyApp


class LateClock:
    """The time, of which a second is gone between one look and the next; after some looks it goes on as usual."""

    def __init__(self) -> None:
        self._get_time, self._looks = textual._time.get_time, 0

    def __call__(self) -> float:
        # An interval would look for ever.
        self._looks = min(self._looks + 1, 20)
        return self._get_time() + self._looks


async def _rings(app: App[int], monkeypatch: pytest.MonkeyPatch) -> bool:
    rung = asyncio.Event()
    async with app.run_test():
        with monkeypatch.context() as patch:
            patch.setattr(textual._time, "get_time", LateClock())
            app.set_timer(1 / 120, rung.set)
            with suppress(TimeoutError):
                await asyncio.wait_for(rung.wait(), 1)
    return rung.is_set()


def test_a_timer_rings_however_late_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asyncio.run(_rings(TimelyApp(), monkeypatch))
    # When this one rings too, nobody needs the other any more.
    assert not asyncio.run(_rings(App(), monkeypatch))


@pytest.mark.parametrize("app", [ChatApp, EditApp])
def test_both_screens_have_such_timers(app: type) -> None:
    assert issubclass(app, TimelyApp)
