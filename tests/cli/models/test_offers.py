"""The list of models to fetch: its file, the order by memory, and what `models suggest` prints of it."""

import json
from pathlib import Path

import pytest
from run_localspec import localspec

from app.catalog.recommended.offer_table import offer_lines
from app.catalog.recommended.offers import read_offers, without
from models.library.families import small_sibling
from models.llama.memory import Room

OFFERS = read_offers()


@pytest.mark.parametrize("one", OFFERS.models, ids=lambda one: one.title)
def test_the_draft_model_of_an_offer_is_the_one_that_pull_fetches_with_it(one: object) -> None:
    assert one.draft is None or one.draft.repo == small_sibling(one.repo)


def test_a_dozen_models_have_a_size_a_licence_and_a_use() -> None:
    assert len(OFFERS.models) >= 12
    assert len({one.repo for one in OFFERS.models}) == len(OFFERS.models)
    assert all(one.use in ("chat", "code") and one.licence and one.size > 500_000_000 for one in OFFERS.models)
    assert {one.use for one in OFFERS.by_memory(4 << 30) if one.need <= 4 << 30} == {"chat", "code"}


@pytest.mark.parametrize("free", [0, 3 << 30, 8 << 30, 64 << 30])
def test_models_that_fit_come_first_the_largest_first_then_the_others_the_smallest_first(free: int) -> None:
    found = OFFERS.by_memory(free)
    fits = [one.need <= free for one in found]
    assert fits == sorted(fits, reverse=True)
    sizes = [one.size for one in found]
    assert sizes == sorted(sizes[: sum(fits)], reverse=True) + sorted(sizes[sum(fits) :])


def test_what_is_here_is_not_offered_again_by_either_of_its_names() -> None:
    first, second, *rest = OFFERS.models
    names = [f"{first.repo}:Q4_K_M", f"hf://{second.repo.upper()}@main/x.gguf", "starter", "/models/x.gguf"]
    assert without(OFFERS.models, names) == rest


def test_the_list_fits_a_terminal_of_100_columns() -> None:
    lines = offer_lines(OFFERS, Room(4 << 30, on_gpu=False))
    assert max(map(len, lines)) <= 100
    assert str(OFFERS.made) in lines[0]
    assert lines[-1].strip().startswith("localspec models pull ")


def test_suggest_without_a_target_prints_the_list_and_json_has_it(tmp_path: Path) -> None:
    done = localspec("models", "suggest", home=tmp_path)
    assert done.returncode == 0
    assert all(one.repo in done.stdout for one in OFFERS.models)
    record = json.loads(localspec("models", "suggest", "--json", home=tmp_path).stdout)["to_fetch"]
    assert record["made"] == str(OFFERS.made)
    assert {one["name"] for one in record["models"]} == {one.repo for one in OFFERS.models}
    named = localspec("models", "suggest", "starter", home=tmp_path)
    assert "Models to fetch" not in named.stdout
