"""Keys of measurements: typed values whose text is that of the records on users' disks."""

from dataclasses import FrozenInstanceError, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.costs.measurement_key import SETTINGS, MeasurementKey, ModelRun, Quantity, parse_key, settings_text
from models.llama.load import LlamaOptions

MODEL = "b0b1426f28ad0942590660957ff2a85d"
OPTIONS = LlamaOptions(
    threads=2, batch_threads=2, cache_type_k="q8_0", cache_type_v="bf16", extra_buffers=False, texts=3, screens=True
)
RUN = ModelRun(MODEL, settings_text(OPTIONS), 2)
WRITTEN = (
    "LlamaOptions(context_size=0, threads=2, batch_threads=2, gpu_layers=-1, batch_size=0, max_rows=32, "
    "flash_attention=None, cache_type_k='q8_0', cache_type_v='bf16', extra_buffers=False, pad_rows=1, screens=True) "
    f"2 cores {MODEL}"
)
"""The end of keys as released versions have written it; a change makes every user measure again."""
KEYS = {
    f"curve {WRITTEN}": MeasurementKey(Quantity.CURVE, RUN),
    f"reading 1 {WRITTEN}": MeasurementKey(Quantity.READING, RUN, "1"),
    f"exact width 32 {WRITTEN}": MeasurementKey(Quantity.EXACT_WIDTH, RUN, "32"),
    f"exact width 32 deep {WRITTEN}": MeasurementKey(Quantity.EXACT_WIDTH, RUN, "32 deep"),
    f"exact branches {WRITTEN}": MeasurementKey(Quantity.EXACT_BRANCHES, RUN),
}


@pytest.mark.parametrize("text", KEYS)
def test_keys_are_written_and_read_as_they_are_on_disk(text: str) -> None:
    assert KEYS[text].text == text
    assert parse_key(text) == KEYS[text]


def test_every_option_that_changes_a_measurement_is_in_the_text() -> None:
    """A new option changes the text, and so asks for new measurements, or is left out of both on purpose."""
    assert tuple(field.name for field in fields(LlamaOptions) if field.repr) == SETTINGS
    assert settings_text(OPTIONS) == str(OPTIONS)
    assert settings_text(replace(OPTIONS, texts=1)) == settings_text(OPTIONS)


@given(
    st.sampled_from(Quantity),
    st.sampled_from(["", "1", "32", "32 deep"]),
    st.integers(1, 512),
    st.booleans() | st.none(),
)
def test_a_key_survives_the_disk(quantity: Quantity, scope: str, cores: int, flash_attention: bool | None) -> None:
    run = ModelRun(MODEL, settings_text(replace(OPTIONS, flash_attention=flash_attention)), cores)
    key = MeasurementKey(quantity, run, scope)
    assert parse_key(key.text) == key
    assert run.setting("flash_attention") == str(flash_attention)
    assert run.setting("attention") is None


@pytest.mark.parametrize(
    "text",
    ["", "curve", f"curve{MODEL}", f"extra buffers {MODEL}", f"tuned 2, target, 2 cores, no GPU, {MODEL}",
     f"guesses {MODEL} for {MODEL}", "curve x abc"],
)  # fmt: skip
def test_records_of_other_kinds_are_no_measurements(text: str) -> None:
    assert parse_key(text) is None


def test_a_record_of_an_earlier_version_names_no_cores() -> None:
    key = parse_key(f"curve LlamaOptions(threads=2) {MODEL}")
    assert key == MeasurementKey(Quantity.CURVE, ModelRun(MODEL, "LlamaOptions(threads=2)", None))
    assert key.text == f"curve LlamaOptions(threads=2) {MODEL}"
    assert key.run.setting("threads") == "2"


def test_a_key_can_not_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        KEYS[f"curve {WRITTEN}"].scope = "1"  # type: ignore[misc]
