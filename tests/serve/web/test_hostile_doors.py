"""Hostile requests to saved slots, embeddings and repeated prompts: no server error, and the engine continues."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_gguf
from hostile_bodies import ANYTHING, COUNTS, FLAGS, IDS, NAMES, PROMPTS, SAMPLING, SHARES, TEXTS, is_in_order
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import Served, served
from tiny_embedders import write_pooled

from models.embeddings.pooling import Pooling

FOLDER = "a folder"
KNOWN = ["one.bin", "two.bin", "damaged.bin", "missing.bin"]
TARGETS = st.tuples(
    st.one_of(st.sampled_from(["0", "1", "2", "-1", "x", "²", "0x0", " 0", "9" * 40]), st.integers(-3, 3).map(str)),
    st.one_of(st.sampled_from(["save", "restore", "erase", "SAVE", "", "save,erase"])),
)
FILES = st.one_of(st.sampled_from([*KNOWN, FOLDER, *NAMES]), TEXTS)
SLOTS = st.fixed_dictionaries({}, optional={"filename": st.one_of(FILES, FILES, ANYTHING), "model": TEXTS})
INPUTS = st.one_of(
    TEXTS,
    IDS,
    PROMPTS,
    st.lists(st.one_of(TEXTS, IDS, ANYTHING), max_size=4),
    st.text("a ", min_size=500, max_size=600),
)
EMBEDDINGS = st.fixed_dictionaries(
    {"input": st.one_of(INPUTS, INPUTS, ANYTHING)},
    optional={
        "encoding_format": st.one_of(st.sampled_from(["float", "base64"]), ANYTHING),
        "dimensions": st.one_of(st.integers(-1, 70), ANYTHING),
        "model": TEXTS,
        "user": ANYTHING,
    },
)
ECHOES = st.fixed_dictionaries(
    {"prompt": st.one_of(PROMPTS, PROMPTS, ANYTHING), "echo": st.one_of(st.just(True), st.just(True), ANYTHING)},
    optional={
        "logprobs": st.one_of(st.integers(-1, 30), FLAGS, ANYTHING),
        "max_tokens": COUNTS,
        "n": st.integers(0, 4),
        "stream": FLAGS,
        "suffix": TEXTS,
        "stop": st.lists(TEXTS, max_size=3),
        "temperature": SHARES,
        "logit_bias": SAMPLING["logit_bias"],
        "prediction": ANYTHING,
    },
)
FEW, MANY = 60, 2_000
"""Bodies for each path in every run, and in a run of the marked tests."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("saved")
    (made / FOLDER).mkdir()
    return made


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("serve")
    model, vectors = tiny_gguf.write_llama(home / "text.gguf"), write_pooled(home / "mean.gguf", Pooling.MEAN)
    more = ("--slot-save-path", str(folder), "--embedding-model", str(vectors), "-np", "2", "-t", "1", "-c", "512")
    with served(home, str(model), *more, "-n", "4") as one:
        yield one


def many(count: int, bodies: Any, act: Callable[[Any], None]) -> None:
    """Draw bodies, and send each."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    settings(deadline=None, max_examples=count, suppress_health_check=checks, database=None)(given(bodies)(act))()


def still_answers(server: Served) -> None:
    """Check that text is generated, and that each door opens for a plain request."""
    first = server.post("/v1/completions", prompt="abc odf", max_tokens=3, temperature=0, cache_prompt=True)
    assert first["usage"]["completion_tokens"] == 3
    assert server.post("/slots/0?action=save", filename="last.bin")["n_saved"] >= 0
    assert server.post("/slots/0?action=restore", filename="last.bin")["n_restored"] >= 0
    assert len(server.post("/v1/embeddings", input="abc")["data"][0]["embedding"]) == 64
    again = server.post("/v1/completions", prompt="abc odf", max_tokens=3, temperature=0, echo=True)
    assert again["choices"][0]["text"] == "abc odf" + first["choices"][0]["text"]
    assert server.service._admitted == 0


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.hostile)])
def test_slots_are_saved_and_restored_or_refused(server: Served, folder: Path, count: int) -> None:
    server.post("/v1/completions", prompt="abc odf urk mop", max_tokens=2)
    server.post("/slots/0?action=save", filename="one.bin")
    whole = (folder / "one.bin").read_bytes()

    def act(drawn: tuple[tuple[str, str], Any, tuple[int, bytes]]) -> None:
        (number, action), body, (place, damage) = drawn
        begins = place % len(whole)
        (folder / "damaged.bin").write_bytes(whole[:begins] + damage + whole[begins + len(damage) :])
        response = server.send(f"/slots/{number}?action={action}", body)
        is_in_order(response)
        if action == "erase" and response.status_code == 200:
            server.post("/v1/completions", prompt=f"abc {number}", max_tokens=2)

    many(count, st.tuples(TARGETS, SLOTS, st.tuples(st.integers(0, 1 << 20), st.binary(max_size=9))), act)
    still_answers(server)


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.hostile)])
def test_texts_become_vectors_or_are_refused(server: Served, count: int) -> None:
    many(count, EMBEDDINGS, lambda body: is_in_order(server.send("/v1/embeddings", body)))
    still_answers(server)


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.hostile)])
def test_prompts_are_repeated_or_refused(server: Served, count: int) -> None:
    many(count, ECHOES, lambda body: is_in_order(server.send("/v1/completions", body)))
    still_answers(server)


@pytest.mark.parametrize("action", ["save", "restore"])
def test_a_folder_in_place_of_a_file_is_the_request_s_fault(server: Served, action: str) -> None:
    status, error = server.refused(f"/slots/0?action={action}", filename=FOLDER)
    assert (status, error["param"]) == (400, "filename")
