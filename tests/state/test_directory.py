"""Who may use a state directory, and what becomes of it when processes die."""

import errno
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from processor_api.errors import DiskFullError, RetryableError, StateDirectoryError
from processor_api.task_id import TaskId, TopicPartition
from state.custom.engine import CHECKPOINT, OffsetsFile
from state.directory.errors import directory_error, explained, has_room
from state.directory.file_lock import FileLock
from state.directory.metadata import METADATA_FILE
from state.directory.state_directory import ProcessIdentity, StateDirectory

REPOSITORY = Path(__file__).resolve().parents[2]
TASK = TaskId(0, 1)
DAY_MS = 86_400_000

WORKER = """
import sys
from pathlib import Path
from processor_api.task_id import TaskId
from state.directory.state_directory import StateDirectory
directory = StateDirectory.open(Path(sys.argv[1]), "app")
slot = directory.claim_slot()
task = directory.try_lock_task(TaskId(0, 1))
print(slot.number, task is not None, directory.process_uuid, flush=True)
sys.stdin.read()
"""


def start(root: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(root)]
    return subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextmanager
def worker(root: Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A process that took a slot and task 0_1, if it could, and holds them until its input ends or it is killed."""
    with start(root) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().split()
        finally:
            process.kill()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def directory(root: Path) -> StateDirectory:
    return StateDirectory.open(root, "app")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refusal(root: Path, application_id: str = "app") -> str:
    with pytest.raises(StateDirectoryError) as caught:
        StateDirectory.open(root, application_id)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_a_new_directory_says_whose_it_is(root: Path, directory: StateDirectory) -> None:
    assert directory.path == root / "app"
    assert json.loads((root / "app" / METADATA_FILE).read_text()) == {
        "format_version": 1,
        "application_id": "app",
        "process_uuid": str(directory.process_uuid),
    }


def test_the_process_id_survives_a_restart(root: Path, directory: StateDirectory) -> None:
    assert StateDirectory.open(root, "app").process_uuid == directory.process_uuid
    assert StateDirectory.open(root, "other").process_uuid != directory.process_uuid


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize(("group_write", "expected"), [(False, 0o750), (True, 0o770)])
def test_modes_are_those_of_kafka_streams_whatever_the_umask(
    root: Path, umask: int, group_write: bool, expected: int
) -> None:
    before = os.umask(umask)
    try:
        made = StateDirectory.open(root, "app", group_write=group_write)
        lock = made.try_lock_task(TASK)
        with made.claim_slot() as slot:
            assert lock is not None
            paths = [made.path, lock.path, made.global_directory(slot), made.path / "slots", made.path / "locks"]
    finally:
        os.umask(before)
    assert {mode(path) for path in paths} == {expected}
    files = [made.path / METADATA_FILE, made.path / "slots" / "0.lock", made.path / "locks" / "0_1.lock"]
    assert {mode(path) for path in files} == {expected & 0o666}


def test_the_mode_follows_the_setting_of_a_directory_that_exists(root: Path, directory: StateDirectory) -> None:
    StateDirectory.open(root, "app", group_write=True)
    assert mode(directory.path) == 0o770


# ---------------------------------------------------------------- symbolic links


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A directory with a file, which somebody else would have us change."""
    found = tmp_path / "elsewhere"
    found.mkdir(mode=0o700)
    (found / "file").write_text("precious")
    (found / "file").chmod(0o600)
    return found


def untouched(elsewhere: Path) -> bool:
    same = (elsewhere / "file").read_text() == "precious" and [path.name for path in elsewhere.iterdir()] == ["file"]
    return same and (mode(elsewhere), mode(elsewhere / "file")) == (0o700, 0o600)


@pytest.mark.parametrize("name", ["slots/0.lock", "locks/0_1.lock", "locks/directory.lock", METADATA_FILE])
@pytest.mark.parametrize("dangling", [False, True])
def test_no_file_is_reached_through_a_symbolic_link(root: Path, elsewhere: Path, name: str, dangling: bool) -> None:
    """The mode of what it leads to was changed, or a file made there."""
    link = StateDirectory.open(root, "app").path / name
    link.unlink(missing_ok=True)
    link.symlink_to(elsewhere / ("none" if dangling else "file"))

    def use() -> None:
        found = StateDirectory.open(root, "app")
        found.try_lock_task(TASK)
        found.claim_slot()

    with pytest.raises(StateDirectoryError, match=r"is a symbolic link, .*: remove it, and set state\.dir to the real"):
        use()
    assert untouched(elsewhere)


@pytest.mark.parametrize("name", ["", "slots", "locks", "0_1", "0_1/rocksdb", "global", "global/0", "global/0/rocksdb"])
def test_no_directory_is_reached_through_a_symbolic_link(root: Path, elsewhere: Path, name: str) -> None:
    link = root / "app" / name
    if name == "0_1/rocksdb":  # a directory that is not ours yet would be taken for one of Kafka Streams in Java
        StateDirectory.open(root, "app")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(elsewhere)

    def use() -> None:
        found = StateDirectory.open(root, "app")
        found.try_lock_task(TASK)
        found.global_directory(found.claim_slot())

    with pytest.raises(StateDirectoryError, match="is a symbolic link"):
        use()
    assert untouched(elsewhere)


def test_the_metadata_are_not_written_through_a_symbolic_link(root: Path, elsewhere: Path) -> None:
    """One that lies where they are prepared is taken away, as what a crash leaves there is."""
    (root / "app").mkdir(parents=True)
    (root / "app" / f"{METADATA_FILE}.tmp").symlink_to(elsewhere / "file")
    assert StateDirectory.open(root, "app").process_uuid == StateDirectory.open(root, "app").process_uuid
    assert untouched(elsewhere)
    assert not (root / "app" / METADATA_FILE).is_symlink()


def test_offsets_of_a_custom_store_are_not_reached_through_a_symbolic_link(tmp_path: Path, elsewhere: Path) -> None:
    file, place = OffsetsFile(tmp_path, "store"), TopicPartition("t", 0)
    (tmp_path / f"{CHECKPOINT}store.tmp").symlink_to(elsewhere / "file")
    file.write({place: 5})
    assert file.read() == {place: 5}
    assert mode(tmp_path / f"{CHECKPOINT}store") == 0o640
    (tmp_path / f"{CHECKPOINT}store").unlink()
    (tmp_path / f"{CHECKPOINT}store").symlink_to(elsewhere / "file")
    with pytest.raises(StateDirectoryError, match="is a symbolic link"):
        file.read()
    assert untouched(elsewhere)


def test_state_may_be_kept_behind_a_link_of_the_users_own(tmp_path: Path) -> None:
    """``state.dir`` itself is the user's to choose."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    StateDirectory.open(tmp_path / "link", "app")
    assert (tmp_path / "disk" / "app" / METADATA_FILE).exists()


# ---------------------------------------------------------------- refusals


def test_a_directory_of_another_application_is_refused(root: Path, directory: StateDirectory) -> None:
    directory.path.rename(root / "other")
    assert refusal(root, "other").startswith(f"{root / 'other'} belongs to the application 'app', not to 'other': set")


def test_a_newer_format_is_refused(root: Path, directory: StateDirectory) -> None:
    (directory.path / METADATA_FILE).write_text('{"format_version": 2, "application_id": "app", "process_uuid": "new"}')
    assert "was written by a newer version of this library (format 2, this version supports 1): upgrade" in refusal(
        root
    )


@pytest.mark.parametrize(
    "text",
    ['{"format_version": 2', '{"format_version":2,"more":{}}', 'x"format_version" : 10}', '{"format_version": 2}'],
)
def test_a_newer_format_is_refused_whatever_else_it_has(root: Path, directory: StateDirectory, text: str) -> None:
    (directory.path / METADATA_FILE).write_text(text)
    assert "was written by a newer version of this library" in refusal(root)
    assert (directory.path / METADATA_FILE).read_text() == text


@pytest.mark.parametrize(
    "java", ["kafka-streams-process-metadata", "0_0/rocksdb/store/CURRENT", "1_12/.checkpoint", "0_3/.lock"]
)
def test_state_of_java_is_refused_and_left_as_it_is(root: Path, java: str) -> None:
    (root / "app" / java).parent.mkdir(parents=True)
    (root / "app" / java).touch()
    before = sorted(root.rglob("*"))
    assert "holds state of Kafka Streams in Java, and this library does not read its files: set state.dir" in refusal(
        root
    )
    assert sorted(root.rglob("*")) == before


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    assert refusal(tmp_path / "state").startswith(f"{tmp_path / 'state'} is not a directory: move it elsewhere")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "app").touch()
    assert "is not a directory" in refusal(tmp_path / "root")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (errno.EROFS, "/s is on a read-only file system: set state.dir to a directory on another"),
        (errno.EACCES, "this user may not write /s: change its owner or mode, or set state.dir to another directory"),
        (errno.ENOTEMPTY, "/s cannot be used for state: Directory not empty; set state.dir to another"),
    ],
)
def test_each_trouble_with_the_disk_says_what_to_do(code: int, expected: str) -> None:
    error = OSError(code, os.strerror(code))
    assert directory_error(error, Path("/s")).message == expected
    with pytest.raises(StateDirectoryError) as caught, explained(Path("/s")):
        raise error
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_with_what_is_left_and_may_pass(code: int) -> None:
    error = directory_error(OSError(code, os.strerror(code)), Path("/s"))
    assert re.fullmatch(
        r"no space is left for /s \([\d,]+ bytes remain\): free some, or set state.dir to another disk",
        error.message,
    )
    assert isinstance(error, DiskFullError)
    assert isinstance(error, RetryableError)


def test_a_directory_has_room_if_a_file_of_some_size_can_be_written(tmp_path: Path) -> None:
    assert has_room(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert has_room(tmp_path / "missing")  # which is no lack of room


@pytest.mark.parametrize(
    ("mount", "expected"),
    [
        ("size=4k,nr_inodes=2", "no space is left for "),
        ("ro", " is on a read-only file system: "),
    ],
)
def test_a_full_or_read_only_disk_is_refused(tmp_path: Path, mount: str, expected: str) -> None:
    """On a file system of its own, in a mount namespace; not every machine allows that."""
    probe = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*probe, "true"], capture_output=True).returncode != 0:
        pytest.skip("needs user and mount namespaces")
    code = (
        "import sys; from pathlib import Path; from state.directory.state_directory import StateDirectory\n"
        "StateDirectory.open(Path(sys.argv[1]), 'app')"
    )
    script = f'mount -t tmpfs -o {mount} none "$1" && exec "$2" -c "$3" "$1"'
    found = subprocess.run(
        [*probe, "sh", "-c", script, "sh", str(tmp_path), sys.executable, code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    last = found.stderr.strip().splitlines()[-1]
    kind = "DiskFullError" if "size" in mount else "StateDirectoryError"
    assert last.startswith(f"processor_api.errors.{kind}: ")
    assert expected in last
    assert str(tmp_path) in last


# ---------------------------------------------------------------- slots


def test_each_process_takes_the_lowest_free_slot(directory: StateDirectory) -> None:
    with ExitStack() as held:
        first, second, third = (held.enter_context(directory.claim_slot()) for _ in range(3))
        assert [slot.number for slot in (first, second, third)] == [0, 1, 2]
        second.release()
        second.release()
        with directory.claim_slot() as again:
            assert again.number == 1


def test_an_identity_is_the_directory_and_the_slot(directory: StateDirectory) -> None:
    with directory.claim_slot() as slot:
        identity = directory.identity(slot)
    assert identity == ProcessIdentity(directory.process_uuid, 0)
    assert str(identity) == f"{directory.process_uuid}-0"
    uuid.UUID(str(identity).removesuffix("-0"))


def test_a_killed_process_gives_back_its_slot_and_its_task(root: Path, directory: StateDirectory) -> None:
    with worker(root) as (process, said):
        assert said == ["0", "True", str(directory.process_uuid)]
        with directory.claim_slot() as slot:
            assert slot.number == 1
        assert directory.try_lock_task(TASK) is None
        process.send_signal(signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL
        with directory.claim_slot() as slot:
            assert slot.number == 0
        task = directory.try_lock_task(TASK)
        assert task is not None
        task.release()


@pytest.mark.parametrize("how", [None, "empty", "a directory"])
def test_processes_that_start_at_once_agree_on_the_id_and_share_nothing_else(root: Path, how: str | None) -> None:
    if how is not None:
        DAMAGED[how](StateDirectory.open(root, "app").path / METADATA_FILE)
    with ExitStack() as stack:
        started = [stack.enter_context(start(root)) for _ in range(4)]
        said = [process.stdout.readline().split() for process in started if process.stdout is not None]
        assert sorted(slot for slot, _, _ in said) == ["0", "1", "2", "3"]
        assert sorted(task for _, task, _ in said) == ["False", "False", "False", "True"]
        assert len({process_uuid for _, _, process_uuid in said}) == 1
        for process in started:
            process.kill()


# ---------------------------------------------------------------- tasks


def test_a_task_is_open_once(directory: StateDirectory) -> None:
    first = directory.try_lock_task(TASK)
    assert first is not None
    assert first.path == directory.path / "0_1"
    assert first.path.is_dir()
    assert directory.try_lock_task(TASK) is None
    assert directory.try_lock_task(TaskId(0, 2)) is not None
    first.release()
    assert directory.try_lock_task(TASK) is not None


def test_tasks_are_the_directories_that_are_named_like_one(directory: StateDirectory) -> None:
    for name in ("10_0", "2_11", "2_3", "global", "x_1", "01_2", "removing-2_9"):
        (directory.path / name).mkdir()
    (directory.path / "5_5").touch()
    assert [str(task) for task in directory.tasks()] == ["2_3", "2_11", "10_0"]


def test_removing_a_task_keeps_its_lock(directory: StateDirectory) -> None:
    lock = directory.try_lock_task(TASK)
    assert lock is not None
    (lock.path / "rocksdb").mkdir()
    directory.remove_task(lock)
    directory.remove_task(lock)
    assert directory.tasks() == []
    assert directory.try_lock_task(TASK) is None
    directory.make_task_directory(lock)
    assert list(lock.path.iterdir()) == []


def test_what_a_crash_left_of_a_removal_is_removed_at_the_next_start(root: Path, directory: StateDirectory) -> None:
    leftover = directory.path / "removing-app-0_1-abc"
    (leftover / "rocksdb").mkdir(parents=True)
    StateDirectory.open(root, "app")
    assert not leftover.exists()


def old(directory: StateDirectory, task: TaskId, age_ms: int, now_ms: int, file: str = "") -> None:
    """A task whose directory was made long ago, and one file in it written ``age_ms`` ago."""
    path = directory.task_directory(task)
    (path / "store").mkdir(parents=True)
    (path / "store" / "data").touch()
    for each in (path / "store" / "data", path / "store", path):
        os.utime(each, ns=(0, 0))
    os.utime(path / "store" / "data", ns=((now_ms - age_ms) * 1_000_000,) * 2)


def test_only_tasks_that_nobody_wrote_for_the_delay_are_obsolete(directory: StateDirectory) -> None:
    now = 100 * DAY_MS
    old(directory, TaskId(0, 0), DAY_MS + 1, now)
    old(directory, TaskId(0, 1), DAY_MS, now)
    assert directory.remove_obsolete(DAY_MS, now) == [TaskId(0, 0)]
    assert directory.tasks() == [TaskId(0, 1)]


def test_a_task_that_is_open_is_never_obsolete(root: Path, directory: StateDirectory) -> None:
    now = 100 * DAY_MS
    with worker(root) as (process, _):
        shutil.rmtree(directory.task_directory(TASK))
        old(directory, TASK, 99 * DAY_MS, now)
        assert directory.remove_obsolete(DAY_MS, now) == []
        process.kill()
        process.wait(30)
        assert directory.remove_obsolete(DAY_MS, now) == [TASK]


# ---------------------------------------------------------------- clean up


def test_clean_up_deletes_state_and_keeps_metadata_and_locks(root: Path, directory: StateDirectory) -> None:
    for task in (TaskId(0, 0), TaskId(1, 3)):
        lock = directory.try_lock_task(task)
        assert lock is not None
        (lock.path / "rocksdb").mkdir()
        lock.release()
    with directory.claim_slot() as slot:
        (directory.global_directory(slot) / "store").mkdir()
        directory.clean_up(slot)
        assert sorted(str(path.relative_to(directory.path)) for path in directory.path.rglob("*")) == [
            "global",
            "locks",
            "locks/0_0.lock",
            "locks/1_3.lock",
            "locks/directory.lock",
            "slots",
            "slots/0.lock",
            METADATA_FILE,
        ]
    assert StateDirectory.open(root, "app").process_uuid == directory.process_uuid
    directory.clean_up()


def test_clean_up_deletes_nothing_while_a_task_is_open(root: Path, directory: StateDirectory) -> None:
    for task in (TaskId(0, 0), TaskId(0, 2)):
        (directory.path / str(task)).mkdir()
    with worker(root):
        with pytest.raises(
            StateDirectoryError,
            match=r"task 0_1 in .*app is open, by process .*: stop every process",
        ) as caught:
            directory.clean_up()
        assert caught.value.task == "0_1"
        assert directory.tasks() == [TaskId(0, 0), TASK, TaskId(0, 2)]
    directory.clean_up()
    assert directory.tasks() == []


def test_clean_up_leaves_the_global_stores_of_a_living_process(directory: StateDirectory) -> None:
    with directory.claim_slot() as other, directory.claim_slot() as own:
        directory.global_directory(other)
        with pytest.raises(StateDirectoryError, match=r"slot 0 of .*app is in use, by another thread .*: stop"):
            directory.clean_up(own)
        assert directory.global_directory(other).exists()


@pytest.mark.parametrize("left", ["0_0/rocksdb/CURRENT", "1_12/rocksdb/000004.log", "0_3/rocksdb/000007.sst"])
def test_lost_metadata_are_written_anew(root: Path, left: str, caplog: pytest.LogCaptureFixture) -> None:
    """The directory was said to be of Java."""
    StateDirectory.open(root, "app")
    assert caplog.records == []
    (root / "app" / METADATA_FILE).unlink()
    (root / "app" / left).parent.mkdir(parents=True)
    (root / "app" / left).touch()
    first = StateDirectory.open(root, "app").process_uuid
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "metadata of the state directory are lost" in caplog.text
    assert StateDirectory.open(root, "app").process_uuid == first


DAMAGED: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "zeros": lambda path: path.write_bytes(bytes(100)),
    "garbage": lambda path: path.write_bytes(b"\xff{\x00"),
    "null": lambda path: path.write_bytes(b"null"),
    "a list": lambda path: path.write_bytes(b"[]"),
    "nested": lambda path: path.write_bytes(b"[" * 100_000),
    "no fields": lambda path: path.write_bytes(b"{}"),
    "a version alone": lambda path: path.write_bytes(b'{"format_version": 1}'),
    "no number": lambda path: path.write_text(path.read_text().replace('": 1', '": "x"')),
    "no application": lambda path: path.write_text(path.read_text().replace('"app"', "null")),
    "no id": lambda path: path.write_text(path.read_text().replace('"process_uuid": "', '"process_uuid": "?')),
    "a directory": lambda path: (path.unlink(), path.mkdir(), (path / "content").touch()),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_metadata_that_cannot_be_read_are_set_aside_once(
    root: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each start failed, until somebody deleted state by hand."""
    path = StateDirectory.open(root, "app").path / METADATA_FILE
    (root / "app" / "0_0" / "rocksdb").mkdir(parents=True)
    (root / "app" / "0_0" / "rocksdb" / "CURRENT").touch()
    DAMAGED[how](path)
    before = path.read_bytes() if path.is_file() else None
    first = StateDirectory.open(root, "app").process_uuid
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert "set aside" in caplog.text
    assert StateDirectory.open(root, "app").process_uuid == first
    assert len(caplog.records) == 1
    (aside,) = [one for one in path.parent.iterdir() if one.name.startswith(METADATA_FILE) and one != path]
    assert before is None or aside.read_bytes() == before
    assert (root / "app" / "0_0" / "rocksdb" / "CURRENT").exists()
    DAMAGED[how](path)
    assert StateDirectory.open(root, "app").process_uuid != first


@pytest.mark.parametrize("name", [METADATA_FILE + ".tmp", METADATA_FILE + ".damaged"])
def test_a_directory_in_the_place_of_a_file_that_is_written_is_set_aside(root: Path, name: str) -> None:
    path = StateDirectory.open(root, "app").path
    (path / METADATA_FILE).write_text("{")
    (path / name).mkdir()
    (path / name / "content").touch()
    StateDirectory.open(root, "app")
    assert [one.parent.name.startswith(f"{name}.aside-") for one in path.glob("*/content")] == [True]


@pytest.mark.parametrize("name", ["locks/directory.lock", f"locks/{TASK}.lock", f"locks/{TASK}.wanted", "slots/0.lock"])
@pytest.mark.parametrize("content", [None, b"", b"x" * 5000])
def test_damaged_locks_are_locks(
    root: Path, name: str, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A directory was in the place of one; what else is in the file is a note for people."""
    path = StateDirectory.open(root, "app").path / name
    path.unlink(missing_ok=True)
    if content is None:
        path.mkdir()
        (path / "content").touch()
    else:
        path.write_bytes(content)
    directory = StateDirectory.open(root, "app")
    with directory.claim_slot() as slot:
        assert slot.number == 0
        mark = directory.wanted_mark(TASK)
        with directory.try_lock_task(TASK) or pytest.fail("it is not to be had"):
            assert StateDirectory.open(root, "app").try_lock_task(TASK) is None
            directory.want_task(TASK)
        assert directory.wanted_mark(TASK) != mark
    assert len(caplog.records) == (content is None)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
def test_metadata_without_the_right_to_read_them_are_set_aside(root: Path) -> None:
    path = StateDirectory.open(root, "app").path / METADATA_FILE
    path.chmod(0)
    StateDirectory.open(root, "app")
    assert path.read_text()


def test_a_new_directory_is_discarded_after_a_start_that_failed(root: Path) -> None:
    """It was left behind by a start without a broker."""
    directory = StateDirectory.open(root, "app")
    directory.claim_slot().release()
    directory.discard_new()
    assert list(root.iterdir()) == []
    assert StateDirectory.open(root, "app").process_uuid != directory.process_uuid


def test_a_directory_that_was_there_or_is_in_use_is_not_discarded(root: Path) -> None:
    first = StateDirectory.open(root, "app")
    second = StateDirectory.open(root, "app")
    second.discard_new()
    assert first.path.exists()
    with second.claim_slot():
        first.discard_new()
        assert first.path.exists()
    first.global_directory(first.claim_slot())
    first.discard_new()
    assert first.path.exists()


def test_a_directory_that_is_discarded_meanwhile_is_made_again(root: Path) -> None:
    """A process that waits for the lock of a directory gets it when the directory is gone."""
    first = StateDirectory.open(root, "app")

    class DiscardsFirst(FileLock):
        @classmethod
        def acquire(cls, path: Path, mode: int = 0o640) -> FileLock:
            if first.path.exists() and first.is_new:
                first.discard_new()
                first.is_new = False
                (root / "app" / "locks").mkdir(parents=True)  # as its file was open already
            return super().acquire(path, mode)

    second = StateDirectory.open(root, "app", locks=DiscardsFirst)
    assert second.process_uuid != first.process_uuid
    assert StateDirectory.open(root, "app").process_uuid == second.process_uuid
