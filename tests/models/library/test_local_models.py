"""Models that other programs fetched: found in place, each once, named so that the name leads back, never changed."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from raw_gguf import Weights, write_raw

from models.errors import ModelFileError, UsageError
from models.gguf.file import check_file
from models.gguf.known_headers import KnownHeaders
from models.gguf.model_info import ModelInfo, glance, model_info
from models.gguf.strings import KnownStrings
from models.library import catalog, local
from models.library.catalog import find_model
from models.library.local import LocalModel, local_models
from models.library.quantisation_names import label_of
from models.library.stores import gguf_files, ollama_parts

REVISION, OLDER = "a" * 40, "b" * 40
VARIABLES = "HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HOME XDG_CACHE_HOME LLAMA_CACHE OLLAMA_MODELS LOCALSPEC_MODELS"
ABOUT = {"tokenizer.chat_template": "{{ 1 }}"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home folder, on a system without models."""
    for name in VARIABLES.split():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setattr("models.library.stores.sys.platform", "linux")
    monkeypatch.setattr(catalog, "_STARTER_PACKAGE", "not-installed")
    return tmp_path


def in_hub(home: Path, repo: str, name: str, revision: str = REVISION, **changes: object) -> Path:
    """Put a file into the hub's cache as its library does: a blob, and a link to it."""
    folder = home / ".cache/huggingface/hub" / f"models--{repo.replace('/', '--')}"
    blob = write_raw(folder / "blobs" / f"{revision[0]}{name.replace('/', '_')}", ABOUT, **changes)
    link = folder / "snapshots" / revision / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(blob, link.parent))
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs/main").write_text(REVISION)
    return link


def in_ollama(home: Path, name: str, *, layer: str = "image.model", digest: str = "1" * 64) -> Path:
    """Put a model into Ollama's folder, under host/owner/name/tag."""
    folder = home / ".ollama/models"
    manifest = folder / "manifests" / name
    manifest.parent.mkdir(parents=True, exist_ok=True)
    layers = [
        {"mediaType": "application/vnd.ollama.image.license", "digest": f"sha256:{'9' * 64}"},
        {"mediaType": f"application/vnd.ollama.{layer}", "digest": f"sha256:{digest}"},
    ]
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    return write_raw(folder / f"blobs/sha256-{digest}", ABOUT)


def in_llama_cpp(home: Path, repo: str, file: str, tag: str) -> Path:
    folder = home / ".cache/llama.cpp"
    path = write_raw(folder / f"{repo.replace('/', '_')}_{file}")
    manifest = folder / f"manifest={repo.replace('/', '=')}={tag}.json"
    manifest.write_text(json.dumps({"ggufFile": {"rfilename": file, "size": 5}}))
    return path


def names() -> list[str]:
    return [model.name for model in local_models()]


def info(model: LocalModel) -> ModelInfo:
    assert model.info is not None, model.reason
    return model.info


def not_here(name: str) -> ModelFileError:
    with pytest.raises(ModelFileError) as failure:
        find_model(name)
    assert "models ls" in failure.value.hint
    return failure.value


def test_a_machine_without_models_has_none(home: Path) -> None:
    assert local_models([home / "missing"]) == []


# --- the hub's cache --------------------------------------------------------------------------------------------------


def test_a_repository_is_named_with_its_quantisation(home: Path) -> None:
    files = {label: in_hub(home, "user/repo-GGUF", f"model-{label}.gguf") for label in ("Q4_K_M", "q8_0", "UD-IQ2_XXS")}
    assert sorted(names()) == ["user/repo-GGUF:Q4_K_M", "user/repo-GGUF:Q8_0", "user/repo-GGUF:UD-IQ2_XXS"]
    for label, path in files.items():
        for name in (f"user/repo-GGUF:{label}", f"hf.co/user/repo-GGUF:{label.lower()}"):
            assert find_model(name) == path
    assert find_model("user/repo-GGUF") == files["Q4_K_M"]


@pytest.mark.parametrize(
    "form",
    [
        "hf://user/repo/inner/m.Q6_K.gguf",
        "hf://user/repo/inner/m.Q6_K.gguf@main",
        "hf.co/user/repo:Q6_K",
        "huggingface.co/user/repo",
        "https://huggingface.co/user/repo/resolve/main/inner/m.Q6_K.gguf?download=true",
        "https://huggingface.co/user/repo/blob/main/inner/m.Q6_K.gguf",
        "https://hf.co/user/repo",
        "https://huggingface.co/user/repo/tree/main?show_file_info=inner%2Fm.Q6_K.gguf",
        "user/repo:Q6_K",
        "user/repo:latest",
        f"user/repo@{REVISION}:Latest",
        "user/repo",
    ],
)
def test_every_usual_form_of_a_name_leads_to_the_file(home: Path, form: str) -> None:
    path = in_hub(home, "user/repo", "inner/m.Q6_K.gguf")
    assert find_model(form) == path


@pytest.mark.parametrize("form", ["user/repo-gguf:q6_k", f"USER/repo-gguf@{REVISION}", "User/repo-gguf"])
def test_a_repository_is_found_in_any_case_as_on_the_hub(home: Path, form: str) -> None:
    path = in_hub(home, "User/Repo-GGUF", "m.Q6_K.gguf")
    assert find_model(form) == path
    other = in_hub(home, "user/repo-gguf", "m.Q6_K.gguf")
    assert (find_model("user/repo-gguf"), find_model("User/Repo-GGUF")) == (other, path)


def test_without_a_quantisation_the_usual_ones_come_first(home: Path) -> None:
    in_hub(home, "user/repo", "a-F16.gguf")
    assert find_model("user/repo").name == "a-F16.gguf"
    for name in ("b-Q8_0.gguf", "c-Q4_K_M.gguf"):
        usual = in_hub(home, "user/repo", name)
        assert find_model("user/repo") == usual


def test_without_a_quantisation_and_a_usual_one_the_choices_are_named(home: Path) -> None:
    for name in ("a-Q5_K_M.gguf", "b-F16.gguf"):
        in_hub(home, "user/repo", name)
    with pytest.raises(ModelFileError) as caught:
        find_model("user/repo")
    assert caught.value.cause == "They are: a-Q5_K_M.gguf, b-F16.gguf."
    assert caught.value.hint == "Name one: user/repo:Q5_K_M."


def test_a_shorter_quantisation_is_not_part_of_a_longer(home: Path) -> None:
    in_hub(home, "user/repo", "m-Q4_K_M.gguf")
    assert not_here("user/repo:Q4_K").cause == "Here are: user/repo:Q4_K_M."


def test_what_guesses_for_a_model_is_not_taken_for_it(home: Path) -> None:
    head = in_hub(home, "user/repo", "dflash-gemma-Q8_0.gguf")
    assert find_model("user/repo") == Path("user/repo")
    model = in_hub(home, "user/repo", "gemma-Q8_0.gguf")
    assert [find_model(name) for name in ("user/repo", "user/repo:Q8_0")] == [model, model]
    assert find_model("hf://user/repo/dflash-gemma-Q8_0.gguf") == head
    assert names() == ["hf://user/repo/dflash-gemma-Q8_0.gguf", "user/repo:Q8_0"]


def test_two_files_of_one_quantisation_each_have_a_name_that_leads_back(home: Path) -> None:
    for name in ("one-Q4_0.gguf", "two-Q4_0.gguf", "plain.gguf", "other.gguf"):
        in_hub(home, "user/repo", name)
    models = local_models()
    assert len({model.name for model in models}) == 4
    assert {find_model(model.name) for model in models} == {model.path for model in models}


def test_the_main_revision_comes_first_and_older_ones_are_found(home: Path) -> None:
    older = in_hub(home, "user/repo", "m-Q4_0.gguf", OLDER)
    only_older = in_hub(home, "user/repo", "m-Q8_0.gguf", OLDER)
    newer = in_hub(home, "user/repo", "m-Q4_0.gguf")
    # What was fetched last need not be what the name stands for.
    os.utime(older.parent, (2e9, 2e9))
    assert find_model("user/repo:Q4_0") == newer != older
    assert find_model("user/repo:Q8_0") == only_older


def test_a_link_to_a_blob_that_is_gone_is_listed_with_the_reason(home: Path) -> None:
    path = in_hub(home, "user/repo", "m-Q4_0.gguf")
    path.resolve().unlink()
    model = local_models()[0]
    assert (model.info, model.fits, model.need) == (None, None, None)
    assert "link to a file that is gone" in model.reason
    with pytest.raises(ModelFileError):
        check_file(find_model("user/repo:Q4_0"))


@pytest.mark.parametrize("closed", ["y" * 300, "secret/m.gguf"])
def test_a_link_to_what_can_not_be_looked_at_spoils_no_list(
    home: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    fine, stat = write_raw(home / "own/n.gguf"), Path.stat
    (home / "own/m.gguf").symlink_to(closed)
    snapshot = in_hub(home, "user/repo", "m-Q4_0.gguf").parent
    (snapshot.parent / OLDER).symlink_to(closed)

    def refused(self: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if follow_symlinks and self.is_symlink() and str(self.readlink()) == closed:
            raise PermissionError(13, "Permission denied", str(self))
        return stat(self, follow_symlinks=follow_symlinks)

    if closed.startswith("secret"):
        monkeypatch.setattr(Path, "stat", refused)
    broken, *others = local_models([home / "own"])
    assert broken.info is None
    assert "m.gguf" in broken.reason
    assert [model.path for model in others] == [fine, snapshot / "m-Q4_0.gguf"]


def test_projectors_and_other_files_are_no_models(home: Path) -> None:
    in_hub(home, "user/repo", "mmproj-F16.gguf")
    in_hub(home, "user/repo", "README.md")
    (home / ".cache/huggingface/hub/version.txt").write_text("1")
    (home / ".cache/huggingface/hub/datasets--user--set/snapshots/x").mkdir(parents=True)
    assert names() == []


def test_a_split_model_is_one_and_is_named_once(home: Path) -> None:
    for part in (1, 2):
        changes = {"split.no": part - 1, "split.count": 2}
        path = home / f"own/big-Q4_0-{part:05}-of-00002.gguf"
        write_raw(path, changes, tensors=[Weights(f"blk.{part}.x")])
    (model,) = local_models([home / "own"])
    assert (info(model).files, model.path.name) == (2, "big-Q4_0-00001-of-00002.gguf")
    assert find_model(str(home / "own/big-Q4_0-00002-of-00002.gguf")) == model.path
    (home / "own/big-Q4_0-00002-of-00002.gguf").unlink()
    (model,) = local_models([home / "own"])
    assert "big-Q4_0-00002-of-00002.gguf is missing" in model.reason


@pytest.mark.parametrize(
    ("variable", "folder"), [("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")]
)
def test_the_cache_is_where_the_hubs_own_variables_say(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, folder: str
) -> None:
    in_hub(home, "user/repo", "m-Q4_0.gguf")
    place = home / "moved"
    (place / folder).parent.mkdir(parents=True, exist_ok=True)
    (home / ".cache/huggingface/hub").rename(place / folder)
    assert names() == []
    monkeypatch.setenv(variable, str(place))
    assert names() == ["user/repo:Q4_0"]


@pytest.mark.parametrize("variable", [name for name in VARIABLES.split() if not name.startswith("XDG")])
@pytest.mark.usefixtures("home")
def test_a_folder_below_nobodys_home_is_told_with_its_variable(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "~nobody-of-this-name/models")
    with pytest.raises(UsageError, match=f"^{variable} ~nobody-of-this-name/models can't be found") as failure:
        names()
    assert failure.value.hint == "Name the folder itself."


# --- llama.cpp, Ollama, LM Studio -------------------------------------------------------------------------------------


def test_llama_cpps_cache_is_named_by_its_manifests(home: Path) -> None:
    named = in_llama_cpp(home, "user/repo", "m-q4_k_m.gguf", "Q4_K_M")
    foreign = write_raw(home / ".cache/llama.cpp/foreign.gguf")
    (home / ".cache/llama.cpp/manifest=broken=x=latest.json").write_text("{")
    (home / ".cache/llama.cpp/manifest=odd=x=latest.json").write_text('{"ggufFile": [1]}')
    assert sorted(names()) == sorted(["user/repo:Q4_K_M", str(foreign)])
    for name in ("user/repo:Q4_K_M", "user/repo:q4_k_m", "user/repo", "hf.co/user/repo:Q4_K_M"):
        assert find_model(name) == named
    assert not_here("user/repo:Q8_0").cause == "Here are: user/repo:Q4_K_M."


def test_llama_cpps_latest_is_found_with_and_without_a_quantisation(home: Path) -> None:
    named = in_llama_cpp(home, "user/repo", "m-q4_k_m.gguf", "latest")
    assert names() == ["user/repo:latest"]
    for name in ("user/repo:latest", "user/repo", "user/repo:Q4_K_M"):
        assert find_model(name) == named


def test_llama_cpps_latest_leads_there_where_the_hubs_cache_has_another(home: Path) -> None:
    other, named = in_hub(home, "user/repo", "m-Q8_0.gguf"), in_llama_cpp(home, "User/repo", "m-q4_k_m.gguf", "latest")
    assert (find_model("User/repo:latest"), find_model("user/repo")) == (named, other)


def test_ollamas_models_are_named_as_there(home: Path) -> None:
    places = {
        "ollama:llama3.2:3b": "registry.ollama.ai/library/llama3.2/3b",
        "ollama:me/mine:latest": "registry.ollama.ai/me/mine/latest",
        "ollama:hf.co/user/repo:Q4_0": "hf.co/user/repo/Q4_0",
        "ollama:localhost:5000/me/mine:latest": "localhost:5000/me/mine/latest",
    }
    blobs = {name: in_ollama(home, place, digest=str(i) * 64) for i, (name, place) in enumerate(places.items(), 1)}
    assert sorted(names()) == sorted(places)
    for name, blob in blobs.items():
        assert find_model(name) == blob
    for name in ("ollama:me/mine", "ollama:localhost:5000/me/mine"):
        assert find_model(name) == blobs[f"{name}:latest"]
    assert find_model("ollama:library/llama3.2:3b") == blobs["ollama:llama3.2:3b"]


def test_two_names_of_one_ollama_blob_are_listed_once(home: Path) -> None:
    for tag in ("3b", "latest"):
        in_ollama(home, f"registry.ollama.ai/library/llama3.2/{tag}")
    assert names() == ["ollama:llama3.2:3b"]


def test_one_name_in_two_stores_is_listed_once_and_leads_to_the_first(home: Path) -> None:
    first = write_raw(home / ".lmstudio/models/a/b/c.gguf")
    write_raw(home / ".cache/lm-studio/models/a/b/c.gguf", ABOUT)
    assert [model.path for model in local_models()] == [first]
    assert find_model("lmstudio:a/b/c.gguf") == first


def test_an_ollama_blob_that_is_gone_or_no_model_is_told(home: Path) -> None:
    in_ollama(home, "registry.ollama.ai/library/gone/1b").unlink()
    blob = in_ollama(home, "registry.ollama.ai/library/odd/1b", digest="2" * 64)
    blob.write_bytes(b"PK\x03\x04" + bytes(100))
    reasons = {model.name: model.reason for model in local_models()}
    assert "There is no file" in reasons["ollama:gone:1b"]
    assert "not a GGUF file" in reasons["ollama:odd:1b"]


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", "{}", '{"layers": 5}', '{"layers": [1, {"mediaType": "application/vnd.ollama.image.model"}]}'),
        '{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../etc"}]}',
    ],
)
def test_a_manifest_that_is_none_names_nothing(home: Path, text: str) -> None:
    in_ollama(home, "registry.ollama.ai/library/x/1b")
    (home / ".ollama/models/manifests/registry.ollama.ai/library/x/1b").write_text(text)
    assert names() == []
    not_here("ollama:x:1b")


@pytest.mark.parametrize("name", ["../x", "a/b/c/d", "", "x:../y", "-x", "a//b", "h:1:2/a/b", "a:1/b", "h:/a/b"])
@pytest.mark.usefixtures("home")
def test_an_ollama_name_can_not_leave_its_folder(name: str) -> None:
    assert ollama_parts(name) is None
    not_here(f"ollama:{name}")


def test_lm_studios_models_are_named_by_their_place(home: Path) -> None:
    path = write_raw(home / ".lmstudio/models/publisher/model-GGUF/model-Q4_K_M.gguf")
    older = write_raw(home / ".cache/lm-studio/models/them/other/o.gguf")
    assert sorted(names()) == ["lmstudio:publisher/model-GGUF/model-Q4_K_M.gguf", "lmstudio:them/other/o.gguf"]
    for name in ("publisher/model-GGUF/model-Q4_K_M.gguf", "publisher/model-GGUF/model-Q4_K_M", "publisher/model-GGUF"):
        assert find_model(f"lmstudio:{name}") == path
    assert find_model("lmstudio:them/other/o") == older
    assert "lmstudio:them/other/o.gguf" in not_here("lmstudio:them/nothing").cause
    write_raw(path.with_name("model-Q8_0.gguf"))
    not_here("lmstudio:publisher/model-GGUF")
    not_here("lmstudio:../../.lmstudio")


def test_lm_studio_may_have_moved(home: Path) -> None:
    write_raw(home / "elsewhere/models/a/b/c.gguf")
    (home / ".lmstudio-home-pointer").write_text(f"{home / 'elsewhere'}\n")
    assert names() == ["lmstudio:a/b/c.gguf"]


# --- own folders, and all of them -------------------------------------------------------------------------------------


def test_own_folders_come_from_the_environment_and_from_the_caller(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three = (write_raw(home / folder / "deep/er/m.gguf") for folder in ("one", "two", "three"))
    monkeypatch.setenv("LOCALSPEC_MODELS", os.pathsep.join([str(home / "one"), "", str(home / "two")]))
    assert [model.path for model in local_models([home / "three"])] == [one, two, three]
    assert [find_model(model.name) for model in local_models([home / "three"])] == [one, two, three]


def test_folders_are_found_behind_links_each_once_and_without_end(home: Path) -> None:
    real, elsewhere = write_raw(home / "own/m/real.gguf"), write_raw(home / "disk/models/far.gguf")
    (home / "own/a").symlink_to(home / "disk", target_is_directory=True)
    (home / "own/again").symlink_to(home / "own/m", target_is_directory=True)
    (home / "disk/models/back").symlink_to(home / "own", target_is_directory=True)
    (home / "own/gone").symlink_to(home / "nowhere", target_is_directory=True)
    assert gguf_files(home / "own") == [home / "own/a/models/far.gguf", real]
    assert [model.path.resolve() for model in local_models([home / "own"])] == [elsewhere, real]


def test_one_file_under_several_names_is_listed_once(home: Path) -> None:
    path = in_hub(home, "user/repo", "m-Q4_0.gguf")
    (home / "own").mkdir()
    (home / "own/link.gguf").symlink_to(path)
    (home / "own/hard.gguf").hardlink_to(path.resolve())
    assert len(local_models([home / "own"])) == 1


@pytest.mark.parametrize(
    ("values", "changes", "words"),
    [
        ({"general.architecture": ""}, {}, "does not name its architecture"),
        ({"general.type": "adapter"}, {}, "part of one (adapter)"),
        ({"general.architecture": "bert"}, {}, "does not write text (bert)"),
        ({"general.architecture": "perpetuum"}, {}, "architecture 'perpetuum' is not supported"),
        ({"general.architecture": "eagle3"}, {}, "a draft head, not a model by itself. It is an EAGLE-3 head"),
        (
            {"llama.nextn_predict_layers": 1},
            {"tensors": [Weights("blk.2.nextn.eh_proj.weight")]},
            "It is a drafting layer (MTP) of llama",
        ),
        ({"tokenizer.ggml.model": "unheard-of"}, {}, "tokenizer is 'unheard-of'"),
        ({"tokenizer.ggml.tokens": 5}, {}, "no vocabulary"),
        ({}, {"tensors": []}, "has no weights"),
        ({}, {"data": 0}, "cut short"),
        ({}, {"keys": 1 << 60}, "damaged"),
    ],
)
def test_what_can_not_be_used_is_listed_with_the_reason(
    home: Path, values: Mapping[str, str | int], changes: dict[str, object], words: str
) -> None:
    write_raw(home / "own/m.gguf", values, **changes)
    write_raw(home / "own/n.gguf")
    broken, fine = local_models([home / "own"])
    assert broken.info is None
    assert words in broken.reason
    assert fine.info is not None


def test_whether_it_fits_depends_on_what_is_free(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_raw(home / "own/m.gguf")
    (model,) = local_models([home / "own"])
    assert (model.fits, model.need is not None and model.need > 0) == (True, True)
    monkeypatch.setattr(local, "available_memory", lambda: (model.need or 0) - 1)
    assert [model.fits for model in local_models([home / "own"])] == [False]


def test_looking_changes_nothing(home: Path) -> None:
    in_hub(home, "user/repo", "m-Q4_0.gguf")
    in_ollama(home, "registry.ollama.ai/library/x/1b")
    in_llama_cpp(home, "user/repo", "m-q4_k_m.gguf", "Q4_K_M")
    write_raw(home / ".lmstudio/models/a/b/c.gguf")

    def state() -> list[tuple[str, int, int]]:
        return [(str(path), path.lstat().st_mtime_ns, path.lstat().st_size) for path in sorted(home.rglob("*"))]

    before = state()
    assert len(local_models()) == 4
    assert state() == before


@pytest.mark.usefixtures("home")
def test_names_that_are_not_here_are_told_from_paths() -> None:
    assert find_model("some/where") == Path("some/where")
    assert find_model("Is it a model?") == Path("Is it a model?")
    for name in ("user/repo:Q4_0", "hf.co/user/repo", "hf://user/repo/m.gguf", "ollama:x", "lmstudio:a/b"):
        assert not_here(name).exit_code == 3
    with pytest.raises(ModelFileError, match="is not the name of a model"):
        find_model("hf://nothing")


def test_a_file_comes_before_a_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    in_hub(home, "user/repo", "m-Q4_0.gguf")
    write_raw(home / "user/repo.gguf")
    assert find_model("user/repo") == Path("user/repo.gguf")


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Qwen3-8B-Q4_K_M.gguf", "Q4_K_M"),
        ("model.IQ4_XS.gguf", "IQ4_XS"),
        ("UD-Q4_K_XL/big-UD-Q4_K_XL-00001-of-00002.gguf", "UD-Q4_K_XL"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("m-bf16.gguf", "BF16"),
        ("SmolLM2-135M-Instruct.gguf", ""),
        ("quality-Q.gguf", ""),
    ],
)
def test_a_files_name_says_its_quantisation(name: str, label: str) -> None:
    assert label_of(name) == label


# --- what was read is remembered --------------------------------------------------------------------------------------


def test_a_header_is_read_again_only_when_the_file_changes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, known = write_raw(home / "own/m.gguf"), home / "cache/headers.json"
    first = local_models([home / "own"], known=known)
    read: list[Path] = []

    def reading(path: Path, strings: KnownStrings) -> ModelInfo:
        read.append(path)
        return glance(path, strings)

    monkeypatch.setattr("models.gguf.known_headers.glance", reading)
    assert local_models([home / "own"], known=known)[0].info == first[0].info
    assert read == []
    write_raw(path, {"general.name": "another"})
    assert info(local_models([home / "own"], known=known)[0]).title == "another"
    assert read == [path]


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 0}', '{"format": 3, "headers": []}'])
def test_a_damaged_memory_is_as_good_as_none(home: Path, text: str) -> None:
    path, known = write_raw(home / "own/m.gguf"), home / "headers.json"
    known.write_text(text)
    assert KnownHeaders(known).info(path) == model_info(path)


def test_an_entry_that_is_not_understood_is_read_anew(home: Path) -> None:
    path, known = write_raw(home / "own/m.gguf"), home / "headers.json"
    local_models([home / "own"], known=known)
    said = json.loads(known.read_text())
    for change in ({"more": 1}, {"shape": {"weights": 1}}, {"fim": None}):
        (entry,) = said["headers"].values()
        known.write_text(json.dumps({**said, "headers": {str(path): {**entry, "info": {**entry["info"], **change}}}}))
        assert KnownHeaders(known).info(path) == model_info(path)


def test_a_memory_that_can_not_be_written_is_no_failure(home: Path) -> None:
    write_raw(home / "own/m.gguf")
    (home / "file").touch()
    assert len(local_models([home / "own"], known=home / "file/headers.json")) == 1


def test_a_memory_that_can_not_be_replaced_leaves_nothing_beside_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_raw(home / "own/m.gguf")

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    assert len(local_models([home / "own"], known=home / "cache/headers.json")) == 1
    assert list((home / "cache").iterdir()) == []
