"""Several processes are one run: the same numbers, one log, and an end for all when one is lost."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from gomoku_jax import distributed
from gomoku_jax.checkpoint import checkpoint_steps, load_checkpoint
from gomoku_jax.distributed import LOST_STATUS, RefusedError, main_first, start
from gomoku_jax.metrics import Clock, read_metrics
from gomoku_jax.sharding import all_processes, local_devices

ROOT = pathlib.Path(__file__).resolve().parent.parent
SMALL = (
    *("--preset", "tictactoe", "--network.channels", "8", "--network.num-blocks", "1"),
    *("--search.num-simulations", "4", "--selfplay.num-games", "16", "--replay.capacity", "512"),
    *("--replay.min-size", "32", "--learn.batch-size", "16", "--learn.updates-per-iteration", "4"),
    *("--evaluation.num-games", "8", "--evaluation.num-simulations", "4", "--evaluation.num-playouts", "8"),
    *("--checkpoint-every", "2", "--evaluation.every"),  # and how often
)
SECONDS = 240  # for one step of a test: most of it is compilation


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Job:
    """`train.py` in so many processes on this machine, each with one device unless said otherwise."""

    def __init__(self, workdir: pathlib.Path, *arguments: str, processes: int = 1, devices: int = 1):
        self.workdir, self._folder = workdir, workdir.parent
        address = f"127.0.0.1:{free_port()}"
        environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
        environment |= {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
        self.processes = []
        for process in range(processes):
            command = [sys.executable, str(ROOT / "experiments" / "train.py"), "--workdir", str(workdir)]
            command += ["--num-devices", str(devices), *arguments]
            if processes > 1:
                command += ["--coordinator", address, "--processes", str(processes)]
                command += ["--process", str(process), "--heartbeat-seconds", "20"]
            with self._log(process).open("w") as log:
                self.processes.append(
                    subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
                )

    def _log(self, process: int) -> pathlib.Path:
        return self._folder / f"{self.workdir.name}.{process}.log"

    def log(self, process: int = 0) -> str:
        return self._log(process).read_text()

    def wait_for_checkpoint(self, iteration: int) -> None:
        deadline = time.monotonic() + SECONDS
        while not any(step >= iteration for step in checkpoint_steps(self.workdir)):
            assert time.monotonic() < deadline, self.log()
            assert all(process.poll() is None for process in self.processes), self.log()
            time.sleep(0.05)

    def statuses(self) -> list[int]:
        try:
            return [process.wait(SECONDS) for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()

    def finish(self) -> "Job":
        assert self.statuses() == [0] * len(self.processes), self.log()
        return self


def counted(workdir: pathlib.Path) -> list[dict]:
    rows = read_metrics(workdir)
    return [
        {k: v for k, v in row.items() if k.startswith(("selfplay/games", "evaluation/wins"))} for row in rows
    ]


@pytest.mark.slow
def test_two_processes_equal_one_with_two_devices(tmp_path):
    one = Job(tmp_path / "one", *SMALL, "2", "--iterations", "4", devices=2).finish()
    two = Job(tmp_path / "two", *SMALL, "2", "--iterations", "4", processes=2).finish()
    assert counted(one.workdir) == counted(two.workdir)
    assert len(read_metrics(two.workdir)) == 4
    ours, theirs = load_checkpoint(one.workdir), load_checkpoint(two.workdir)
    for name in ("replay", "selfplay"):
        for a, b in zip(*(leaves(getattr(state, name)) for state in (ours, theirs)), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)
    for a, b in zip(leaves(ours.learner.params), leaves(theirs.learner.params), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert "2 processes, 2 devices: 8 games and 8 of a batch on each; effective batch 16" in two.log()
    # Only the first process writes.
    assert "iteration" not in two.log(1) and "Trained" not in two.log(1)
    assert "iteration 4/4" in two.log(0) and "Trained after 4 iterations" in two.log(0)


def leaves(tree) -> list[np.ndarray]:
    return [np.asarray(x, float) for x in jax.tree.leaves(tree)]


@pytest.mark.slow
def test_a_lost_process_ends_all_four_and_fewer_go_on(tmp_path):
    job = Job(tmp_path / "run", *SMALL, "0", "--iterations", "100000", processes=4)
    job.wait_for_checkpoint(2)
    job.processes[2].kill()
    statuses = job.statuses()
    assert statuses[2] == -signal.SIGKILL
    for i in (0, 1, 3):
        assert statuses[i] in (LOST_STATUS, -signal.SIGABRT), job.log(i)
        assert re.search(rf"error: process {i} .*lost.*[Nn]ewest whole checkpoint.*iteration \d+", job.log(i))
        assert "--resume" in job.log(i) and "Traceback" not in job.log(i)
    done = checkpoint_steps(job.workdir)[0]
    # Two of them go on, and stop together when one is told to.
    job = Job(job.workdir, "--resume", processes=2)
    job.wait_for_checkpoint(done + 2)
    job.processes[1].send_signal(signal.SIGTERM)
    job.finish()
    assert "re-laid from 4 devices to 2" in job.log() and "stopped at iteration" in job.log()
    done = checkpoint_steps(job.workdir)[0]
    # And one alone ends the run.
    job = Job(job.workdir, "--resume", "--iterations", str(done + 2)).finish()
    assert f"resumed at iteration {done}" in job.log()
    assert [row["iteration"] for row in read_metrics(job.workdir)] == list(range(1, done + 3))


@pytest.mark.slow
def test_the_others_end_when_the_first_is_lost(tmp_path):
    job = Job(tmp_path / "run", *SMALL, "0", "--iterations", "100000", processes=2)
    job.wait_for_checkpoint(2)
    job.processes[0].kill()
    assert job.statuses()[1] in (LOST_STATUS, -signal.SIGABRT)
    deadline = time.monotonic() + 10  # the companion speaks after the process's end
    while "error: process 1" not in job.log(1) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert re.search(r"error: process 1 .*lost.*[Nn]ewest whole checkpoint.*iteration \d+", job.log(1))


@pytest.mark.slow
def test_what_the_first_refuses_ends_all(tmp_path):
    (tmp_path / "run").write_text("a file")
    job = Job(tmp_path / "run", *SMALL, "0", processes=2)
    assert job.statuses() == [2, 2]
    assert "run is a file; a run needs a folder" in job.log(0)
    assert "process 0 has stopped the run" in job.log(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("10.0.0.1:80", None, 0), r"processes = None.*give all three"),
        ((None, 2, None), r"coordinator = None"),
        (("nowhere", 2, 0), r"'nowhere': HOST:PORT"),
        (("nowhere:port", 2, 0), r"'nowhere:port': HOST:PORT"),
        (("10.0.0.1:80", 2, 2), r"process = 2: from 0 to processes - 1 = 1"),
        (("10.0.0.1:80", 2, -1), r"process = -1"),
    ],
)
def test_bad_addresses_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        start(*arguments)


def test_a_lone_process_agrees_with_itself():
    assert all_processes([1.5, 2.0]).tolist() == [[1.5, 2.0]]
    assert distributed.any_process(True) and not distributed.any_process(False)
    assert distributed.is_main() and main_first(lambda: 3) == 3
    clock = Clock()
    seconds, cpu_seconds = distributed.shared_time(clock)
    assert 0 <= seconds <= clock.seconds and 0 <= cpu_seconds <= clock.cpu_seconds
    with pytest.raises(ZeroDivisionError):
        main_first(lambda: 1 // 0)


def test_what_tells_of_a_lost_process(monkeypatch):
    gloo = ValueError("UNKNOWN: Gloo AllGather failed: Connection closed by peer [127.0.0.1]:6025")
    memory = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")
    assert not distributed.is_loss(gloo)  # there is no other
    monkeypatch.setattr(distributed.jax, "process_count", lambda: 2)
    assert distributed.is_loss(gloo)
    assert distributed.is_loss(jax.errors.JaxRuntimeError("DEADLINE_EXCEEDED: barrier"))
    assert not distributed.is_loss(memory)
    assert not distributed.is_loss(ValueError("selfplay.num_games = 3: a multiple"))


def test_the_others_hear_that_the_first_refused(monkeypatch):
    monkeypatch.setattr(distributed.jax, "process_count", lambda: 2)
    monkeypatch.setattr(distributed, "all_processes", lambda flag: np.asarray([True, False]))
    monkeypatch.setattr(distributed, "is_main", lambda: False)
    with pytest.raises(RefusedError, match="process 0"):
        main_first(lambda: pytest.fail("only the first does it"))
    monkeypatch.setattr(distributed, "is_main", lambda: True)
    with pytest.raises(OSError, match="full"):
        main_first(full)


def full():
    raise OSError("disk full")


def test_the_companion_speaks_only_when_nobody_ended_it(tmp_path):
    program = (
        "import sys, jax\n"
        "jax.process_count = lambda: 2\n"
        "jax.process_index = lambda: 7\n"
        "from gomoku_jax.distributed import Companion, end\n"
        "companion = Companion('runs/x')\n"
        "companion.checkpoint(12)\n"
        "if sys.argv[1] == 'well':\n"
        "    companion.close()\n"
        "end(5)\n"
    )
    for how in ("well", "badly"):
        result = subprocess.run(
            [sys.executable, "-c", program, how], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert result.returncode == 5
        # Its pipe is inherited: `run` returns only after the companion has spoken.
        spoken = "process 7" in result.stderr and "runs/x: iteration 12" in result.stderr
        assert spoken == (how == "badly"), result.stderr


class _Device:
    def __init__(self, process_index: int):
        self.process_index = process_index


def test_every_process_gives_equally_many_devices():
    devices = [_Device(index) for index in (0, 0, 0, 1, 1)]
    assert [len(own) for own in local_devices(devices)] == [2, 2]
    assert local_devices(devices, 1) == [[devices[0]], [devices[3]]]
    with pytest.raises(ValueError, match="devices = 3: from 1 to 2"):
        local_devices(devices, 3)
