"""The script that loads servers sees what it is there to see."""

import asyncio
import re
import time
from dataclasses import replace
from pathlib import Path

import httpx2
from serve_load_clients import Known, Tally, alone, questions, turns, window
from serving import serve_here

CLIENTS, NUMBERS = 3, range(10)


def load(url: str) -> tuple[Tally, dict[int, Known]]:
    asks, known = questions(None), {}
    for number in NUMBERS:
        known[number] = asyncio.run(alone(url, "", asks, number))
    lists = [one[:4] for one in turns(0, CLIENTS, NUMBERS)]
    assert asyncio.run(window(url, "", asks, lists[:1], 0)).answers == [], "the time is over before the first"
    # So long that the lists come to their end first, however slow the machine is.
    tally = asyncio.run(window(url, "", asks, lists, 300))
    end = time.monotonic() + 60
    # A toy's answer takes a millisecond: those that were called off may all have been whole before the server heard it.
    while not calls_off(url):
        assert time.monotonic() < end, "no client left in time"
        tally.add(asyncio.run(window(url, "", asks, lists, 300)))
    return tally, {number: right for number, right in known.items() if right is not None}


def calls_off(url: str) -> bool:
    figures = httpx2.get(f"{url}/metrics").text
    return re.search(r"^localspec:requests_cancelled_total\{.*\} [1-9]", figures, re.MULTILINE) is not None


def test_answers_are_compared_and_counted(tmp_path: Path) -> None:
    tally, known = serve_here(tmp_path, "toy-fim", "-np", "2", "-c", "1024", asks=load)
    assert [*known] == [*NUMBERS]
    assert not tally.errors
    assert tally.answers
    assert tally.called_off
    tally.judge(known)
    assert tally.differing == []
    figures = tally.figures()
    whole = sum(heard.tokens or 0 for heard in tally.answers)
    assert whole < figures["tokens"] <= whole + 48 * len(tally.called_off)
    assert figures["answers"] == len(tally.answers)
    assert 0 < figures["first_seconds"]["p50"] <= figures["whole_seconds"]["p95"]


def test_a_mixed_answer_is_seen_whole_or_called_off(tmp_path: Path) -> None:
    tally, known = serve_here(tmp_path, "toy-fim", "-np", "2", "-c", "1024", asks=load)
    whole, part = tally.answers[0].question, tally.called_off[0].question
    wrong = {number: replace(known[number], text="?" + known[number].text) for number in (whole, part)}
    tally.judge({**known, **wrong})
    assert {int(one["question"]) for one in tally.differing} == {whole, part}
    assert not tally.errors
    lost = Tally(answers=tally.answers[:1])
    lost.judge({})
    assert (len(lost.errors), lost.tokens) == (1, 0)
