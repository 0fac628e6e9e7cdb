"""The page of methods: each has its paper, its needs, its flag and its figures, and each drafter is named."""

import re

import pytest

from app.manual.pages import page_of
from drafters.registry import FREE_DRAFTERS, HEAD

PARTS = ("Paper", "Needs", "Here", "Gave here")
METHODS = page_of("methods").text.split("\n## ")[2:]
"""Sections of the page, without its beginning and the section on the origin of the figures."""


def title(section: str) -> str:
    return section.partition("\n")[0]


@pytest.mark.parametrize("section", METHODS, ids=title)
def test_each_method_has_its_four_parts_in_about_ten_lines(section: str) -> None:
    assert tuple(re.findall(r"^- \*\*([A-Z][a-z ]+)\*\*", section, re.MULTILINE)) == PARTS
    assert len(section.strip().splitlines()) <= 16


@pytest.mark.parametrize("section", METHODS, ids=title)
def test_each_method_names_a_paper_by_year_and_number(section: str) -> None:
    paper = " ".join(section.partition("**Paper**")[2].partition("- **")[0].split())
    assert re.search(r"20[12]\d", paper)
    numbers = re.findall(r"\d{4}\.\d{5}", paper)
    assert numbers, "an arXiv number"
    assert all(17 <= int(number[:2]) <= 26 and 1 <= int(number[2:4]) <= 12 for number in numbers)


def test_the_page_has_the_methods_of_the_field() -> None:
    titles = " ".join(map(title, METHODS))
    for name in (
        "Prompt lookup", "Suffix copies", "Draft model", "tokenizers", "TLI", "EAGLE-1, EAGLE-2, EAGLE-3", "MTP",
        "DFlash", "DSpark", "Medusa", "Hydra", "Lookahead", "Jacobi", "Token Recycling", "Draft & Verify", "SWIFT",
        "LayerSkip", "DistillSpec", "Online speculative decoding", "SpecInfer", "Sequoia", "REST", "Cascades",
    ):  # fmt: skip
        assert name in titles, name


@pytest.mark.parametrize("name", [*FREE_DRAFTERS, HEAD])
def test_each_drafter_that_a_flag_names_is_explained(name: str) -> None:
    assert re.search(rf"`(?:--draft )?{re.escape(name)}`", page_of("methods").text)
