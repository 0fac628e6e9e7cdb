"""Files in a message: what is a mention and what is not, what is sent, what is refused, and what can be completed."""

import os
import subprocess
from pathlib import Path

import pytest

from app.chat_input.folder_files import candidates
from app.chat_input.mentions import expand, mention
from models.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("print(1)\n")
    (tmp_path / "with space.txt").write_text("spaced")
    (tmp_path / "Makefile").write_text("all:\n")
    (tmp_path / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 101)))
    return tmp_path


def names(text: str, folder: Path) -> list[str]:
    return [file.name for file in expand(text, folder).files]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("what is @src/main.py", ["src/main.py"]),
        ("@src/main.py, @Makefile.", ["src/main.py", "Makefile"]),
        ("(see @src/main.py)?!", ["src/main.py"]),
        ("@src/main.py's first line, and @Makefile\u2019s, and @Makefile's.", ["src/main.py", "Makefile"]),
        ("\u201c@src/main.py\u201d\u2026 \uff08@Makefile\uff09\u3002", ["src/main.py", "Makefile"]),
        ("is @somebody's @long.txt:2's?", ["long.txt"]),
        ('read @"with space.txt"!', ["with space.txt"]),
        ('read "@Makefile"', ["Makefile"]),
        ("@./src/../src/main.py", ["src/../src/main.py"]),
        ("twice @Makefile and @Makefile and @./Makefile", ["Makefile"]),
        ("mail a@b.c or a@Makefile", []),
        ("ask @somebody about @src and 3 @ 4, @, @. @..", []),
        (r"\@src/main.py and \@missing.py", []),
        ("`@src/main.py` and ``@missing.py``", []),
        ("```\n@src/main.py\n@missing.py\n```\n@Makefile", ["Makefile"]),
        ("~~~\n@missing.py\nnever closed", []),
        ('@app.get("/x")\n@app.route(path=1)', []),
        ("at @10.30 with @1.2", []),
        ("@" + "x/" * 5000, []),
    ],
)
def test_a_mention_begins_a_word_of_prose_and_names_a_file(text: str, found: list[str], folder: Path) -> None:
    assert names(text, folder) == found


def test_the_text_stays_and_each_file_follows_in_a_block_under_its_path(folder: Path) -> None:
    expanded = expand("Why?  @src/main.py\n\n- and @long.txt:2-3 \n", folder)
    assert expanded.text == (
        "Why?  @src/main.py\n\n- and @long.txt:2-3 \n\n\n"
        "src/main.py:\n```py\nprint(1)\n```\n\n"
        "long.txt, lines 2-3:\n```txt\nline 2\nline 3\n```"
    )
    assert [(file.name, file.characters, file.lines) for file in expanded.files] == [
        ("src/main.py", 9, 1),
        ("long.txt", 14, 2),
    ]


def test_a_text_without_mentions_is_sent_as_it_is(folder: Path) -> None:
    text = "  a@b.c \n\n@nobody\t"
    assert expand(text, folder).text == text


def test_an_escaped_sign_loses_its_backslash_and_no_other_text_does(folder: Path) -> None:
    assert expand(r"\@src/main.py a\@b `\@x` \\@y", folder).text == r"@src/main.py a\@b `\@x` \\@y"


def test_what_was_pasted_is_no_mention_and_stays_as_it_is(folder: Path) -> None:
    pasted = "@pytest.mark.slow\n@Makefile \\@x\n"
    expanded = expand(f"Explain @src/main.py:\n{pasted}", folder, [pasted])
    assert [file.name for file in expanded.files] == ["src/main.py"]
    assert expanded.text.startswith(f"Explain @src/main.py:\n{pasted}")


@pytest.mark.parametrize(
    ("span", "sent"),
    [
        ("5", ["line 5"]),
        ("99-400", ["line 99", "line 100"]),
        ("0-1", ["line 1"]),
        ("2-3,", ["line 2", "line 3"]),
    ],
)
def test_a_range_sends_these_lines(span: str, sent: list[str], folder: Path) -> None:
    (file,) = expand(f"@long.txt:{span} and @src", folder).files
    assert file.text.splitlines() == sent


def test_a_range_of_a_file_that_is_sent_anyway_is_not_sent_again(folder: Path) -> None:
    assert [file.title for file in expand("@long.txt:1-2 @long.txt:1-2", folder).files] == ["long.txt, lines 1-2"]
    assert [file.title for file in expand("@long.txt:1-2 @long.txt", folder).files] == ["long.txt"]


def test_a_quoted_path_can_have_a_range_and_a_colon_can_be_in_a_name(folder: Path) -> None:
    (folder / "a:1").write_text("odd")
    files = expand('@"with space.txt":1 @a:1', folder).files
    assert [file.title for file in files] == ["with space.txt, line 1", "a:1"]


def test_a_fence_is_longer_than_any_in_the_file(folder: Path) -> None:
    (folder / "notes.md").write_text("````\n```\nx")
    assert expand("@notes.md", folder).text.endswith("notes.md:\n`````md\n````\n```\nx\n`````")


def test_line_ends_and_a_byte_order_mark_are_no_part_of_a_text(folder: Path) -> None:
    (folder / "dos.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (file,) = expand("@dos.txt", folder).files
    assert (file.text, file.lines) == ("one\ntwo\n", 2)


def test_an_empty_file_is_sent_as_an_empty_block(folder: Path) -> None:
    (folder / "empty.txt").touch()
    expanded = expand("@empty.txt", folder)
    assert expanded.text.endswith("empty.txt:\n```txt\n\n```")
    assert expanded.files[0].lines == 0


def test_absolute_paths_and_those_from_home_are_told_as_they_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (file,) = expand("@~/Makefile", elsewhere).files
    assert file.name == str(folder / "Makefile")


def refused(text: str, folder: Path) -> UsageError:
    with pytest.raises(UsageError) as caught:
        expand(text, folder)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("text", ["@src/gone.py", "@gone.py: why?", '@"gone away"', "@gone.py:3-4", "@.gone", "@a/b"])
def test_what_looks_like_a_path_and_is_no_file_is_refused(text: str, folder: Path) -> None:
    error = refused(text, folder)
    assert error.title.startswith("There is no file ")
    assert not error.title.endswith(":..")
    assert str(folder) in error.cause


def test_lines_that_a_file_lacks_are_told_with_those_it_has(folder: Path) -> None:
    (folder / "two.py").write_text("a\nb\n")
    (folder / "empty.py").write_text("")
    error = refused("@two.py:9-40", folder)
    assert (error.title, error.cause) == ("two.py has no lines 9 to 40.", "It has 2.")
    assert error.hint == "Try @two.py:1-2."
    assert "It is empty" in (refused("@empty.py:1-2", folder).hint or "")


def test_what_is_no_text_to_be_read_is_refused_with_a_way_out(folder: Path) -> None:
    (folder / "data.bin").write_bytes(b"a\0b")
    (folder / "latin.txt").write_bytes(b"\xe9t\xe9")
    os.mkfifo(folder / "a.pipe")
    assert refused("@src/", folder).title == "src is a folder."
    assert refused("@data.bin", folder).title == "data.bin is not text."
    assert refused("@latin.txt", folder).title == "latin.txt is not UTF-8."
    assert refused("@a.pipe", folder).title == "a.pipe is not a regular file."
    assert refused("@long.txt:101", folder).cause == "It has 100."


def test_an_unreadable_file_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)  # permissions don't bind root, and tests may run as root
    error = refused("@Makefile", folder)
    assert (error.title, error.cause) == ("Makefile can't be read.", "Permission denied.")


def test_all_files_together_have_a_limit_and_a_part_of_a_long_one_can_be_had(folder: Path) -> None:
    line = "x" * 1023 + "\n"
    (folder / "big.txt").write_text(line * 600)
    (folder / "half.txt").write_text(line * 300)
    (folder / "other.txt").write_text(line * 300)
    assert refused("@big.txt", folder).title == "big.txt is too long to send."
    assert refused("@half.txt @other.txt", folder).title == "other.txt is too long to send."
    assert expand("@half.txt @other.txt:1-100 @big.txt:500-510", folder).files[2].characters == 11 * 1024


def test_a_file_without_end_is_not_read_to_its_end(folder: Path) -> None:
    with (folder / "sparse.txt").open("wb") as file:
        file.truncate(1 << 40)
    assert "more than" in refused("@sparse.txt", folder).cause


@pytest.mark.parametrize("path", ["a.py", "src/a b.py", "odd.", "x)", "a,b.txt", "~a.txt", "~$a.txt"])
def test_a_mention_that_is_written_for_a_path_names_it(path: str, folder: Path) -> None:
    (folder / path).write_text("x")
    assert names(f"see {mention(path)}, and", folder) == [path]


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def test_in_a_repository_the_files_are_those_that_git_shows(folder: Path) -> None:
    git(folder, "init")
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "noise.log").touch()
    (folder / "gone.txt").touch()
    git(folder, "add", "gone.txt", "Makefile")
    (folder / "gone.txt").unlink()
    assert sorted(candidates(folder)) == [".gitignore", "Makefile", "long.txt", "src/main.py", "with space.txt"]
    assert candidates(folder / "src") == ["main.py"]
    assert len(candidates(folder, 2)) == 2


def test_a_repository_can_not_make_git_run_its_programs(folder: Path) -> None:
    git(folder, "init")
    watcher = folder / "watcher.sh"
    watcher.write_text(f"#!/bin/sh\ntouch {folder}/ran\n")
    watcher.chmod(0o755)
    git(folder, "config", "core.fsmonitor", str(watcher))
    git(folder, "-c", "core.fsmonitor=false", "add", "Makefile")
    assert "Makefile" in candidates(folder)
    assert not (folder / "ran").exists()


def test_elsewhere_a_walk_lists_files_but_no_hidden_or_fetched_ones(folder: Path) -> None:
    for name in (".hidden", "node_modules", "__pycache__", ".venv"):
        (folder / name).mkdir()
        (folder / name / "x").touch()
    (folder / ".secret").touch()
    assert sorted(candidates(folder)) == ["Makefile", "long.txt", "src/main.py", "with space.txt"]


def test_a_walk_has_a_bound_and_leaves_out_the_deepest(folder: Path) -> None:
    deep = folder / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (deep / "deep.txt").touch()
    assert sorted(candidates(folder, 3)) == ["Makefile", "long.txt", "with space.txt"]
    assert candidates(folder, 0) == []


def test_links_that_lead_out_and_names_that_no_text_holds_are_left_out(folder: Path) -> None:
    outside = folder.parent / f"{folder.name}-outside"
    outside.mkdir()
    (outside / "secret.txt").touch()
    (folder / "out").symlink_to(outside)
    (folder / "out.txt").symlink_to(outside / "secret.txt")
    (folder / "in.txt").symlink_to(folder / "Makefile")
    (folder / "loop").symlink_to(folder)
    (folder / "new\nline").touch()
    (folder / 'quo"te').touch()
    expected = ["Makefile", "in.txt", "long.txt", "src/main.py", "with space.txt"]
    assert sorted(candidates(folder)) == expected
    git(folder, "init")
    assert sorted(candidates(folder)) == expected


def test_a_folder_that_is_not_there_has_no_files(folder: Path) -> None:
    assert candidates(folder / "gone") == []
