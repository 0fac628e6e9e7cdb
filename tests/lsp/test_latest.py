"""One thing of a kind at a time: what is newer wins, and a caller that is cancelled is told so."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from app.lsp.latest import Latest


async def eternity(ended: list[str]) -> str:
    try:
        await asyncio.sleep(60)
    finally:
        ended.append("ended")
    return "never"


async def at_once() -> str:
    return "done"


def test_the_newest_wins_and_the_older_gives_none() -> None:
    async def story() -> tuple[str | None, str | None, list[str]]:
        latest, ended = Latest(), list[str]()
        older = asyncio.ensure_future(latest.run(eternity(ended), "it"))
        await asyncio.sleep(0.01)
        newer = await latest.run(at_once(), "it")
        return await older, newer, ended

    assert asyncio.run(story()) == (None, "done", ["ended"])


def test_work_of_another_kind_runs_beside_until_all_is_called_off() -> None:
    async def story() -> tuple[str | None, str | None, list[str]]:
        latest, ended = Latest(), list[str]()
        older = asyncio.ensure_future(latest.run(eternity(ended), "one"))
        await asyncio.sleep(0.01)
        beside = await latest.run(at_once(), "other")
        assert not ended
        latest.call_off()
        return await older, beside, ended

    assert asyncio.run(story()) == (None, "done", ["ended"])


def test_what_is_called_off_gives_none() -> None:
    async def story() -> tuple[str | None, list[str]]:
        latest, ended = Latest(), list[str]()
        running = asyncio.ensure_future(latest.run(eternity(ended), "it"))
        await asyncio.sleep(0.01)
        latest.call_off()
        return await running, ended

    assert asyncio.run(story()) == (None, ["ended"])


def test_a_cancelled_caller_cancels_the_work_and_is_told() -> None:
    async def story() -> list[str]:
        latest, ended = Latest(), list[str]()
        running = asyncio.ensure_future(latest.run(eternity(ended), "it"))
        await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return ended

    assert asyncio.run(story()) == ["ended"]


def test_what_the_work_raises_is_raised() -> None:
    async def fails() -> None:
        raise ValueError("wrong")

    async def story(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await Latest().run(work(), "it")

    with pytest.raises(ValueError, match="wrong"):
        asyncio.run(story(fails))
