"""Mixtures of experts: what a token gets from those it chooses does not depend on how many others chose them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_child import EXPERT_TOKENS, TYPES, run_kernels
from numpy.typing import NDArray
from own_kernels import WIDEST_AND_NARROWEST, built, llama_cpps_own, skip_where_impossible
from tiny_gguf import write_experts

from models.llama.exact_width import WIDEST, exact_width
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.llama.requantise import requantise

Products = dict[str, NDArray[Any]]


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    skip_where_impossible()


@pytest.fixture(scope="module", params=WIDEST_AND_NARROWEST)
def experts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Products:
    answer = tmp_path_factory.mktemp("experts") / "answer.npz"
    library = built(WIDEST_AND_NARROWEST[request.param], tmp_path_factory.getbasetemp())
    run_kernels(library, "experts", answer)
    return dict(np.load(answer))


def _by_the_matrices(experts: Products, name: str, *, shared: bool) -> NDArray[np.float32]:
    """Return what each token has of its choices, from the products of all tokens with each expert's whole matrix."""
    chosen: NDArray[Any] = experts[f"chosen {name}"]
    token, choice = np.indices(chosen.shape)
    return experts[f"dense {name}"][chosen, token, 0 if shared else choice]


@pytest.mark.parametrize("name", TYPES)
def test_an_expert_gives_what_its_matrix_alone_would_to_the_last_bit(experts: Products, name: str) -> None:
    for shared in (False, True):
        wanted = _by_the_matrices(experts, name, shared=shared)
        for tokens in EXPERT_TOKENS:
            for threads in (1, 2, 3):
                seen = experts[f"{'shared ' if shared else ''}{name} {tokens} {threads}"]
                assert np.array_equal(seen, wanted[:tokens]), (tokens, threads, shared)


def test_those_of_other_types_are_llama_cpps_own_and_do_not_depend_on_others_while_drafts_are_verified(
    experts: Products,
) -> None:
    alone, most, wide = experts["IQ1_M 1 1"], experts[f"IQ1_M {WIDEST} 2"], experts[f"IQ1_M {max(EXPERT_TOKENS)} 3"]
    assert np.array_equal(most[:1], alone)
    assert np.array_equal(experts["IQ1_M 9 1"], most[:9])
    assert np.array_equal(wide, experts["theirs IQ1_M"]), "a prompt is read as quickly as before"
    assert not np.array_equal(wide[:WIDEST], most), "where it is not by chance that they agree"


@pytest.fixture
def mixture(tmp_path: Path) -> Iterator[LlamaModel]:
    source = write_experts(tmp_path / "tiny.gguf", n_embd=256, n_layer=4)
    requantise(source, tmp_path / "tiny-q4_k.gguf", "Q4_K_M")
    model = LlamaModel(tmp_path / "tiny-q4_k.gguf", LlamaOptions(context_size=256))
    yield model
    model.close()


def test_a_mixture_is_read_as_it_is_and_exact_at_every_width(mixture: LlamaModel) -> None:
    assert mixture.options.extra_buffers is False
    assert exact_width(mixture) == WIDEST
    with llama_cpps_own():
        assert exact_width(mixture) < WIDEST, "eight tokens with one expert come out otherwise"
