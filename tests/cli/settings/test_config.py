"""Settings from files: precedence, refusals, and the output of `config show`."""

import json
import os
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from run_here import Done, localspec_here
from run_localspec import localspec
from tiny_gguf import write_llama

from app.command_line.cli import command_line
from app.config.schema import commands_of
from app.flags.declaring import SectionedOption

Finished = Done | CompletedProcess[str]
USER = Path(".config") / "localspec" / "config.toml"


def write(home: Path, text: str) -> None:
    (home / USER).parent.mkdir(parents=True, exist_ok=True)
    (home / USER).write_text(text)


def run_in(project: Path, *arguments: str, home: Path) -> Done:
    """Run localspec with another working directory than the checkout's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        return localspec_here(*arguments, home=home)


def shown(done: Finished) -> dict[str, tuple[object, str]]:
    assert done.returncode == 0, done.stderr
    settings = json.loads(done.stdout)["settings"]
    return {f"{each['command']}.{each['key']}": (each["value"], each["origin"]) for each in settings}


def started(done: Finished) -> dict[str, object]:
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[0]))


def temperature(done: Finished) -> object:
    sampling = started(done)["sampling"]
    assert isinstance(sampling, dict)
    return sampling["temperature"]


def test_a_flag_wins_over_the_environment_the_project_and_the_user(tmp_path: Path) -> None:
    project = tmp_path / "work"
    (project / ".git").mkdir(parents=True)
    ask = ("run", "toy", "hi", "-n", "2", "--json")
    assert temperature(run_in(project, *ask, home=tmp_path)) == 0.8
    write(tmp_path, "temp = 0.3\n")
    assert temperature(run_in(project, *ask, home=tmp_path)) == 0.3
    (project / ".localspec.toml").write_text("[run]\ntemp = 0.4\n")
    assert temperature(run_in(project, *ask, home=tmp_path)) == 0.4
    below = project / "src"
    below.mkdir()
    assert temperature(run_in(below, *ask, home=tmp_path)) == 0.4
    assert temperature(run_in(project, *ask, "--temp", "0.5", home=tmp_path)) == 0.5


def test_a_relative_path_is_seen_from_the_folder_of_its_file(tmp_path: Path) -> None:
    project = tmp_path / "work"
    below = project / "src"
    below.mkdir(parents=True)
    (project / ".git").mkdir()
    (project / "models").mkdir()
    big, tiny = write_llama(project / "models" / "big.gguf"), write_llama(project / "models" / "tiny.gguf")
    (project / "said.txt").write_text("hello")
    said = 'model = "models/big"\ndraft = "model:models/tiny.gguf"\nraw = true\n[run]\npredict = "said.txt"\n'
    (project / ".localspec.toml").write_text(said)
    assert run_in(below, "config", "trust", home=tmp_path).returncode == 0
    ask = ("run", "-p", "ab", "-n", "2", "--json")
    for folder in (project, below):
        start = started(run_in(folder, *ask, home=tmp_path))
        assert (start["model"], start["drafter"]) == ("big", "model:tiny")
    found = shown(run_in(below, "config", "show", "--json", home=tmp_path))
    assert found["serve.model"] == (str(big.with_suffix("")), "project")
    assert found["serve.draft"] == (f"model:{tiny}", "project")


@pytest.mark.parametrize(
    "name", ["starter", "toy", "user/repo:Q4_K_M", "user/repo/a.gguf", "lmstudio:a/b.gguf", "~/a.gguf"]
)
def test_a_name_of_a_model_is_no_path(tmp_path: Path, name: str) -> None:
    write(tmp_path, f'model = "{name}"\n')
    assert shown(localspec_here("config", "show", "--json", home=tmp_path))["run.model"] == (name, "user")


def test_the_opposite_of_a_flag_turns_off_what_a_file_turned_on(tmp_path: Path) -> None:
    write(tmp_path, "json = true\nquiet = true\nno-history = true\n")
    saved = tmp_path / ".local" / "share" / "localspec" / "conversations.db"
    ask = ("run", "toy", "hi", "-n", "2")
    assert started(localspec_here(*ask, home=tmp_path))["type"] == "start"
    done = localspec_here(*ask, "--no-json", "--no-quiet", home=tmp_path)
    assert (done.returncode, len(done.stdout), "tokens/s" in done.stderr, saved.exists()) == (0, 3, True, False)
    assert localspec_here(*ask, "--history", "--no-json", home=tmp_path).stderr == ""
    assert saved.exists()


def test_an_opposite_takes_no_other_flag_s_place() -> None:
    for command in commands_of(command_line).values():
        opposites = [each.opposite for each in command.params if isinstance(each, SectionedOption) and each.opposite]
        assert len({*opposites}) == len(opposites) > 0
    tuned = command_line.commands["tune"].make_context("tune", ["--no-card", "--card", "card.json"])
    assert (tuned.params["no_card"], tuned.params["card"]) == (True, "card.json")


@pytest.mark.parametrize(("said", "given"), [("strict", "--allow-rounding"), ("allow-rounding", "--strict")])
def test_of_two_flags_that_contradict_each_other_the_file_s_gives_way(tmp_path: Path, said: str, given: str) -> None:
    write(tmp_path, f"{said} = true\n")
    done = localspec_here("run", "toy", "hi", "-n", "2", given, home=tmp_path)
    assert (done.returncode, "strict: exact" in done.stderr) == (0, given == "--strict")
    refused = localspec_here("run", "toy", "hi", given, f"--{said}", home=tmp_path)
    assert (refused.returncode, "contradict" in refused.stderr) == (2, True)


@pytest.mark.parametrize("command", ["run", "serve"])
def test_settings_that_contradict_each_other_are_told_with_their_places(tmp_path: Path, command: str) -> None:
    project = tmp_path / "work"
    project.mkdir()
    (project / ".localspec.toml").write_text('cache-type-v = "q8_0"\n')
    where = f"The first is set in {project / '.localspec.toml'}, the second "
    assert where + "on the command line." in run_in(project, command, "toy", "-fa", "off", home=tmp_path).stderr
    write(tmp_path, '[run]\nflash-attn = "off"\n[serve]\nflash-attn = "off"\n')
    done = run_in(project, command, "toy", home=tmp_path)
    assert (done.returncode, f"{where}in {tmp_path / USER}." in done.stderr) == (2, True)
    both = run_in(project, command, "toy", "-fa", "off", "-ctv", "q8_0", home=tmp_path)
    assert "The first is set on the command line, the second on the command line." in both.stderr


def test_a_conversation_goes_on_with_its_own_system_prompt_and_not_with_a_file_s(tmp_path: Path) -> None:
    ask = ("run", "toy", "-n", "2", "hi")
    assert localspec_here(*ask, "-sys", "Be a pirate.", home=tmp_path).returncode == 0
    write(tmp_path, 'system-prompt = "Be brief."\n')
    exported = ("history", "export", "--json")
    for more in (("-C",), ("--resume", json.loads(localspec_here(*exported, home=tmp_path).stdout)["id"])):
        assert localspec_here("run", *more, "-n", "2", "and then?", home=tmp_path).returncode == 0
        assert json.loads(localspec_here(*exported, home=tmp_path).stdout)["system"] == "Be a pirate."
    assert localspec_here("run", "-C", "-sys", "Be loud.", "-n", "2", "and?", home=tmp_path).returncode == 0
    assert json.loads(localspec_here(*exported, home=tmp_path).stdout)["system"] == "Be loud."
    assert localspec_here(*ask, home=tmp_path).returncode == 0
    assert json.loads(localspec_here(*exported, home=tmp_path).stdout)["system"] == "Be brief."


def test_what_chats_are_to_be_like_keeps_nobody_from_editing(tmp_path: Path) -> None:
    write(tmp_path, 'system-prompt = "Be brief."\nplain = true\nraw = true\njson = true\n')
    refused = localspec_here("run", "toy", "--edit", "main.py", home=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "needs a full-screen terminal" in refused.stderr
    both = localspec_here("run", "toy", "--edit", "main.py", "--plain", home=tmp_path)
    assert "--edit opens an editor, and --plain works only in a chat." in both.stderr


@pytest.mark.parametrize("said", ["keep = true", 'card = "mine"', 'card = "mine"\nno-card = true'])
def test_what_a_file_wants_of_draft_models_keeps_nobody_from_tuning_without_one(tmp_path: Path, said: str) -> None:
    write(tmp_path, f"[tune]\n{said}\n")
    assert localspec_here("tune", "toy", "--seconds", "0.2", home=tmp_path).returncode == 0
    assert localspec_here("tune", "toy", "--keep", home=tmp_path).returncode == 2
    assert localspec_here("tune", "toy", "--card", "mine", home=tmp_path).returncode == 2


def test_quiet_silences_the_notes_on_flags_and_files_too(tmp_path: Path) -> None:
    project = tmp_path / "work"
    (project / ".git").mkdir(parents=True)
    (project / ".localspec.toml").write_text("[run]\nno-history = false\n")
    ask = ("run", "toy", "hi", "-n", "2", "--color")
    told = run_in(project, *ask, home=tmp_path).stderr
    assert ("is ignored" in told, "--color has no effect" in told) == (True, True)
    assert run_in(project, *ask, "-q", home=tmp_path).stderr == ""
    refused = run_in(project, *ask, "--nope", home=tmp_path).stderr
    assert "--color has no effect" in refused


def test_a_variable_of_the_environment_wins_over_the_files(tmp_path: Path) -> None:
    write(tmp_path, '[run]\ndraft = "lookup"\nmodel = "toy"\n')
    assert started(localspec("run", "-p", "hi", "-n", "2", "--json", home=tmp_path))["drafter"] == "lookup"
    extra = {"LOCALSPEC_DRAFT": "off"}
    assert started(localspec("run", "-p", "hi", "-n", "2", "--json", home=tmp_path, extra=extra))["drafter"] == "off"
    found = shown(localspec("config", "show", "--json", home=tmp_path, extra=extra))
    assert found["run.draft"] == ("off", "environment")
    assert found["run.model"] == ("toy", "user")


def test_a_table_is_for_one_command_and_wins_over_what_is_for_all(tmp_path: Path) -> None:
    write(tmp_path, 'threads = 3\n[bench]\nthreads = 2\nvs = ["auto", "lookup:7"]\n')
    found = shown(localspec_here("config", "show", "--json", home=tmp_path))
    assert found == {
        "run.threads": (3, "user"),
        "bench.threads": (2, "user"),
        "bench.vs": (["auto", "lookup:7"], "user"),
        "verify.threads": (3, "user"),
        "tune.threads": (3, "user"),
        "complete.threads": (3, "user"),
        "serve.threads": (3, "user"),
        "lsp.threads": (3, "user"),
    }


def test_show_names_the_files_and_every_setting_with_its_origin(tmp_path: Path) -> None:
    write(tmp_path, "[run]\nno-adapt = true\n")
    done = localspec_here("config", "show", "--all", home=tmp_path)
    assert f"# user: {tmp_path / USER}\n" in done.stdout
    assert "(no such file)" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["run.no-adapt", "true", "#", "user"] in lines
    assert ["run.temp", "0.8", "#", "built-in"] in lines
    assert not any(line[0].endswith((".prompt", ".file", ".continue", ".resume")) for line in lines)


def test_path_prints_the_users_file(tmp_path: Path) -> None:
    assert localspec_here("config", "path", home=tmp_path).stdout == f"{tmp_path / USER}\n"
    named = {"LOCALSPEC_CONFIG": str(tmp_path / "mine.toml")}
    assert localspec_here("config", "path", home=tmp_path, extra=named).stdout == f"{tmp_path / 'mine.toml'}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tmep = 0.2", "Did you mean 'temp'?"),
        ("[runn]\ntemp = 1", "Did you mean 'run'?"),
        ("[run]\nthread = 1", "Did you mean 'threads'?"),
        ('prompt = "hi"', "unknown setting 'prompt'"),
        ('temp = "warm"', "'warm' is not a valid float"),
        ("temp = true", "temp is true"),
        ("temp = nan", "Expected a finite number"),
        ("top-k = [1, 2]", "top-k is a list"),
        ("[run]\ntemp = [1, 2]", "[run]: temp is a list"),
        ("[run.temp]\na = 1", "temp is a table"),
        ('stop = [["a"]]', "stop is a list"),
        ("threads = 0x1" + "0" * 5000, "threads is a number of more than 63 bits"),
        ("threads = 1" + "0" * 5000, "is not valid TOML"),
        ("[run]\npredict = 100", "the name of a file, in quotes"),
        ('[run]\npredict = "a\\u0000"', "a text without a null character"),
        ('[bench]\nmodel = "\\u0000"', "a text without a null character"),
        ('[keys]\nchat.panel = "\\u0000"', "a text without a null character"),
        ("[bench]\ntemp = []", "at least one value"),
        ('edit = "main.py"', "--edit applies to a single run"),
        ("sunny = true", "the long flags of run, bench, verify, tune, complete, serve, lsp,"),
        ("[tune]\nsunny = true", "localspec tune --help lists its flags"),
        ("gpu-layers = 1\nn-gpu-layers = 2", "gpu-layers and n-gpu-layers are two names for one setting"),
        ("run = 5", "Write [run] on a line"),
        ("[[run]]\ntemp = 1", "run is a list"),
        ('keys = "f12"', "Write [keys] on a line"),
        ("[keys]\nchat.panel = true", "[keys]: chat.panel is true"),
        ("a = " + "[" * 3000 + "]" * 3000, "too deep"),
        ("[keys]\n" + "a." * 3000 + 'b = "f12"', "too deep"),
        ("no-adapt = 1", "Expected true or false"),
        ('[run]\naccept = "mostly"', "is not one of"),
        ("draft-max = 99", "is not in the range"),
        ("temp", "is not valid TOML"),
        ("temp = 1\n" + "#" * (1 << 20), "too large"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_file_and_what_to_do(tmp_path: Path, text: str, said: str) -> None:
    write(tmp_path, text)
    done = localspec_here("run", "toy", "hi", home=tmp_path)
    assert done.returncode == 2
    assert str(tmp_path / USER) in done.stderr
    assert said in done.stderr
    assert done.stdout == ""
    assert localspec_here("config", "show", home=tmp_path).returncode == 2


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path, encoding: str) -> None:
    write(tmp_path, "")
    (tmp_path / USER).write_bytes("# wärmer 雨\r\ntemp = 0.25\r\n".encode(encoding))
    done = localspec_here("run", "toy", "-p", "hi", "-n", "1", "--json", home=tmp_path)
    assert temperature(done) == 0.25


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("# wärmer\ntemp = 0.25\n".encode("latin-1"), "Byte 3 is 0xe4."),
        ("temp = 0.25\n".encode("utf-16-le"), "It looks like UTF-16LE without a byte order mark."),
        (b"temp = 0.25\n\0", "byte 12 is NUL"),
        (b"\xff\xfet", "is not valid UTF-16LE"),
    ],
)
def test_a_file_in_another_encoding_is_refused_in_words(tmp_path: Path, content: bytes, said: str) -> None:
    write(tmp_path, "")
    (tmp_path / USER).write_bytes(content)
    done = localspec_here("run", "toy", "hi", home=tmp_path)
    assert done.returncode == 2
    assert f"{tmp_path / USER} is not" in done.stderr
    assert said in done.stderr
    assert "codec" not in done.stderr


def test_a_setting_for_all_holds_for_those_that_take_its_value(tmp_path: Path) -> None:
    write(tmp_path, "draft-max = 0\nseed = -1\ntimeout = 0.05\nn-predict = 100\ntemp = [0, 0.7]\n")
    found = shown(localspec_here("config", "show", "--json", home=tmp_path))
    assert {name: value for name, (value, _) in found.items()} == {
        "run.draft-max": 0,
        "run.n-predict": 100,
        "run.seed": -1,
        "complete.draft-max": 0,
        "complete.n-predict": 100,
        "complete.seed": -1,
        "serve.draft-max": 0,
        "serve.n-predict": 100,
        "serve.timeout": 0.05,
        "lsp.draft-max": 0,
        "lsp.n-predict": 100,
        "bench.n-predict": 100,
        "bench.temp": ["0", "0.7"],
        "verify.n-predict": 100,
        "verify.temp": ["0", "0.7"],
    }
    write(tmp_path, "[bench]\ndraft-max = 0\n")
    done = localspec_here("run", "toy", "hi", home=tmp_path)
    assert done.returncode == 2
    assert "[bench]: draft-max is 0" in done.stderr


def test_a_flag_has_each_of_its_long_names_in_a_file(tmp_path: Path) -> None:
    for name in ("gpu-layers", "n-gpu-layers"):
        write(tmp_path, f"{name} = 10\n[tune]\nkeep = true\n")
        found = shown(localspec_here("config", "show", "--json", home=tmp_path))
        assert found["run.n-gpu-layers"] == found["tune.n-gpu-layers"] == (10, "user")
        assert found["tune.requantise-draft"] == (True, "user")
    write(tmp_path, "gpu-layers = 10\n[run]\nn-gpu-layers = 20\n")
    assert shown(localspec_here("config", "show", "--json", home=tmp_path))["run.n-gpu-layers"] == (20, "user")


def test_help_works_with_any_file_and_shows_the_values_that_hold(tmp_path: Path) -> None:
    write(tmp_path, "nonsense = 1")
    assert localspec_here("run", "--help", home=tmp_path).returncode == 0
    assert localspec_here("--version", home=tmp_path).returncode == 0
    write(tmp_path, "temp = 0.25")
    assert "[default: 0.25]" in localspec_here("run", "--help", home=tmp_path).stdout


def test_a_file_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / USER).mkdir(parents=True)
    done = localspec_here("run", "toy", "hi", home=tmp_path)
    assert done.returncode == 2
    assert "can't be read" in done.stderr


def test_a_file_that_is_wrong_stops_only_what_takes_settings(tmp_path: Path) -> None:
    write(tmp_path, "tmep = 1\n")
    for command, code in ((("run", "toy", "hi"), 2), (("history", "ls"), 0), (("completions", "zsh"), 0)):
        assert localspec_here(*command, home=tmp_path).returncode == code


def test_a_file_may_begin_with_the_mark_of_its_encoding(tmp_path: Path) -> None:
    write(tmp_path, "\ufefftemp = 0.3\n")
    assert shown(localspec_here("config", "show", "--json", home=tmp_path))["run.temp"] == (0.3, "user")


def test_a_variable_with_a_wrong_value_is_named(tmp_path: Path) -> None:
    for command in (("config", "show"), ("run", "toy", "hi")):
        done = localspec_here(*command, home=tmp_path, extra={"LOCALSPEC_NO_HISTORY": "banana"})
        assert done.returncode == 2
        assert "(from LOCALSPEC_NO_HISTORY): 'banana' is not a valid boolean" in done.stderr
        assert ("Usage" in done.stderr) == (command[0] == "run")


def test_a_file_below_nobodys_home_is_told_with_its_variable(tmp_path: Path) -> None:
    extra = {"LOCALSPEC_CONFIG": "~nobody-of-this-name/c.toml"}
    for command in (("run", "toy", "hi"), ("config", "path"), ("config", "show")):
        done = localspec_here(*command, home=tmp_path, extra=extra)
        assert (done.returncode, done.stdout) == (2, "")
        assert "LOCALSPEC_CONFIG ~nobody-of-this-name/c.toml can't be found." in done.stderr
    assert localspec_here("run", "--help", home=tmp_path, extra=extra).returncode == 0


def test_a_file_that_is_named_and_not_there_is_told_with_its_variable(tmp_path: Path) -> None:
    extra = {"LOCALSPEC_CONFIG": str(tmp_path / "c.tmol")}
    for command in (("run", "toy", "hi"), ("config", "show")):
        done = localspec_here(*command, home=tmp_path, extra=extra)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"LOCALSPEC_CONFIG names {tmp_path / 'c.tmol'}, which does not exist." in done.stderr
    assert localspec_here("run", "--help", home=tmp_path, extra=extra).returncode == 0
    assert localspec_here("config", "show", home=tmp_path, extra={"LOCALSPEC_CONFIG": os.devnull}).returncode == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such files")
@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
def test_a_project_s_file_that_is_none_is_refused_unread(tmp_path: Path, kind: str) -> None:
    project = tmp_path / "work"
    (project / ".git").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe")
    (project / ".localspec.toml").symlink_to({"device": "/dev/zero", "pipe": "../pipe", "folder": ".git"}[kind])
    done = run_in(project, "run", "toy", "hi", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{project / '.localspec.toml'} can't be read. It is not a regular file." in " ".join(done.stderr.split())


def test_a_user_s_file_without_an_end_is_too_large(tmp_path: Path) -> None:
    done = localspec_here("run", "toy", "hi", home=tmp_path, extra={"LOCALSPEC_CONFIG": "/dev/zero"})
    assert (done.returncode, "/dev/zero is too large" in done.stderr) == (2, True)


def test_home_is_no_project_under_another_name_either(tmp_path: Path) -> None:
    (tmp_path / "real" / ".git").mkdir(parents=True)
    (tmp_path / "real" / "below").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / ".localspec.toml").write_text("temp = 0.4\n")
    done = run_in(tmp_path / "link" / "below", "config", "show", "--json", home=tmp_path / "link")
    assert shown(done) == {}
    assert run_in(tmp_path / "real" / "below", "config", "show", "--json", home=tmp_path).stdout.count("0.4") > 0


def test_keys_have_a_table_of_their_own_and_each_is_a_setting(tmp_path: Path) -> None:
    project = tmp_path / "work"
    (project / ".git").mkdir(parents=True)
    write(tmp_path, '[keys]\n"chat.panel" = "f12"\nchat.copy = ["f11", "ctrl+k"]\n')
    (project / ".localspec.toml").write_text('[keys]\n"chat.panel" = "f10"\n')
    keys, origin = shown(run_in(project, "config", "show", "--json", home=tmp_path))["run.key"]
    assert keys == ["chat.panel=f12", "chat.copy=f11,ctrl+k", "chat.panel=f10"]
    assert origin == "project"


@pytest.mark.parametrize(
    "before", ['key = "chat.copy=f11"', '[run]\nkey = "chat.copy=f11"', '[run]\nkey = ["chat.copy=f11"]']
)
def test_keys_in_a_table_join_those_of_the_flag(tmp_path: Path, before: str) -> None:
    write(tmp_path, f'{before}\n[keys]\n"chat.panel" = "f12"\n')
    found = shown(localspec_here("config", "show", "--json", home=tmp_path))
    assert found["run.key"][0] == ["chat.copy=f11", "chat.panel=f12"]


def test_a_key_that_nothing_has_is_refused_with_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, '[keys]\n"chat.pannel" = "f12"\n')
    done = run_in(tmp_path, "run", "toy", "hi", home=tmp_path)
    assert done.returncode == 2
    assert "chat.pannel=f12" in done.stderr
    assert "Did you mean 'chat.panel'?" in done.stderr


def test_a_known_key_without_a_value_is_not_taken_for_a_wrong_name(tmp_path: Path) -> None:
    done = localspec_here("run", "toy", "hi", "--key", "chat.panel=", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--key chat.panel= can't be used." in done.stderr
    assert "Write NAME=KEY,KEY" in done.stderr
    assert "Did you mean" not in done.stderr


def test_a_key_for_clients_is_shown_nowhere(tmp_path: Path) -> None:
    write(tmp_path, '[serve]\napi-key = "from-the-file"\n')
    variable = {"LOCALSPEC_API_KEY": "from-the-environment"}
    for extra in ({}, variable):
        asked = (("config", "show"), ("config", "show", "--json"), ("serve", "--help"), ("verify", "--help"))
        said = [localspec_here(*arguments, home=tmp_path, extra=extra) for arguments in asked]
        assert not any("from-the" in done.stdout + done.stderr for done in said)
        assert shown(said[1])["serve.api-key"] == ("(set)", "environment" if extra else "user")
    assert shown(localspec_here("config", "show", "--json", "--all", home=tmp_path))["verify.api-key"][0] is None


@pytest.mark.parametrize("name", ["off", "lookup", "suffix", "auto"])
def test_a_drafter_without_a_model_is_no_default_for_what_wants_a_draft_model(tmp_path: Path, name: str) -> None:
    short = ("toy", "-n", "4", "--limit", "1", "--class", "chat", "-q")
    for command in ("bench", "verify"):
        plain = localspec_here(command, *short, "--json", home=tmp_path)
        assert plain.returncode == 0, plain.stderr
        for file, extra in ((f'draft = "{name}"', {}), ("", {"LOCALSPEC_DRAFT": name})):
            write(tmp_path, file)
            done = localspec_here(command, *short, "--json", home=tmp_path, extra=extra)
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["arms"] == json.loads(plain.stdout)["arms"]
        write(tmp_path, "")
        if name != "auto":
            refused = localspec_here(command, *short, "--draft", name, home=tmp_path)
            assert refused.returncode == 2
            assert f"--draft {name} is not a draft model" in refused.stderr


def test_a_working_directory_that_is_gone_leaves_what_is_not_about_it(tmp_path: Path) -> None:
    write(tmp_path, "temp = 0.3\n")
    gone = tmp_path / "gone"
    gone.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(gone)
        gone.rmdir()
        assert temperature(localspec_here("run", "toy", "hi", "-n", "2", "--json", home=tmp_path)) == 0.3
        assert shown(localspec_here("config", "show", "--json", home=tmp_path))["run.temp"] == (0.3, "user")
        assert "the working directory was deleted" in localspec_here("doctor", home=tmp_path).stdout


OPEN = '[serve]\nhost = "0.0.0.0"\napi-key = "known"\nallow-host = ["evil.example"]\nallow-origin = ["*"]\nport = 0\n'


def test_a_project_does_not_say_who_may_ask_a_server(tmp_path: Path) -> None:
    project = tmp_path / "work"
    (project / ".git").mkdir(parents=True)
    (project / ".localspec.toml").write_text(OPEN)
    served = run_in(project, "serve", "nope.gguf", home=tmp_path)
    assert served.returncode == 3
    assert f"allow-host, allow-origin, api-key, host of {project / '.localspec.toml'} is ignored" in served.stderr
    assert str(tmp_path / USER) in served.stderr
    assert run_in(project, "run", "toy", "hi", "-n", "2", "-q", home=tmp_path).stderr == ""
    told = run_in(project, "config", "show", "--json", home=tmp_path)
    assert shown(told) == {"serve.port": (0, "project")}
    passed = [file["passed_over"] for file in json.loads(told.stdout)["files"]]
    assert passed == [[], ["allow-host", "allow-origin", "api-key", "host"]]
    assert "#   ignored: allow-host" in run_in(project, "config", "show", home=tmp_path).stdout


def test_a_project_may_ask_that_nothing_is_kept_and_not_the_contrary(tmp_path: Path) -> None:
    project = tmp_path / "work"
    (project / ".git").mkdir(parents=True)
    write(tmp_path, "no-history = true\n")
    (project / ".localspec.toml").write_text('no-history = false\nno-memory = true\n[bench]\nplot = "x.svg"\n')
    told = run_in(project, "config", "show", "--json", home=tmp_path)
    assert shown(told)["run.no-history"] == (True, "user")
    assert shown(told)["run.no-memory"] == (True, "project")
    assert [file["passed_over"] for file in json.loads(told.stdout)["files"]] == [[], ["no-history", "plot"]]
    assert "no-history of" in run_in(project, "run", "toy", "hi", "-n", "2", home=tmp_path).stderr


def test_the_user_says_who_may_ask_a_server(tmp_path: Path) -> None:
    write(tmp_path, OPEN)
    (tmp_path / ".localspec.toml").write_text('api-key = "known"\n')
    found = shown(run_in(tmp_path, "config", "show", "--json", home=tmp_path))
    assert found["serve.host"] == ("0.0.0.0", "user")
    assert found["serve.allow-origin"] == (["*"], "user")
    assert found["serve.api-key"] == ("(set)", "user")
    for command in ("serve", "verify"):
        assert "api-key of" in run_in(tmp_path, command, "nope.gguf", home=tmp_path).stderr
