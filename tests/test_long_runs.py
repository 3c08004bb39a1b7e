"""Long runs: crashes in mid-write, full disks, learning that diverges, logs."""

import contextlib
import errno
import functools
import json
import logging
import os
import pathlib
import shutil
import struct
import subprocess
import sys
from typing import Any
from unittest import mock

import chex
import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tensorboardX.proto import event_pb2
from test_scripts import SMALL, script, status_and_error
from test_train import comparable, counted_rows
from tiny import TINY, tiny

import gomoku_jax as gj
from gomoku_jax import learn
from gomoku_jax.agent import read_card, save_agent
from gomoku_jax.checkpoint import checkpoint_steps, load_checkpoint
from gomoku_jax.config import GameConfig, LearnConfig, NetworkConfig, SearchConfig
from gomoku_jax.divergence import DivergedError
from gomoku_jax.event_file import EventFile
from gomoku_jax.files import check_writable, write_atomically
from gomoku_jax.metrics import ConsoleDisplay, MetricsWriter, read_metrics
from gomoku_jax.network import NetworkOutput, init_network
from gomoku_jax.run_log import run_log
from gomoku_jax.saving import SaveError, Saver
from gomoku_jax.train import run_iteration, train

train_module = sys.modules["gomoku_jax.train"]  # the package's `train` is the function
FULL = OSError(errno.ENOSPC, "No space left on device")


# A crash at every place where a file is touched.


class Killed(BaseException):
    """The process is gone: nothing it would still do is done."""


@contextlib.contextmanager
def killed_at(count: int):
    """Ends everything at the `count`-th touch of a file, in the middle of a write; yields whether it came."""
    with pytest.MonkeyPatch.context() as patch:
        touches = 0

        def killing(name):
            real = getattr(os, name)

            def touch(*args, **kwargs):
                nonlocal touches
                touches += 1
                if touches == count and name == "write":
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])
                if touches >= count:
                    raise Killed
                return real(*args, **kwargs)

            return touch

        for name in ("open", "write", "fsync", "replace", "unlink", "ftruncate"):
            patch.setattr(os, name, killing(name))
        came = []
        try:
            yield came
        except Killed:
            came.append(True)


def crashes(work, restore, check):
    """Runs `work` with a crash at the first touch, then the second ... until none comes; their number."""
    for count in range(1, 100):
        restore()
        with killed_at(count) as came:
            work()
        check(bool(came))
        if not came:
            return count - 1
    raise AssertionError("it never comes to an end")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path, old, new = tmp_path / "config.json", "old\n", "new and longer\n" * 100
    seen = []

    def check(was_killed):
        seen.append(path.read_text())
        assert seen[-1] in (old, new) and (was_killed or seen[-1] == new)

    assert crashes(lambda: write_atomically(path, new), lambda: path.write_text(old), check) >= 4
    assert seen[0] == old and seen == sorted(seen, reverse=True)  # once the new one is there, it stays
    assert [p.name for p in tmp_path.iterdir()] == ["config.json"]


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "config.json"
    path.write_text("old")
    monkeypatch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(FULL))
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["config.json"]


def test_an_agent_is_the_old_one_or_the_new_one(tmp_path):
    """Its parameters are those of its card, whenever the writing is cut short."""
    game, network = GameConfig(3, 3, 3), NetworkConfig(channels=4, num_blocks=1, value_hidden=4)
    params = {i: init_network(network, gj.Gomoku(3, 3, 3), jax.random.key(i)) for i in (1, 2, 3)}
    folder = tmp_path / "latest"

    def save(i):
        save_agent(folder, game, network, SearchConfig(), params[i], {"iteration": i})

    def restore():
        shutil.rmtree(folder, ignore_errors=True)
        save(1)

    seen = []

    def check(was_killed):
        agent = gj.load_agent(folder)
        seen.append(agent.info["iteration"])
        chex.assert_trees_all_equal(agent.params, params[seen[-1]])
        assert was_killed or seen[-1] == 2
        save(3)  # what was left behind is in nobody's way
        assert read_card(folder)["info"] == {"iteration": 3}
        assert sorted(path.name for path in folder.iterdir()) == ["agent.json", "params.msgpack"]
        assert (folder / "params.msgpack").read_bytes() == flax.serialization.to_bytes(
            jax.device_get(params[3])
        )

    assert crashes(lambda: save(2), restore, check) >= 9
    assert seen[0] == 1 and seen == sorted(seen)


ROWS = [{"iteration": i, "loss": 1 / i, "name": "x" * 50} for i in range(1, 8)]


def write_rows(path: pathlib.Path, rows, end: bytes = b"") -> None:
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows) + end)


def test_metrics_survive_a_crash_while_they_are_resumed_and_written(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    monkeypatch.setattr("gomoku_jax.metrics.EventFile", mock.MagicMock())  # whose file nobody would close

    def work():
        writer = MetricsWriter(tmp_path, resume_at=4)
        for row in ROWS[4:6]:
            writer.write(row["iteration"], {name: row[name] for name in ("loss", "name")})
        writer.close()

    def check(was_killed):
        rows = read_metrics(tmp_path)
        assert rows in (ROWS[:5], ROWS[:4], ROWS[:6])
        assert was_killed or rows == ROWS[:6]
        MetricsWriter(tmp_path, resume_at=4).close()
        assert read_metrics(tmp_path) == ROWS[:4]

    def restore():
        write_rows(path, ROWS[:5], b'{"iteration": 6, "lo')

    assert crashes(work, restore, check) >= 6


def test_lines_cut_short_are_left_out_wherever_they_stand(tmp_path):
    whole = [json.dumps(row).encode() for row in ROWS]
    lines = [
        whole[0],
        whole[1][:20],
        whole[2],
        b'{"name": "\xff\xfe"',
        b"\xff",
        b"",
        b"17",
        b"\0" * 9,
        whole[3],
    ]
    (tmp_path / "metrics.jsonl").write_bytes(b"\n".join(lines))  # and no newline at the end
    assert read_metrics(tmp_path) == [ROWS[0], ROWS[2], ROWS[3]]
    writer = MetricsWriter(tmp_path, resume_at=5)
    writer.write(5, {"loss": 1 / 5, "name": "x" * 50})
    writer.close()
    assert read_metrics(tmp_path) == [ROWS[0], ROWS[2], ROWS[3], ROWS[4]]
    assert len((tmp_path / "metrics.jsonl").read_bytes().splitlines()) == 4


@pytest.mark.parametrize("can_truncate", [True, False])
def test_rows_wait_for_room_on_the_disk(tmp_path, monkeypatch, can_truncate):
    writer = MetricsWriter(tmp_path)
    values = [{name: row[name] for name in ("loss", "name")} for row in ROWS]
    writer.write(1, values[0])
    real = os.write

    def half(file, data):
        if len(data) < 10:
            raise FULL
        return real(file, bytes(data)[: len(data) // 2])

    with monkeypatch.context() as full:
        full.setattr(os, "write", half)
        if not can_truncate:
            full.setattr(os, "ftruncate", lambda *_: (_ for _ in ()).throw(FULL))
        for i in (2, 3):
            with pytest.raises(OSError, match="No space left"):
                writer.write(i, values[i - 1])
        assert read_metrics(tmp_path) == ROWS[:1]
    writer.write(4, values[3])
    writer.close()
    assert read_metrics(tmp_path) == ROWS[:4]


def read_events(folder: pathlib.Path) -> list[tuple[int, str, float]]:
    """(step, name, value) of all whole records of a folder's event files, by the format's definition."""
    found = []
    for path in sorted(folder.iterdir(), key=lambda path: path.name.split(".")[-1]):
        data = path.read_bytes()
        while len(data) >= 12 and len(data) >= 16 + struct.unpack("<Q", data[:8])[0]:
            (size,) = struct.unpack("<Q", data[:8])
            event = event_pb2.Event.FromString(data[12 : 12 + size])  # type: ignore[attr-defined]
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
            data = data[16 + size :]
    return found


def test_tensorboard_waits_for_room_without_hanging(tmp_path, monkeypatch):
    events = EventFile(tmp_path, purge_step=1, every_seconds=0.0)
    events.add(1, {"a": 1.0, "b": 2.0})
    events.flush()
    assert read_events(tmp_path) == [(1, "a", 1.0), (1, "b", 2.0)]
    with monkeypatch.context() as full:
        full.setattr("tensorboardX.record_writer.RecordWriter.flush", lambda _: (_ for _ in ()).throw(FULL))
        for i in range(2, 40):  # more than any queue would hold
            events.add(i, {"a": float(i)})
            with pytest.raises(OSError, match="No space left"):
                events.flush()
        assert len(list(tmp_path.iterdir())) == 1  # attempts leave no files
    events.add(40, {"a": 40.0})
    events.close()
    assert set(read_events(tmp_path)) == {(1, "b", 2.0)} | {(i, "a", float(i)) for i in range(1, 41)}
    assert len(list(tmp_path.iterdir())) == 2
    EventFile(tmp_path / "nothing").close()
    assert not (tmp_path / "nothing").exists()


# The log.


def test_a_run_has_its_own_log(tmp_path, capsys):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with run_log(tmp_path / name) as log, ConsoleDisplay(3, every_seconds=1e9, log=log) as display:
            display.message(f"message of the {name}")
            display.update(1, "one")
            display.update(2, f"progress of the {name}")
    with pytest.raises(ZeroDivisionError), run_log(tmp_path / "first") as log:
        log.info("again")
        raise ZeroDivisionError("what ended it")
    first, second = ((tmp_path / name / "train.log").read_text() for name in ("first", "second"))
    assert "second" not in first and "first" not in second
    lines = second.splitlines()
    assert [line.split(" INFO ")[1] for line in lines] == [
        "message of the second",
        "iteration 1/3  one",
        "iteration 2/3  progress of the second",
    ]
    assert all(line[:4].isdigit() and line[10] == " " for line in lines)  # the time
    assert "ERROR ZeroDivisionError: what ended it" in first and "Traceback" in first and "again" in first
    # The console shows what it showed before, and nothing more.
    text = capsys.readouterr()
    assert text.err == "" and "progress of the" not in text.out and text.out.count("message of the") == 2
    assert not logging.getLogger("gomoku_jax.run").handlers


def test_the_log_rotates(tmp_path):
    with run_log(tmp_path, max_bytes=2_000, old_files=2) as log:
        for i in range(200):
            log.info("line %d %s", i, "x" * 40)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["train.log", "train.log.1", "train.log.2"]
    assert all(path.stat().st_size <= 2_000 for path in tmp_path.iterdir())
    text = "".join((tmp_path / name).read_text() for name in reversed(files))
    numbers = [int(line.split("line ")[1].split()[0]) for line in text.splitlines()]
    assert numbers == list(range(numbers[0], 200)) and len(numbers) > 30


def test_a_log_that_cannot_be_written_is_no_obstacle(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("")
    with run_log(tmp_path / "file") as log:
        log.info("into nothing")
    with run_log(None) as log:
        log.info("into nothing")
    if pathlib.Path("/dev/full").exists():
        (tmp_path / "train.log").symlink_to("/dev/full")
        with run_log(tmp_path) as log:
            for _ in range(3):
                log.info("onto a full disk")
    assert capsys.readouterr() == ("", "")


# Full disks, and folders that cannot be written.


@pytest.fixture
def small_disk(tmp_path):
    """A file system of four megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True)
    if made.returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: pathlib.Path, leave: int = 0) -> pathlib.Path:
    """Takes all room but some bytes."""
    path = disk / "filling"
    path.unlink(missing_ok=True)
    room = shutil.disk_usage(disk).free - leave
    with path.open("wb") as file, contextlib.suppress(OSError):
        file.write(bytes(max(room, 0)))
    return path


def test_a_folder_is_tried_and_left_as_it_was(tmp_path):
    check_writable(tmp_path)
    check_writable(tmp_path / "a" / "b" / "c")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=rf"{tmp_path}/file/run cannot be written in .*: a file is in the way"):
        check_writable(tmp_path / "file" / "run")
    if pathlib.Path("/proc/self").exists():
        with pytest.raises(OSError, match="/proc/run cannot be written in /proc: "):
            check_writable("/proc/run")


def test_a_full_disk_is_found_before_the_run_starts(small_disk):
    fill(small_disk)
    with pytest.raises(OSError, match=r"run cannot be written in .*disk: No space left on device"):
        check_writable(small_disk / "run")


@pytest.mark.parametrize("resume", [False, True])
def test_an_unwritable_folder_is_refused_before_anything_is_compiled(tmp_path, monkeypatch, resume):
    def compile_nothing(*_, **__):
        raise AssertionError("it went on")

    monkeypatch.setattr(train_module, "make_programs", compile_nothing)
    monkeypatch.setattr(train_module, "init_training_state", compile_nothing)
    folder = tmp_path / "run"
    if resume:
        (folder / "checkpoints").mkdir(parents=True)

    def refuse(folder):
        raise OSError(f"{folder} cannot be written: Read-only file system")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="run cannot be written"):
        patch.setattr(train_module, "check_writable", refuse)
        train(TINY, folder, resume=resume, quiet=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="a file is in the way"):
        train(TINY, tmp_path / "file" / "run", quiet=True)


def step_of(iteration: int):
    """Enough of a training state for `Saver`."""
    return mock.Mock(progress=mock.Mock(iteration=np.asarray(iteration)))


def test_a_save_that_fails_is_told_once_and_tried_again(tmp_path):
    said, saved, broken = [], [], True

    def save(state):
        (tmp_path / "checkpoints" / f"{int(state.progress.iteration)}.orbax-checkpoint-tmp").mkdir(
            parents=True
        )
        if broken:
            raise ValueError("RESOURCE_EXHAUSTED: Error opening ... [os_error_code='28']")
        saved.append(int(state.progress.iteration))

    def write(text):
        if broken:
            raise FULL
        saved.append(text)

    saver = Saver(tmp_path, save, said.append, saved_at=2)
    assert saver.saved_at == 2 and not saver.is_behind
    assert not saver.checkpoint(step_of(3)) and saver.is_behind and saver.saved_at == 2
    assert list((tmp_path / "checkpoints").iterdir()) == []  # what is not whole takes no room
    for text in ("older", "newer"):
        saver.keep("agents/latest", lambda text=text: write(text))
    saver.keep("agents/best", lambda: write("best"))
    saver.keep("games/a.sgf", lambda: saved.append("game"))
    saver.retry()
    assert not saver.checkpoint(step_of(4))
    tail = "The run goes on and tries again after every iteration"
    assert said == [
        f"warning: the checkpoint could not be written into {tmp_path}: No space left on device. {tail}",
        f"warning: agents could not be written into {tmp_path}: No space left on device. {tail}",
    ]
    (tmp_path / "checkpoints" / "2").mkdir()
    with pytest.raises(SaveError) as error:
        saver.finish(step_of(4))
    for words in (
        "iteration 4",
        "the checkpoint: No space",
        "agents, 2 files: No space",
        "checkpoints/2",
        "--resume",
    ):
        assert words in str(error.value)
    broken = False
    saver.retry()
    assert saver.checkpoint(step_of(5)) and saver.saved_at == 5 and not saver.is_behind
    saver.finish(step_of(5))
    assert saved == ["game", "newer", "best", 5]
    assert said[2:] == ["agents could be written now", "the checkpoint could be written now"]


def test_mistakes_in_the_program_are_not_taken_for_full_disks(tmp_path):
    saver = Saver(tmp_path, lambda _: {}["none"], print)
    with pytest.raises(KeyError):
        saver.checkpoint(step_of(1))
    with pytest.raises(KeyError):
        saver.keep("agents/latest", lambda: {}["none"])


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """A run of four iterations in which nothing went wrong."""
    workdir = tmp_path_factory.mktemp("whole") / "run"
    return workdir, train(TINY, workdir, quiet=True)


@contextlib.contextmanager
def before_iterations(act):
    """Calls `act(iteration about to be done, state, programs) -> state` before every iteration of `train`."""

    def run(config, programs, state):
        return run_iteration(config, programs, act(int(state.progress.iteration) + 1, state, programs))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_module, "run_iteration", run)
        yield


def test_a_run_outlives_a_full_disk(small_disk, whole_run, capfd):
    """Full before the second iteration, with room again before the fourth."""
    workdir = small_disk / "run"

    def act(iteration, state, programs):
        del programs
        if iteration == 2:
            fill(small_disk)
        if iteration == 4:
            assert checkpoint_steps(workdir) == [1]
            assert [path.name for path in (workdir / "checkpoints").iterdir()] == ["1"]
            rows = [row["iteration"] for row in read_metrics(workdir)]
            assert rows in ([1], [1, 2], [1, 2, 3])  # the file's last block had room
            assert gj.load_agent(workdir / "agents" / "latest").info["iteration"] == 1
            (small_disk / "filling").unlink()
        return state

    with before_iterations(act):
        result = train(TINY, workdir)
    text = capfd.readouterr()
    assert text.err == ""
    for name in ("the checkpoint", "agents", "games"):
        assert text.out.count(f"warning: {name} could not be written into {workdir}: ") == 1
        assert text.out.count(f"{name} could be written now") == 1
    assert "MB are free" in text.out
    whole, undisturbed = whole_run
    chex.assert_trees_all_equal(comparable(result.state), comparable(undisturbed.state))
    chex.assert_trees_all_equal(comparable(load_checkpoint(workdir)), comparable(undisturbed.state))
    assert counted_rows(workdir) == counted_rows(whole)
    chex.assert_trees_all_equal(gj.load_agent(workdir).params, gj.load_agent(whole).params)
    assert sorted(path.name for path in (workdir / "games").iterdir()) == sorted(
        path.name for path in (whole / "games").iterdir()
    )


@pytest.mark.slow
@pytest.mark.parametrize("leave", [0, 30_000])
def test_a_disk_that_stays_full_is_an_error_that_names_the_last_checkpoint(
    small_disk, whole_run, leave, capfd
):
    """With some room left orbax itself finds out, in its threads, where the last one's size misleads."""
    workdir = small_disk / "run"

    def act(iteration, state, programs):
        del programs
        if iteration == 3:
            fill(small_disk, leave)
        return state

    with before_iterations(act), pytest.MonkeyPatch.context() as patch:
        if leave > 0:
            patch.setattr(Saver, "_check_space", lambda _: None)
        with pytest.raises(SaveError) as error:
            train(TINY, workdir, quiet=True)
    assert capfd.readouterr() == ("", "")
    assert "iteration 4 is done" in str(error.value)
    assert ("MB are free" if leave == 0 else "the checkpoint: No space left") in str(error.value)
    assert f"iteration 2, {workdir}/checkpoints/2; --resume" in str(error.value)
    assert checkpoint_steps(workdir)[0] == 2
    (small_disk / "filling").unlink()
    result = train(TINY, workdir, resume=True, quiet=True)
    chex.assert_trees_all_equal(comparable(result.state), comparable(whole_run[1].state))
    assert counted_rows(workdir) == counted_rows(whole_run[0])


# Learning that diverges.


def table_apply(params, observation):
    """A network that answers by a table."""
    del observation
    return NetworkOutput(params["logits"], params["value"])


TABLE = {
    "logits": jnp.linspace(-1, 1, 6, dtype=jnp.float32).reshape(2, 3),
    "value": jnp.asarray([0.1, -0.2], jnp.float32),
}


def table_batch(**changes) -> learn.Batch:
    batch = learn.Batch(
        observation=jnp.zeros((2, 1, 1, 1)),
        legal=jnp.ones((2, 3), bool),
        policy_target=jnp.full((2, 3), 1 / 3, jnp.float32),
        policy_weight=jnp.ones(2),
        value_target=jnp.asarray([1.0, -1.0]),
    )
    return batch._replace(**changes)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("schedule", ["constant", "kl_adaptive"])
@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"value_target": jnp.asarray([NAN, 0.0])}, {"value_loss", "loss", "grad_norm", "update_norm"}),
        ({"policy_target": jnp.full((2, 3), NAN)}, {"policy_loss", "loss", "grad_norm", "update_norm"}),
        ({"value_target": jnp.asarray([INF, 0.0])}, {"value_loss", "loss", "grad_norm", "update_norm"}),
    ],
)
def test_the_first_bad_update_is_that_of_a_rerun_step_by_step(schedule, changes, parts):
    """The batch of one key in seven is bad; the rerun is a plain loop over the updates."""
    config = LearnConfig(
        schedule=schedule, updates_per_iteration=7, l2=0.0, kl_target=10.0, max_grad_norm=0.0
    )
    optimizer = learn.make_optimizer(config, 7)
    bad, good = table_batch(**changes), table_batch()
    key = jax.random.key(3)
    keys = [jax.random.split(k)[0] for k in jax.random.split(jax.random.split(key)[1], 7)]

    def draw(key):
        is_bad = (jax.random.key_data(key) == jax.random.key_data(keys[4])).all()
        return jax.tree.map(lambda x, y: jnp.where(is_bad, x, y), bad, good)

    state = learn.init_train_state(TABLE, optimizer)
    arguments = {"apply_fn": table_apply, "optimizer": optimizer, "config": config}
    _, metrics = learn.run_updates(state, draw, key, **arguments)
    step = jax.jit(functools.partial(learn.train_step, **arguments))
    first = None
    for i, draw_key in enumerate(keys):
        state, rerun = step(state, draw(draw_key), key)
        if first is None and not all(np.isfinite(value) for value in rerun.values()):
            first = i
            names = {name for name in learn.CHECKED_PARTS if not np.isfinite(rerun.get(name, 0.0))}
    bits = int(metrics["bad_parts"])
    named = {name for i, name in enumerate(learn.CHECKED_PARTS) if bits >> i & 1}
    assert first == 4 == int(metrics["first_bad_update"])
    assert parts <= names == named


@pytest.mark.parametrize(
    ("metrics", "params", "made", "first", "parts"),
    [
        ({}, [1.0, 3e38], 3, -1, set()),
        ({"l2_loss": [0.0, INF, NAN]}, [1.0, NAN], 3, 1, {"l2_loss"}),
        ({"grad_norm": [0.0, 0.0, NAN]}, [NAN, 0.0], 3, 2, {"grad_norm", "parameters"}),
        ({}, [1.0, -INF], 3, 2, {"parameters"}),  # the sum overflowed, the step did not
        ({}, [NAN, 1.0], 2, 1, {"parameters"}),  # the updates ended early
        ({"policy_loss": [NAN, 0.0, 0.0], "loss": [NAN, 0.0, 0.0]}, [0.0], 1, 0, {"policy_loss", "loss"}),
    ],
)
def test_what_is_not_finite(metrics, params, made, first, parts):
    numbers = {name: jnp.asarray(metrics.get(name, [0.0] * 3)) for name in learn.CHECKED_PARTS[:-1]}
    leaves = {"a": jnp.asarray(params[:1]), "b": jnp.asarray(params[1:])}
    found = learn.first_bad_update(numbers, leaves, jnp.float32(made))
    assert int(found["first_bad_update"]) == first
    assert int(found["bad_parts"]) == sum(1 << learn.CHECKED_PARTS.index(name) for name in parts)


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def poison(iteration, state):
    """Four positions of the buffer with a value that is no number, before the third iteration."""
    if iteration != 3:
        return state
    items = state.replay.items
    items = items.replace(value_target=items.value_target.at[jnp.arange(1, 20, 6)].set(jnp.nan))
    return state.replace(replay=state.replay.replace(items=items))


def test_a_run_that_diverges_stops_and_names_the_batch(tmp_path, whole_run):
    workdir: pathlib.Path = tmp_path / "run"
    before: dict[str, Any] = {}

    def act(iteration, state, programs):
        if iteration != 3:
            return state
        # Which update will be the first to draw one of these positions?
        copy = jax.tree.map(jnp.copy, poison(3, state))
        _, selfplay_key, update_key = jax.random.split(copy.key, 3)
        params = copy.learner.ema_params
        _, buffer, _ = programs.selfplay(params, copy.selfplay, copy.replay, selfplay_key)
        keys = jax.random.split(jax.random.split(update_key)[1], 3)
        before["batches"] = [programs.draw(buffer, jax.random.split(key)[0]) for key in keys]
        before["drawn"] = [bool(jnp.isnan(batch.value_target).any()) for batch in before["batches"]]
        before["contents"] = contents(workdir)
        return poison(3, state)

    with before_iterations(act), pytest.raises(DivergedError) as caught:
        train(TINY, workdir, quiet=True)
    error, text = caught.value, str(caught.value)
    batches, drawn = before.pop("batches"), before.pop("drawn")
    assert True in drawn
    update = drawn.index(True) + 1
    assert (error.iteration, error.update, error.num_updates, error.step) == (3, update, 3, 6 + update)
    assert error.parts == ["value_loss", "loss", "grad_norm", "update_norm"] or update == 3
    assert f"iteration 3, update {update} of 3 (update {6 + update} of the run): the value loss" in text
    assert f"checkpoint is of iteration 2, {workdir}/checkpoints/2" in text
    # The batch itself.
    path = workdir / f"diverged_iteration_000003_update_{update:02d}.npz"
    assert str(path) in text
    with np.load(path, allow_pickle=False) as saved:
        assert (saved["iteration"], saved["update"], saved["step"]) == (3, update, 6 + update)
        for name, value in batches[update - 1]._asdict().items():
            np.testing.assert_array_equal(saved[name], value)
        assert np.isnan(saved["value_target"]).any() and saved["observation"].shape == (16, 3, 4, 4)
    # Nothing else has changed but the log, and what is there goes on as if nothing had been.
    after = contents(workdir)
    assert "DivergedError: training diverged" in after.pop("train.log").decode()
    del after[path.name], before["contents"]["train.log"]
    for files in (after, before["contents"]):
        for name in [name for name in files if name.startswith("tensorboard")]:
            del files[name]
    assert after == before["contents"]
    result = train(TINY, workdir, resume=True, quiet=True)
    chex.assert_trees_all_equal(comparable(result.state), comparable(whole_run[1].state))
    assert counted_rows(workdir) == counted_rows(whole_run[0])


def test_a_run_that_diverges_on_a_full_disk_says_so(tmp_path, whole_run, monkeypatch):
    del whole_run  # which has compiled what this runs
    monkeypatch.setattr("gomoku_jax.divergence.write_atomically", mock.Mock(side_effect=FULL))

    def act(iteration, state, programs):
        del programs
        return poison(3, state) if iteration == 2 else state

    with before_iterations(act), pytest.raises(DivergedError) as caught:
        train(tiny(checkpoint_every=10), tmp_path / "run", quiet=True)
    text = str(caught.value)
    assert "could not be written to" in text and "No space left on device" in text
    assert f"no checkpoint yet in {tmp_path / 'run'}" in text
    assert not list((tmp_path / "run").glob("diverged*"))
    assert not (tmp_path / "run" / "agents" / "latest").exists()


@pytest.mark.parametrize(
    "error", [SaveError("what is lost"), DivergedError(3, 2, 8, 18, ["loss"], table_batch())]
)
def test_the_script_says_what_happened_and_returns_2(error, monkeypatch, capsys, tmp_path):
    train_script = script("train")

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(train_script, "train", fail)
    assert train_script.main([*SMALL, "--workdir", str(tmp_path / "run")]) == 2
    assert capsys.readouterr() == ("", f"error: {error}\n")


@pytest.mark.slow
def test_a_learning_rate_that_is_too_high_ends_the_script(capsys, tmp_path):
    """With a step of 1.2 on a sum of squares, updates turn the parameters round and make them larger."""
    flags = "--learn.optimizer sgd --learn.learning-rate 1.2 --learn.l2 1 --learn.momentum 0 "
    flags += "--learn.max-grad-norm 0 --learn.schedule constant --iterations 80 "
    flags += "--evaluation.every 0 --checkpoint-every 2"
    flags = [*flags.split(), "--workdir", str(tmp_path / "run")]
    code, text = status_and_error(capsys, "train", [*SMALL, *flags])
    assert (
        code == 2 and "error: training diverged: not finite in iteration" in text and "Traceback" not in text
    )
    (path,) = (tmp_path / "run").glob("diverged_iteration_*.npz")
    assert path.name in text
    steps = checkpoint_steps(tmp_path / "run")
    assert steps and f"The last good checkpoint is of iteration {steps[0]}" in text
    iteration = int(path.name.split("_")[2])
    assert steps[0] == (iteration - 1) // 2 * 2
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(gj.load_agent(tmp_path / "run").params))
    assert [row["iteration"] for row in read_metrics(tmp_path / "run")] == list(range(1, iteration))
    # From there it goes on with another learning rate.
    more = [
        "--workdir",
        str(tmp_path / "run"),
        "--resume",
        "--learn.learning-rate",
        "0.001",
        "--learn.l2",
        "0",
    ]
    code, text = status_and_error(capsys, "train", [*more, "--iterations", str(steps[0] + 1)])
    assert code == 0 and f"resumed at iteration {steps[0]}" in text


@pytest.mark.slow
def test_the_script_traces(capsys, tmp_path):
    flags = ["--iterations", "3", "--profile", "--profile-iterations", "3", "3", "--evaluation.every", "0"]
    code, text = status_and_error(capsys, "train", [*SMALL, *flags, "--workdir", str(tmp_path / "run")])
    assert code == 0 and "traced iterations 3 to 3" in text and "https://ui.perfetto.dev" in text
    table = (tmp_path / "run" / "profile" / "scopes.txt").read_text()
    assert all(
        f"\n{name} " in table
        for name in ("encode", "network", "select", "expand", "backup", "replay", "learn")
    )
    code, text = status_and_error(
        capsys, "train", [*SMALL, "--profile", "--iterations", "2", "--workdir", str(tmp_path / "b")]
    )
    assert code == 2 and "profile_iterations = 3 4" in text and "has 2 to do" in text
    assert not (tmp_path / "b").exists()
