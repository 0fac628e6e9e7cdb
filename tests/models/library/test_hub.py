"""Downloads from a hub on loopback: they go on where they were cut, and what came damaged goes."""

import hashlib
import os
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from hub_server import COMMIT, NEWER, HubState, Refusal, hub_server
from huggingface_hub import close_session, hf_hub_download, scan_cache_dir

from models.errors import LocalspecError, ModelFileError
from models.library.hub import Hub
from models.library.hub_files import HubFile, is_safe, unlink

REPO, NAME = "user/repo-GGUF", "inner/m-Q4_0.gguf"
SIZE = 400_000
DATA = b"GGUF" + random.Random(5).randbytes(SIZE - 4)
PAGE = b"<html>Log in first</html>"
REVOKED = {"X-Error-Message": "Invalid credentials in Authorization header"}


class Stopped(BaseException):
    """Stands for Ctrl-C, or for the end of the process."""


@pytest.fixture(autouse=True)
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubState]:
    """Run a hub with one file, and let the cache be in `tmp_path`."""
    with hub_server() as state:
        state.add(REPO, NAME, DATA)
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"HF_ENDPOINT": state.url, "HF_HUB_CACHE": str(tmp_path), "NO_PROXY": "127.0.0.1"}.items():
            monkeypatch.setenv(name, value)
        yield state
        close_session()


def opened(waits: list[float] | None = None, told: list[str] | None = None) -> Hub:
    """Return a hub that does not sleep."""
    return Hub([].append if told is None else told.append, sleep=[].append if waits is None else waits.append)


def only_file(revision: str = "main") -> HubFile:
    (file,) = opened().repository(REPO, revision).files
    return file


def stop(_: object) -> None:
    raise Stopped


# --- what is fetched --------------------------------------------------------------------------------------------------


def test_a_file_comes_into_the_cache_as_the_hubs_own_library_has_it(hub: HubState, tmp_path: Path) -> None:
    seen: list[int] = []
    path = opened().fetch(only_file(), seen.append)
    assert path.read_bytes() == DATA
    assert (seen[0], seen[-1]) == (0, SIZE)
    assert seen == sorted(seen)
    asked = len(hub.requests)
    found = hf_hub_download(REPO, NAME, cache_dir=tmp_path, local_files_only=True)
    assert (Path(found), len(hub.requests)) == (path, asked)
    cache = scan_cache_dir(tmp_path)
    assert not cache.warnings
    assert [(repo.repo_id, repo.size_on_disk) for repo in cache.repos] == [(REPO, SIZE)]
    assert [sorted(revision.refs) for repo in cache.repos for revision in repo.revisions] == [["main"]]


def test_what_the_librarys_own_download_has_brought_is_not_fetched_again(hub: HubState, tmp_path: Path) -> None:
    theirs = hf_hub_download(REPO, NAME, cache_dir=tmp_path, endpoint=hub.url)
    hub.requests.clear()
    file = only_file()
    assert opened().fetch(file) == Path(theirs)
    assert len(hub.requests) == 1
    assert file.fetched == SIZE


def test_a_new_revision_of_the_same_bytes_is_linked_and_not_fetched(hub: HubState) -> None:
    first = opened().fetch(only_file())
    hub.commits["main"] = NEWER
    second = opened().fetch(only_file())
    assert (first.parts[-3], second.parts[-3]) == (COMMIT, NEWER)
    assert first.samefile(second)
    assert len(hub.asked("/blob/")) == 1


def test_the_token_goes_to_the_hub_and_not_to_its_cdn(hub: HubState, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.token = "hf_secret"
    monkeypatch.setenv("HF_TOKEN", hub.token)
    opened().fetch(only_file())
    assert hub.asked("/user/")[0]["authorization"] == "Bearer hf_secret"
    assert [headers.get("authorization") for headers in hub.asked("/blob/")] == [None]
    assert {headers["user-agent"] for _, _, headers in hub.requests} == {"localspec"}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_other_users_of_the_cache_may_read_what_the_umask_lets_them() -> None:
    before = os.umask(0o022)
    try:
        path = opened().fetch(only_file())
    finally:
        os.umask(before)
    for file in (path, path.parents[3] / "refs/main"):
        assert file.stat().st_mode & 0o777 == 0o644


# --- cuts -------------------------------------------------------------------------------------------------------------


def test_a_download_that_was_stopped_at_any_tenth_goes_on_from_there(hub: HubState) -> None:
    file, places = only_file(), [SIZE * tenth // 10 for tenth in range(1, 10)]
    for place in places:
        hub.cuts = [place]
        with pytest.raises(Stopped):
            Hub(sleep=stop).fetch(file)
        assert (file.fetched, file.partial.read_bytes()) == (place, DATA[:place])
        assert not file.path.exists()
    assert opened().fetch(file).read_bytes() == DATA
    assert hub.ranges_asked() == [f"bytes={place}-{SIZE - 1}" for place in [0, *places]]
    assert not file.partial.exists()


def test_each_tenth_is_cut_in_one_run_and_every_byte_comes_once(hub: HubState) -> None:
    hub.cuts = [SIZE * tenth // 10 for tenth in range(1, 10)]
    waits: list[float] = []
    told: list[str] = []
    assert opened(waits, told).fetch(only_file()).read_bytes() == DATA
    # What has come resets the patience: nine cuts are more than five attempts.
    assert waits == [1.0] * 9
    assert all("The connection to" in line and "Trying again in 1 s." in line for line in told)


def test_a_connection_that_gives_nothing_is_given_up(hub: HubState) -> None:
    hub.cuts = [0] * 9
    waits: list[float] = []
    with pytest.raises(LocalspecError, match="connection") as failure:
        opened(waits).fetch(only_file())
    assert waits == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert "resumes" in failure.value.hint


def test_a_server_that_knows_no_ranges_begins_anew(hub: HubState) -> None:
    hub.cuts, hub.ranges = [SIZE // 2], False
    assert opened().fetch(only_file()).read_bytes() == DATA


def test_the_middle_of_a_file_is_read_where_whole_files_are_sent(hub: HubState) -> None:
    hub.ranges = False
    assert opened().beginning(only_file(), SIZE // 2, SIZE // 2 + 1000) == DATA[SIZE // 2 : SIZE // 2 + 1000]


def begun() -> HubFile:
    """Return a file of which half is here."""
    file = only_file()
    file.partial.parent.mkdir(parents=True)
    file.partial.write_bytes(DATA[: SIZE // 2])
    return file


def test_an_answer_of_another_length_takes_nothing_away(hub: HubState) -> None:
    file, hub.ranges, hub.damaged = begun(), False, b"no"
    with pytest.raises(LocalspecError, match=f"sends something other than {NAME}") as failure:
        opened().fetch(file)
    assert "status 200, range none, length 2" in failure.value.cause
    assert "is kept" in failure.value.hint
    assert file.partial.read_bytes() == DATA[: SIZE // 2]
    hub.damaged = b""
    assert opened().fetch(file).read_bytes() == DATA


@pytest.mark.parametrize("here", [0, SIZE // 2])
def test_a_page_of_unknown_length_takes_nothing_away_and_leaves_nothing(hub: HubState, here: int) -> None:
    file, hub.ranges, hub.lengths, hub.damaged = begun(), False, False, PAGE
    file.partial.write_bytes(DATA[:here])
    with pytest.raises(LocalspecError, match=f"sends something other than {NAME}") as failure:
        opened().fetch(file)
    assert "status 200, range none, length unknown, and begins with b'<html>Log in fir'" in failure.value.cause
    assert file.partial.read_bytes() == DATA[:here]
    hub.damaged = b""
    assert opened().fetch(file).read_bytes() == DATA


def test_what_begins_like_no_model_is_begun_anew(hub: HubState) -> None:
    file = begun()
    file.partial.write_bytes(PAGE)
    assert opened().fetch(file).read_bytes() == DATA
    assert hub.ranges_asked() == [f"bytes=0-{SIZE - 1}"]


@pytest.mark.parametrize("said", ["", "bytes 0-9/10", f"bytes {SIZE // 2 + 1}-{SIZE - 1}/{SIZE}", "bytes */10"])
def test_an_answer_from_another_place_is_not_added(hub: HubState, said: str) -> None:
    file, hub.content_range = begun(), said
    with pytest.raises(LocalspecError, match="sends something other") as failure:
        opened().fetch(file)
    assert f"bytes from {SIZE // 2:,} on of {SIZE:,}" in failure.value.cause
    assert f"status 206, range {said or 'none'}" in failure.value.cause
    assert file.partial.read_bytes() == DATA[: SIZE // 2]
    hub.content_range = None
    assert opened().fetch(file).read_bytes() == DATA


def test_more_than_there_can_be_is_begun_anew() -> None:
    file = only_file()
    file.partial.parent.mkdir(parents=True)
    file.partial.write_bytes(DATA + b"more")
    assert file.fetched == SIZE
    assert opened().fetch(file).read_bytes() == DATA


def test_a_blob_that_another_program_left_short_is_fetched_again() -> None:
    file = only_file()
    file.blob.parent.mkdir(parents=True)
    file.blob.write_bytes(DATA[:100])
    file.path.parent.mkdir(parents=True)
    file.path.symlink_to(file.blob)
    assert (file.is_here, file.fetched) == (False, 0)
    assert opened().fetch(file).read_bytes() == DATA


# --- what comes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, SIZE // 2])
def test_damaged_bytes_are_told_and_removed(hub: HubState, place: int) -> None:
    file, hub.damaged = only_file(), b"GGUF" + bytes(SIZE - 4)
    if place:
        file.partial.parent.mkdir(parents=True)
        file.partial.write_bytes(DATA[:place])
    with pytest.raises(LocalspecError, match="damaged") as failure:
        opened().fetch(file)
    assert hashlib.sha256(DATA).hexdigest() in failure.value.cause
    assert failure.value.exit_code == 1
    assert [path for path in file.folder.rglob("*") if path.is_file()] == []
    hub.damaged = b""
    assert opened().fetch(file).read_bytes() == DATA


@pytest.mark.parametrize(
    ("refusal", "kind", "words"),
    [
        (Refusal(401, "RepoNotFound"), ModelFileError, "no repository user/repo-GGUF"),
        (Refusal(404), ModelFileError, "no repository user/repo-GGUF"),
        (Refusal(404, "RevisionNotFound"), ModelFileError, "no such revision"),
        (Refusal(404, "EntryNotFound"), ModelFileError, "is not there"),
        (Refusal(401, "GatedRepo"), LocalspecError, "users its owner has approved"),
        (Refusal(401, headers=REVOKED), LocalspecError, "does not accept your token"),
        (Refusal(401, "RepoNotFound", REVOKED), LocalspecError, "does not accept your token"),
        (Refusal(403), LocalspecError, "does not let you read"),
        (Refusal(416), LocalspecError, "error 416"),
    ],
)
def test_a_refusal_is_told_at_once_with_what_to_do(
    hub: HubState, refusal: Refusal, kind: type[LocalspecError], words: str
) -> None:
    waits: list[float] = []
    hub.refusals = [refusal]
    with pytest.raises(LocalspecError, match=words) as failure:
        opened(waits).repository(REPO)
    assert (type(failure.value), waits) == (kind, [])
    assert failure.value.hint


def test_the_wait_that_the_hub_asks_for_is_kept(hub: HubState) -> None:
    hub.refusals = [Refusal(429, headers={"Retry-After": "7"}), Refusal(503), Refusal(429)]
    waits: list[float] = []
    told: list[str] = []
    assert opened(waits, told).repository(REPO).commit == COMMIT
    assert waits == [7.0, 2.0, 4.0]
    assert "asks for fewer requests. Trying again in 7 s." in told[0]


@pytest.mark.parametrize("body", ["caf\xe9".encode("latin-1"), b"[]", b'"busy"', b'{"errors": [1]}'])
def test_an_error_whose_body_is_of_any_kind_is_told_and_tried_again(hub: HubState, body: bytes) -> None:
    file, waits = only_file(), list[float]()
    hub.refusals = [Refusal(503, headers={"Retry-After": "7"}, body=body)]
    assert opened(waits).fetch(file).read_bytes() == DATA
    hub.refusals = [Refusal(503, body=body), Refusal(403, "GatedRepo", body=body)]
    with pytest.raises(LocalspecError, match="users its owner has approved"):
        opened(waits).repository(REPO)
    assert waits == [7.0, 1.0]


def test_a_wait_of_an_hour_is_told_instead(hub: HubState) -> None:
    hub.refusals = [Refusal(429, headers={"Retry-After": "3600"})]
    waits: list[float] = []
    with pytest.raises(LocalspecError, match="fewer requests") as failure:
        opened(waits).repository(REPO)
    assert waits == []
    assert "3,600 s" in failure.value.hint


def test_the_hubs_own_word_for_when_there_are_requests_again_is_kept(hub: HubState) -> None:
    policy = {"RateLimit-Policy": '"fixed window";"api";q=500;w=300'}
    headers = [{"RateLimit": f'"api";r={left};t={seconds}', **policy} for left, seconds in ((0, 55), (9, 70), (0, 290))]
    hub.refusals = [Refusal(429, headers=headers[0]), Refusal(429, headers=headers[1])]
    hub.refusals += [Refusal(503, headers=headers[2]), Refusal(429, headers=headers[2])]
    waits: list[float] = []
    with pytest.raises(LocalspecError, match="fewer requests") as failure:
        opened(waits).repository(REPO)
    assert waits == [56.0, 2.0, 4.0]
    assert "Try again in 291 s" in failure.value.hint


def test_a_wait_that_is_no_number_is_the_usual_one(hub: HubState) -> None:
    hub.refusals = [Refusal(503, headers={"Retry-After": wait}) for wait in ("\N{SUPERSCRIPT TWO}", "tomorrow", "-1")]
    waits: list[float] = []
    assert opened(waits).repository(REPO).commit == COMMIT
    assert waits == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("ALL_PROXY", "socks5://me:secret@127.0.0.1:9", "Check ALL_PROXY, NO_PROXY. A SOCKS proxy needs"),
        ("https_proxy", "secret://127.0.0.1:9", "https_proxy"),
        ("HTTP_PROXY", "http://127.0.0.1:secret", "HTTP_PROXY"),
        ("HF_TOKEN", "secret\N{LATIN SMALL LETTER U WITH DIAERESIS}", "Check HF_TOKEN,"),
        ("SSL_CERT_FILE", "/no/such/file", "SSL_CERT_FILE=/no/such/file"),
        ("SSL_CERT_FILE", __file__, f"SSL_CERT_FILE={__file__}"),
        ("HF_ENDPOINT", "http://[::1", "HF_ENDPOINT=http://[::1"),
        ("HF_ENDPOINT", "http://127.0.0.1:port", "HF_ENDPOINT=http://127.0.0.1:port"),
        ("HF_ENDPOINT", f"http://{'a' * 70}/", "HF_ENDPOINT=http://aaa"),
    ],
)
def test_settings_with_which_nothing_can_be_asked_are_told_with_their_names(
    hub: HubState, monkeypatch: pytest.MonkeyPatch, name: str, value: str, shown: str
) -> None:
    monkeypatch.setenv(name, value)
    # Whether or not it is installed here.
    monkeypatch.setitem(sys.modules, "socksio", None)
    waits: list[float] = []
    with pytest.raises(LocalspecError, match="settings of this environment") as failure:
        opened(waits).repository(REPO)
    assert shown in failure.value.hint
    assert failure.value.cause
    assert "secret" not in failure.value.hint
    assert (waits, hub.requests) == ([], [])


def test_who_has_no_network_knows_at_once(monkeypatch: pytest.MonkeyPatch, hub: HubState) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    waits: list[float] = []
    with pytest.raises(LocalspecError, match=r"connection to http://127\.0\.0\.1:9 failed"):
        opened(waits).repository(REPO)
    assert (waits, hub.requests) == ([], [])


@pytest.mark.parametrize("listing", [b"<html>Log in first</html>", b"[]", b'{"sha": "x", "siblings": []}'])
def test_what_is_no_hub_is_told(hub: HubState, listing: bytes) -> None:
    hub.listing = listing
    with pytest.raises(LocalspecError, match="does not answer like the hub"):
        opened().repository(REPO)


@pytest.mark.parametrize("name", ["../../x.gguf", "/x.gguf", "a/../../x.gguf", "a\\x.gguf", "c:x.gguf", "a//x.gguf"])
def test_files_whose_names_lead_elsewhere_are_not_seen(hub: HubState, name: str) -> None:
    hub.add(REPO, name, DATA)
    assert not is_safe(name)
    assert [file.name for file in opened().repository(REPO).files] == [NAME]


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_there_is_no_hub(hub: HubState, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(LocalspecError, match=name):
        Hub()
    assert hub.requests == []


# --- the disk, and others at the same time ----------------------------------------------------------------------------


def test_a_full_disk_is_told_and_what_has_come_is_kept() -> None:
    resource = pytest.importorskip("resource")
    file, before = only_file(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE // 2, before[1]))
    try:
        with pytest.raises(LocalspecError, match="disk is full") as failure:
            opened().fetch(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert f"{SIZE // 2:,} bytes of {SIZE:,}" in failure.value.title
    assert file.partial.read_bytes() == DATA[: SIZE // 2]
    assert opened().fetch(file).read_bytes() == DATA


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions don't bind this user")
def test_a_folder_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    file = only_file()
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(LocalspecError, match="can't be put into"):
            opened().fetch(file)
    finally:
        tmp_path.chmod(0o700)


def test_a_name_of_a_revision_that_can_not_be_written_leaves_nothing_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, replace = only_file(), Path.replace

    def full(self: Path, target: Path) -> Path:
        if target.name == "main":
            raise OSError("no space left")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(LocalspecError, match="can't be put into"):
        opened().fetch(file)
    assert list((file.folder / "refs").iterdir()) == []


def test_two_downloads_of_one_file_at_once_are_one(hub: HubState) -> None:
    file, hub.gate = only_file(), threading.Event()
    told: list[str] = []
    paths: list[Path] = []
    first, second = (threading.Thread(target=lambda: paths.append(opened(told=told).fetch(file))) for _ in range(2))
    first.start()
    while not hub.asked("/blob/"):
        first.join(0.01)
    second.start()
    while not told:
        second.join(0.01)
    hub.gate.set()
    first.join()
    second.join()
    assert told == [f"Another program is fetching {NAME}: waiting for it."]
    assert [path.read_bytes() == DATA for path in paths] == [True, True]
    assert len(hub.asked("/blob/")) == 1


def test_two_downloads_of_one_file_where_locks_do_nothing_write_the_same_bytes(
    hub: HubState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hub, "_alone", lambda *_: nullcontext())
    file, hub.gate = only_file(), threading.Event()
    paths: list[Path] = []
    first, second = (threading.Thread(target=lambda: paths.append(opened().fetch(file))) for _ in range(2))
    first.start()
    while file.fetched < SIZE // 2:
        first.join(0.01)
    second.start()
    while file.fetched < SIZE * 3 // 4:
        second.join(0.01)
    hub.gate.set()
    first.join()
    second.join()
    assert [path.read_bytes() == DATA for path in paths] == [True, True]
    assert hub.ranges_asked() == [f"bytes={place}-{SIZE - 1}" for place in (0, SIZE // 2)]


def test_a_program_that_is_first_to_keep_the_file_does_not_fail_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    file, replace, link = only_file(), Path.replace, Path.symlink_to

    def second(self: Path, target: Path) -> Path:
        if self == file.partial:
            replace(self, target)
        return replace(self, target)

    def second_link(self: Path, target: str) -> None:
        link(self, target)
        link(self, target)

    monkeypatch.setattr(Path, "replace", second)
    monkeypatch.setattr(Path, "symlink_to", second_link)
    assert opened().fetch(file).read_bytes() == DATA
    assert [path.name for path in file.blob.parent.iterdir()] == [file.sha256]
    assert file.path.is_symlink()


def test_a_file_that_another_program_has_brought_meanwhile_is_not_fetched_again_where_links_can_not_be_made(
    hub: HubState, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, mine = only_file(), Hub._alone

    def refused(*_: object) -> None:
        raise OSError("links need a right")

    @contextmanager
    def after_another(self: Hub, asked: HubFile) -> Iterator[None]:
        with monkeypatch.context() as patch, mine(self, asked):
            patch.setattr(Hub, "_alone", lambda *_: nullcontext())
            opened().fetch(asked)
            yield

    monkeypatch.setattr(Path, "symlink_to", refused)
    monkeypatch.setattr(Hub, "_alone", after_another)
    assert opened().fetch(file).read_bytes() == DATA
    assert len(hub.asked("/blob/")) == 1


# --- away again -------------------------------------------------------------------------------------------------------


def test_removing_leaves_nothing_where_nothing_else_was() -> None:
    file = only_file()
    opened().fetch(file)
    assert unlink([file]) == SIZE
    assert not file.folder.exists()
    assert not file.lock.parent.exists()


def test_removing_leaves_what_other_snapshots_and_programs_have(hub: HubState, tmp_path: Path) -> None:
    hub.add(REPO, "other.gguf", b"GGUF" * 25)
    older = next(file for file in opened().repository(REPO).files if file.name == NAME)
    opened().fetch(older)
    hub.commits["main"] = NEWER
    files = {file.name: file for file in opened().repository(REPO).files}
    for file in files.values():
        opened().fetch(file)
    assert unlink([files[NAME]]) == 0
    assert older.path.read_bytes() == DATA
    assert files["other.gguf"].path.read_bytes() == b"GGUF" * 25
    assert not files[NAME].path.exists()
    assert not scan_cache_dir(tmp_path).warnings
    assert (unlink([older]), files["other.gguf"].is_here) == (SIZE, True)
    assert (files["other.gguf"].folder / "refs/main").read_text() == NEWER


def test_what_is_left_of_a_broken_download_can_be_removed(hub: HubState) -> None:
    file, hub.cuts = only_file(), [1000]
    with pytest.raises(Stopped):
        Hub(sleep=stop).fetch(file)
    assert unlink([file]) == 1000
    assert not file.folder.exists()
