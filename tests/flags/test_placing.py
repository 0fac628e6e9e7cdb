"""Flags that place weights: what they mean, and the sentences that refuse what means nothing."""

from pathlib import Path
from typing import Any

import click
import pytest
from tiny_gguf import write_llama

from app.flags.placing import PlacedLayers, gpu_layers, is_loopback, read_adapters, read_placement
from models.errors import ModelFileError, UsageError
from models.llama.weights.placement import ALL_LAYERS, Override, Placement


def placed(**flags: Any) -> Placement:
    return read_placement({"gpu_layers": -1, "ctx_size": 0, **flags})


def test_layers_are_a_number_all_or_as_many_as_fit() -> None:
    read = PlacedLayers().convert
    assert [read(said, None, None) for said in ("auto", "AUTO", "all", "-1", "0", "7")] == [
        "auto",
        "auto",
        -1,
        -1,
        0,
        7,
    ]
    with pytest.raises(click.BadParameter, match="is not a number of layers"):
        read("some", None, None)
    assert (gpu_layers({"gpu_layers": "auto"}), placed(gpu_layers="auto").fits) == (-1, True)
    assert (gpu_layers({"gpu_layers": 3}), placed(gpu_layers=3).fits) == (3, False)


def test_without_flags_weights_are_where_they_usually_are() -> None:
    assert placed() == read_placement({}) == Placement()


def test_experts_of_some_layers_or_all() -> None:
    assert placed(n_cpu_moe=3).expert_layers == 3
    assert placed(cpu_moe=True, n_cpu_moe=3).expert_layers == ALL_LAYERS


def test_overrides_are_read_one_or_several_at_a_time() -> None:
    found = placed(override_tensor=("exps=CPU", r"blk\.1\.=CUDA0,blk\.2\.=CUDA1")).overrides
    assert found == (Override("exps", "CPU"), Override(r"blk\.1\.", "CUDA0"), Override(r"blk\.2\.", "CUDA1"))


def test_a_pattern_may_have_commas_and_equals_signs() -> None:
    assert placed(override_tensor=(r"blk\.\d{1,2}\.=CPU",)).overrides == (Override(r"blk\.\d{1,2}\.", "CPU"),)
    assert placed(override_tensor=(r"(?=x)=CPU",)).overrides == (Override("(?=x)", "CPU"),)


@pytest.mark.parametrize("said", ["exps", "=CPU", "exps=", ""])
def test_what_is_no_pattern_with_a_device_is_refused(said: str) -> None:
    with pytest.raises(UsageError, match="is not PATTERN=DEVICE"):
        placed(override_tensor=(said,))


@pytest.mark.parametrize(("said", "words"), [("ex[ps=CPU", "regular expression"), ("a" * 300 + "=CPU", "at most 256")])
def test_a_pattern_that_can_not_be_read_is_refused(said: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        placed(override_tensor=(said,))


def test_shares_are_numbers() -> None:
    assert placed(tensor_split="3,1").split == placed(tensor_split="3/1").split == (3.0, 1.0)


@pytest.mark.parametrize("said", ["a", "1,,2", "nan,1", "-1,2", "0,0", ",".join("1" * 17)])
def test_other_shares_are_refused(said: str) -> None:
    with pytest.raises(UsageError, match="--tensor-split"):
        placed(tensor_split=said)


def test_an_adapter_has_a_file_and_may_have_a_scale(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "a.gguf")
    read = lambda *said: read_adapters({"lora": said})  # noqa: E731
    assert [(each.path, each.scale) for each in read(str(path), f"{path}:0.5", f"{path}:-2")] == [
        (path, 1.0),
        (path, 0.5),
        (path, -2.0),
    ]
    named = path.rename(tmp_path / "a:3")
    assert [(each.path, each.scale) for each in read(str(named))] == [(named, 1.0)]
    assert read() == read_adapters({}) == ()


def test_an_adapter_that_is_missing_or_has_no_scale_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"none\.gguf"):
        read_adapters({"lora": (str(tmp_path / "none.gguf"),)})
    path = write_llama(tmp_path / "a.gguf")
    with pytest.raises(UsageError, match="nan is not a finite number"):
        read_adapters({"lora": (f"{path}:nan",)})


def test_workers_are_addresses() -> None:
    assert placed(rpc="127.0.0.1:50052, localhost:50053").workers == ("127.0.0.1:50052", "localhost:50053")


@pytest.mark.parametrize("said", ["127.0.0.1", ":5", "a b:5", "127.0.0.1:0", "127.0.0.1:70000", "[::1]:5", ","])
def test_what_is_no_address_is_refused(said: str) -> None:
    with pytest.raises(UsageError, match="--rpc"):
        placed(rpc=said)


@pytest.mark.parametrize("host", ["192.168.1.7", "gpu.local", "0.0.0.0", "8.8.8.8"])
def test_other_machines_have_to_be_allowed(host: str) -> None:
    with pytest.raises(UsageError, match="has no authentication") as refused:
        placed(rpc=f"{host}:50052")
    assert "ssh -L" in refused.value.hint
    assert placed(rpc=f"{host}:50052", rpc_no_authentication=True).workers == (f"{host}:50052",)
    assert not is_loopback(host)


def test_workers_have_no_plan_of_memory() -> None:
    for flags in ({"gpu_layers": "auto"}, {"ctx_size": "auto"}):
        with pytest.raises(UsageError, match="does not go with auto"):
            placed(rpc="127.0.0.1:50052", **flags)
