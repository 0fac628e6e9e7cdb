"""Turns at the gate: requests for one model run together, and none waits for ever behind those for another."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from app.serve.replies.errors import Refused
from app.serve.swapping.gate import ModelGate


class Machine:
    """A machine that notes what is loaded, in what order, and whether any request sees the wrong model."""

    def __init__(self, *, most: int = 999, seconds: float = 5.0, pause: float = 0.001) -> None:
        self.gate = ModelGate(self.load, most, seconds)
        self.gate.opened("a")
        self.loaded = "a"
        self.loads: list[str] = []
        self.running = 0
        self.pause = pause
        self.fails: set[str] = set()

    async def load(self, name: str) -> None:
        assert self.running == 0, "an answer runs"
        self.gate.current, self.loaded = None, ""
        await asyncio.sleep(self.pause)
        if name in self.fails:
            raise ValueError(name)
        self.loaded = name
        self.loads.append(name)

    async def ask(self, name: str, seconds: float = 0.001) -> str:
        await self.gate.enter(name)
        self.running += 1
        try:
            await asyncio.sleep(seconds)
            return self.loaded
        finally:
            self.running -= 1
            self.gate.leave()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 20))  # type: ignore[arg-type]


def test_each_request_sees_its_model_and_few_loads_are_needed() -> None:
    async def test() -> None:
        machine = Machine()
        names = ["a", "b", "c"] * 40
        assert await asyncio.gather(*(machine.ask(name) for name in names)) == names
        assert len(machine.loads) <= 4
        assert machine.gate.is_idle

    run(test)


def test_a_stream_of_requests_for_the_loaded_model_does_not_keep_others_waiting() -> None:
    async def test() -> None:
        machine = Machine()
        over = asyncio.Event()

        async def keep_asking() -> None:
            while not over.is_set():
                assert await machine.ask("a", 0.005) == "a"

        busy = [asyncio.ensure_future(keep_asking()) for _ in range(3)]
        await asyncio.sleep(0.01)
        assert await machine.ask("b") == "b"
        over.set()
        await asyncio.gather(*busy)

    run(test)


def test_a_failed_load_fails_those_that_wait_for_it_alone() -> None:
    async def test() -> None:
        machine = Machine()
        machine.fails.add("b")
        found = await asyncio.gather(
            machine.ask("b"), machine.ask("c"), machine.ask("b"), machine.ask("a"), return_exceptions=True
        )
        assert [type(one) if isinstance(one, Exception) else one for one in found] == [ValueError, "c", ValueError, "a"]
        assert machine.gate.is_idle

    run(test)


def test_who_leaves_while_waiting_keeps_nothing_busy() -> None:
    async def test() -> None:
        machine = Machine()
        runs = asyncio.ensure_future(machine.ask("a", 0.05))
        await asyncio.sleep(0)
        waits = [asyncio.ensure_future(machine.ask(name)) for name in ("b", "a")]
        await asyncio.sleep(0.01)
        waits[0].cancel()
        assert await waits[1] == "a"
        assert await runs == "a"
        assert machine.loads == []
        assert machine.gate.is_idle

    run(test)


def test_waiting_has_a_limit_but_not_the_load_itself() -> None:
    async def test() -> None:
        machine = Machine(seconds=0.05, pause=0.2, most=1)
        runs = asyncio.ensure_future(machine.ask("a", 0.15))
        await asyncio.sleep(0)
        late = asyncio.ensure_future(machine.ask("b"))
        await asyncio.sleep(0)
        with pytest.raises(Refused, match="Too many"):
            await machine.gate.enter("c")
        with pytest.raises(Refused, match="waited too long"):
            await late
        await runs
        assert await machine.ask("b") == "b"

    run(test)


def test_what_is_idle_is_freed_and_loaded_again_for_the_next() -> None:
    async def test() -> None:
        machine = Machine()
        freed: list[str] = []

        async def free() -> None:
            freed.append(machine.loaded)
            await asyncio.sleep(0.02)

        runs = asyncio.ensure_future(machine.ask("a", 0.02))
        await asyncio.sleep(0)
        await machine.gate.unload(free)
        assert freed == [], "an answer runs"
        await runs
        freeing = asyncio.ensure_future(machine.gate.unload(free))
        await asyncio.sleep(0.005)
        assert await machine.ask("a") == "a"
        await freeing
        assert (freed, machine.loads) == (["a"], ["a"])

    run(test)
