"""Traces: every part of the method by its name, in XLA's programs, in Perfetto's file and in the table."""

import collections
import gzip
import json
import pathlib
import re

import jax
import jax.numpy as jnp
import pytest
from tiny import TINY

from gomoku_jax.checkpoint import init_training_state, playing_params
from gomoku_jax.profiling import (
    PHASES,
    SCOPES,
    Event,
    Operation,
    Profiler,
    Programs,
    read_events,
    scope_runs,
    scopes_of,
    time_by_scope,
)
from gomoku_jax.programs import make_programs
from gomoku_jax.train import train


@pytest.mark.parametrize(
    ("op_name", "scopes"),
    [
        ("jit(f)/while/body/closed_call/expand/network/cond/branch_0_fun/dot_general", ("expand", "network")),
        ("jit(f)/learn/while/body/learn/transpose(jvp(network))/stem/mul", ("learn", "network")),
        ("jit(f)/learn/while/body/closed_call/learn/transpose(learn)/jvp(network)/mul", ("learn", "network")),
        ("jit(f)/learn/while/body/closed_call/replay/jit(_randint)/add", ("learn", "replay")),
        ("jit(f)/vmap(select)/gather;jit(f)/expand/gather", ("select",)),
        ("jit(network)/jit(learn)/add", ()),  # functions of such a name are no scopes
        ("jit(f)/learning/networks/add", ()),
        ("jit(f)/vmap()/add", ()),
        ("", ()),
    ],
)
def test_scopes_in_a_name(op_name, scopes):
    assert scopes_of(op_name) == scopes


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run folder whose third and fourth iterations were traced, and what was said."""
    workdir = tmp_path_factory.mktemp("profiled") / "run"
    train(TINY, workdir, quiet=True, profile_iterations=(3, 4))
    return workdir


def the_trace(run: pathlib.Path) -> pathlib.Path:
    (path,) = run.glob("profile/plugins/profile/*/*.xplane.pb")  # where TensorBoard looks
    return path


def test_compiled_programs_carry_every_scope(run):
    """By XLA's own text of them; the trace says the same of every operation."""
    programs = make_programs(TINY)
    state = programs.place(init_training_state(TINY))
    params, learner, key = playing_params(TINY, state), state.learner, state.key
    texts = {
        "jit_selfplay_program": programs.selfplay.lower(params, state.selfplay, state.replay, key),
        "jit_update_program": programs.update.lower(learner, state.replay, key),
    }
    line = re.compile(r'^ +(?:ROOT )?%?([\w.\-]+) = .*metadata=\{op_name="([^"]*)"', re.MULTILINE)
    found, traced = {}, Programs(the_trace(run).read_bytes())
    for name, lowered in texts.items():
        names = line.findall(lowered.compile().as_text())
        assert len(names) > 1000
        expected = {operation: scopes_of(op_name) for operation, op_name in names}
        same = [traced.operations[number] for number in traced.numbers[name]]
        assert any({name: ops[name].scopes for name in expected if name in ops} == expected for ops in same)
        found[name] = {scope for _, op_name in names for scope in scopes_of(op_name)}
    assert found == {
        "jit_selfplay_program": {"encode", "network", "select", "expand", "backup", "replay"},
        "jit_update_program": {"encode", "network", "replay", "learn"},
    }


def test_the_perfetto_file_shows_scopes_and_phases(run):
    with gzip.open(run / "profile" / "perfetto_trace.json.gz") as file:
        rows = json.load(file)["traceEvents"]
    processes = {row["pid"]: row["args"]["name"] for row in rows if row["name"] == "process_name"}
    assert set(processes.values()) == {"/host:CPU", "/host:CPU: named scopes"}
    assert {row["ph"] for row in rows} == {"M", "X"}
    events = [row for row in rows if row["ph"] == "X"]
    assert all(row["dur"] >= 0 and row["ts"] >= 0 and {"pid", "tid", "name"} <= set(row) for row in events)
    operations = [row for row in events if "scope" in row["args"]]
    stretches = [row for row in events if processes[row["pid"]].endswith("scopes")]
    assert {row["name"] for row in stretches} == set(SCOPES)
    for scope in SCOPES:
        inside = [row for row in operations if scope in row["args"]["scope"].split("/")]
        assert inside, scope
        # Every operation of the scope lies in a stretch of it, on its own thread.
        spans = [(s["tid"], s["ts"], s["ts"] + s["dur"]) for s in stretches if s["name"] == scope]
        for row in inside:
            begin, end = row["ts"], row["ts"] + row["dur"]
            assert any(tid == row["tid"] and a <= begin and end <= b + 2e-3 for tid, a, b in spans)
    assert any(row["name"].startswith("backup: ") for row in operations)
    phases = collections.Counter(row["name"] for row in events)
    # Two iterations; the second evaluates; each writes a checkpoint.
    assert {name: phases[name] for name in PHASES} == dict(zip(PHASES, (2, 2, 1, 2), strict=True)) | {
        # The name of a phase and of a scope.
        "learn": 2 + sum(row["name"] == "learn" for row in stretches)
    }
    assert phases["iteration 3"] == phases["iteration 4"] == 1 and phases["iteration 2"] == 0


def test_the_table_adds_up(run):
    with gzip.open(run / "profile" / "perfetto_trace.json.gz") as file:
        rows = [row for row in json.load(file)["traceEvents"] if "program" in row.get("args", {})]
    sums = collections.defaultdict(lambda: [0.0, 0])
    for row in rows:
        total = sums[row["args"]["program"], row["args"]["scope"]]
        total[0] += row["dur"] / 1e6
        total[1] += 1
    table = time_by_scope(read_events(the_trace(run)))
    assert {
        (program, scopes): [pytest.approx(seconds, abs=1e-5), count]
        for program, lines in table.items()
        for scopes, (seconds, count) in lines.items()
    } == dict(sums)
    text = (run / "profile" / "scopes.txt").read_text()
    assert set(SCOPES) | {"self-play", "evaluate", "checkpoint"} <= {
        line.partition(" ")[0] for line in text.splitlines()
    }


def test_operations_of_programs_under_other_numbers():
    """As those from the compilation cache are."""
    programs = Programs(b"")
    first, second = Operation("fusion", ("learn",)), Operation("fusion", ("select",))
    programs.operations = {"f(3)": {"a": first}, "f(5)": {"a": second, "b": second}}
    programs.numbers = {"f": ["f(3)", "f(5)"]}
    assert programs.find("f", 5, "a") == second and programs.find("f", 3, "a") == first
    assert programs.find("f", 99, "a") == first and programs.find("f", 3, "b") == second
    assert programs.find("g", 3, "a").scopes == () and programs.find("f", 3, "c").scopes == ()


def test_stretches_of_scopes():
    def operation(start, *scopes):
        return Event("op", start, 1.0, "program", scopes)

    events = [
        operation(0, "select"),
        operation(1, "select"),
        Event("of the host", 2, 50.0),
        operation(3, "expand"),
        operation(5, "expand", "encode"),
        operation(7, "expand", "network"),
        operation(9),
        operation(11, "expand"),
    ]
    runs = {(run.name, run.start, run.duration) for run in scope_runs(events)}
    assert runs == {
        ("select", 0, 2.0),
        ("expand", 3, 5.0),
        ("encode", 5, 1.0),
        ("network", 7, 1.0),
        ("expand", 11, 1.0),
    }
    assert scope_runs([]) == []


@jax.jit
def small(x):
    with jax.named_scope("backup"):
        return jnp.sort(x @ x)


def test_a_run_that_ends_within_the_trace_leaves_what_there_is(tmp_path):
    said = []
    profiler = Profiler(tmp_path / "profile", 1, 5, left=5)
    profiler.tell = said.append
    profiler.begin(7)
    small(jnp.ones((50, 50))).block_until_ready()
    profiler.end()
    profiler.close()
    profiler.close()
    assert (
        len(said) == 1 and "iterations 1 to 1 of this process" in said[0] and str(profiler.trace) in said[0]
    )
    lines = read_events(the_trace(tmp_path))
    names = {event.name for events in lines.values() for event in events}
    assert "iteration 7" in names
    assert "backup" in time_by_scope(lines)["jit_small"]


def test_a_trace_that_cannot_be_written_costs_the_trace_only(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    said = []
    profiler = Profiler(tmp_path / "file" / "profile", 1, 2, left=2)
    profiler.tell = said.append
    for iteration in (1, 2):
        profiler.begin(iteration)
        profiler.end()
    profiler.close()
    assert said == ["warning: no trace: Not a directory"]

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gomoku_jax.profiling.write_perfetto", full)
    profiler = Profiler(tmp_path / "profile")
    profiler.tell = said.append
    profiler.begin(1)
    profiler.end()
    assert said[1:] == ["warning: no trace: No space left on device"] and profiler.trace is None


@pytest.mark.parametrize("iterations", [(0, 2), (3, 2), (5, 6)])
def test_iterations_that_cannot_be_traced_are_refused(iterations, tmp_path):
    words = "profile_iterations = {} {}: .* has 4 to do".format(*iterations)
    with pytest.raises(ValueError, match=words):
        train(TINY, tmp_path / "run", quiet=True, profile_iterations=iterations)
    assert not (tmp_path / "run").exists()
