"""Traces of some iterations, for Perfetto and TensorBoard, in which the parts of the method have their names.

The programs carry named scopes (`jax.named_scope`), which XLA keeps with every operation it makes. On the CPU
the profiler records operations by the names that XLA gave them, so `annotate` looks up in the compiled
programs, which are in the trace too, to which scope each belongs.
"""

import collections
import contextlib
import dataclasses
import gzip
import json
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax

from gomoku_jax.files import reason_of, write_atomically

SCOPES = ("encode", "network", "select", "expand", "backup", "replay", "learn")
# What the host does, one after the other.
PHASES = ("self-play", "learn", "evaluate", "checkpoint")
PROFILE_FOLDER = "profile"
TRACE_FILE = "perfetto_trace.json.gz"
TABLE_FILE = "scopes.txt"

_OTHER = "other"  # operations outside all scopes
_CONTAINERS = ("while", "conditional", "call")  # operations whose time is that of others
_TRANSFORMED = re.compile(r"(?:(?!jit\()\w+\()*(\w+)\)*")  # "transpose(jvp(network))"; "jit(f)" is a function

phase = jax.profiler.TraceAnnotation  # around a phase of the host, one of `PHASES`


def scopes_of(op_name: str) -> tuple[str, ...]:
    """The named scopes in an operation's name as XLA keeps it, outermost first.

    >>> scopes_of("jit(update_program)/learn/while/body/learn/transpose(jvp(network))/stem/dot_general")
    ('learn', 'network')
    """
    found: list[str] = []
    for part in op_name.partition(";")[0].split("/"):
        match = _TRANSFORMED.fullmatch(part)
        if match is not None and match[1] in SCOPES and match[1] not in found[-1:]:
            found.append(match[1])
    return tuple(found)


# The trace's own format is that of protocol buffers, https://protobuf.dev/programming-guides/encoding. Of its
# messages (xplane.proto, hlo.proto) these fields are read, by their numbers.
_SPACE_PLANES, _PLANE_NAME, _PLANE_EVENT_METADATA, _MAP_VALUE = 1, 2, 4, 2
_METADATA_NAME, _METADATA_STATS, _STAT_BYTES = 2, 5, 6
_HLO_MODULE, _MODULE_COMPUTATIONS, _COMPUTATION_INSTRUCTIONS = 1, 3, 2
_INSTRUCTION_NAME, _INSTRUCTION_OPCODE, _INSTRUCTION_METADATA, _METADATA_OP_NAME = 1, 2, 7, 2


def _fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """The fields of a message, by number; numbers, or the bytes of text and messages."""
    at = 0

    def number() -> int:
        nonlocal at
        result = shift = 0
        while True:
            byte = message[at]
            at += 1
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result

    while at < len(message):
        tag = number()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, number()
        elif kind == 2:
            size = number()
            yield tag >> 3, message[at : at + size]
            at += size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(f"not a trace: field of kind {kind}")


def _find(message: memoryview, *path: int) -> Iterator[Any]:
    """All values at the end of a path of field numbers."""
    for field, value in _fields(message):
        if field == path[0]:
            if len(path) == 1:
                yield value
            else:
                yield from _find(value, *path[1:])


def _text(message: memoryview, *path: int) -> str:
    return str(next(_find(message, *path), b""), "utf-8")


@dataclasses.dataclass(frozen=True)
class Operation:
    """What a compiled program says of one of its operations."""

    opcode: str
    scopes: tuple[str, ...]


_NO_OPERATION = Operation("", ())


class Programs:
    """The compiled programs in a trace.

    Args:
        trace: the bytes of an `.xplane.pb`.

    Attributes:
        operations: by name and number of the program, such as "jit_update_program(192)", and own name.
        numbers: by a program's name, those of `operations`.
    """

    def __init__(self, trace: bytes):
        self.operations = _operations_of(trace)
        self.numbers: dict[str, list[str]] = {}
        for program in self.operations:
            self.numbers.setdefault(program.rpartition("(")[0], []).append(program)

    def find(self, name: str, number: Any, operation: str) -> Operation:
        """An operation by its name and its program's; empty if there is none.

        Programs read from the compilation cache run under the number they had when they were compiled, not
        under that of their listing: if the number is of no use, the first of the name will do.
        """
        for program in (f"{name}({number})", *self.numbers.get(name, ())):
            found = self.operations.get(program, {}).get(operation)
            if found is not None:
                return found
        return _NO_OPERATION


def _operations_of(trace: bytes) -> dict[str, dict[str, Operation]]:
    programs: dict[str, dict[str, Operation]] = {}
    for plane in _find(memoryview(trace), _SPACE_PLANES):
        if _text(plane, _PLANE_NAME) != "/host:metadata":
            continue
        for program in _find(plane, _PLANE_EVENT_METADATA, _MAP_VALUE):
            operations = programs.setdefault(_text(program, _METADATA_NAME), {})
            path = (
                _METADATA_STATS,
                _STAT_BYTES,
                _HLO_MODULE,
                _MODULE_COMPUTATIONS,
                _COMPUTATION_INSTRUCTIONS,
            )
            for instruction in _find(program, *path):
                op_name = _text(instruction, _INSTRUCTION_METADATA, _METADATA_OP_NAME)
                operations[_text(instruction, _INSTRUCTION_NAME)] = Operation(
                    _text(instruction, _INSTRUCTION_OPCODE), scopes_of(op_name)
                )
    return programs


@dataclasses.dataclass(frozen=True)
class Event:
    """Something in a trace that took time: an operation, or a phase or call of the host.

    Attributes:
        name: of the operation, or what the host called it.
        start: nanoseconds from the trace's begin.
        duration: nanoseconds.
        program: that the operation is of; empty of the host's events.
        scopes: of an operation, outermost first.
    """

    name: str
    start: float
    duration: float
    program: str = ""
    scopes: tuple[str, ...] = ()


def read_events(path: pathlib.Path) -> dict[tuple[str, str], list[Event]]:
    """The events of a trace by plane (a device, or the host) and line (a thread), in order of time.

    Operations that only hold others, such as loops, are left out.

    Args:
        path: an `.xplane.pb`.
    """
    data = path.read_bytes()
    programs = Programs(data)
    lines: dict[tuple[str, str], list[Event]] = {}
    for plane in jax.profiler.ProfileData.from_serialized_xspace(data).planes:
        for line in plane.lines:
            events = []
            for event in line.events:
                stats = dict(event.stats)
                if "hlo_op" in stats:
                    program = str(stats.get("hlo_module", ""))
                    operation = programs.find(program, stats.get("program_id"), str(stats["hlo_op"]))
                    scopes = operation.scopes or scopes_of(str(stats.get("tf_op", "")))
                    if operation.opcode not in _CONTAINERS:
                        events.append(Event(event.name, event.start_ns, event.duration_ns, program, scopes))
                elif event.duration_ns > 0 and not event.name.startswith(("end: ", "Threadpool")):
                    name = f"{event.name} {stats['step_num']}" if "step_num" in stats else event.name
                    events.append(Event(name, event.start_ns, event.duration_ns))
            if events:
                name = f"{line.name} #{len(lines)}"  # threads of one pool may share a name
                lines[plane.name, name] = sorted(events, key=lambda event: (event.start, -event.duration))
    return lines


def scope_runs(events: list[Event]) -> list[Event]:
    """Operations of one thread, in order of time, as stretches of a scope; those inside another lie in it."""
    runs: list[Event] = []
    open_: list[tuple[str, float]] = []  # scopes and their begins, outermost first
    end = 0.0

    def close(depth: int) -> None:
        while len(open_) > depth:
            name, start = open_.pop()
            runs.append(Event(name, start, end - start))

    for event in events:
        if not event.program:
            continue
        same = 0
        while same < min(len(open_), len(event.scopes)) and open_[same][0] == event.scopes[same]:
            same += 1
        close(same)
        open_ += [(name, event.start) for name in event.scopes[same:]]
        end = max(end, event.start + event.duration)
    close(0)
    return runs


def write_perfetto(lines: Mapping[tuple[str, str], list[Event]], path: pathlib.Path) -> None:
    """The trace in the JSON that Perfetto reads: each thread's events, and below them its scopes.

    An operation is called by its innermost scope and its own name, and tells all its scopes as an argument.
    """
    rows: list[dict[str, Any]] = []
    planes = list(dict.fromkeys(plane for plane, _ in lines))
    for number, plane in enumerate(planes, 1):
        for pid, name in ((2 * number - 1, plane), (2 * number, f"{plane}: named scopes")):
            rows.append({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}})

    def add(pid: int, tid: int, event: Event, name: str, args: dict[str, str]) -> None:
        row = {"ph": "X", "pid": pid, "tid": tid, "name": name}
        row |= {"ts": round(event.start / 1e3, 3), "dur": round(event.duration / 1e3, 3), "args": args}
        rows.append(row)

    for tid, ((plane, line), events) in enumerate(lines.items(), 1):
        pid = 2 * planes.index(plane) + 1
        for place in (pid, pid + 1):
            rows.append({"ph": "M", "pid": place, "tid": tid, "name": "thread_name", "args": {"name": line}})
        for event in events:
            if event.program:
                scope = event.scopes[-1] if event.scopes else _OTHER
                args = {"scope": "/".join(event.scopes) or _OTHER, "program": event.program}
                add(pid, tid, event, f"{scope}: {event.name}", args)
            else:
                add(pid, tid, event, event.name, {})
        for run in scope_runs(events):
            add(pid + 1, tid, run, run.name, {})
    text = json.dumps({"displayTimeUnit": "ms", "traceEvents": rows})
    write_atomically(path, gzip.compress(text.encode(), compresslevel=5))


def time_by_scope(lines: Mapping[tuple[str, str], list[Event]]) -> dict[str, dict[str, tuple[float, int]]]:
    """Seconds in operations, and their number, by program and scopes; "other" are those outside all scopes.

    The seconds are of all threads together, and of what the threads record as theirs: what a matrix product
    gives to others on the CPU is not among it.
    """
    table: dict[str, dict[str, tuple[float, int]]] = {}
    for events in lines.values():
        for event in events:
            if event.program:
                row = table.setdefault(event.program, {})
                scopes = "/".join(event.scopes) or _OTHER
                seconds, count = row.get(scopes, (0.0, 0))
                row[scopes] = seconds + event.duration / 1e9, count + 1
    return table


def time_by_phase(lines: Mapping[tuple[str, str], list[Event]]) -> dict[str, float]:
    """Wall seconds of the host's phases."""
    seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)
    for events in lines.values():
        for event in events:
            if not event.program and event.name in seconds:
                seconds[event.name] += event.duration / 1e9
    return seconds


def describe(lines: Mapping[tuple[str, str], list[Event]]) -> str:
    """A table of the time in each scope, as text."""
    table = time_by_scope(lines)
    total = sum(seconds for rows in table.values() for seconds, _ in rows.values()) or 1.0
    text = [f"{'phase of the host':<40}{'seconds':>10}"]
    text += [f"{name:<40}{seconds:>10.3f}" for name, seconds in time_by_phase(lines).items() if seconds > 0]
    head = f"{'scope':<40}{'seconds':>10}{'share':>8}{'operations':>12}"
    sums: dict[str, tuple[float, int]] = collections.defaultdict(lambda: (0.0, 0))
    for rows in table.values():
        for scopes, (seconds, count) in rows.items():
            before = sums[scopes.rpartition("/")[2]]
            sums[scopes.rpartition("/")[2]] = before[0] + seconds, before[1] + count

    def add(title: str, rows: Mapping[str, tuple[float, int]]) -> None:
        text.extend(["", title, head])
        for name, (seconds, count) in sorted(rows.items(), key=lambda item: -item[1][0]):
            text.append(f"{name:<40}{seconds:>10.3f}{seconds / total:>8.1%}{count:>12}")

    add("operations by their innermost scope, all threads together", sums)
    for program, rows in sorted(table.items(), key=lambda item: -sum(row[0] for row in item[1].values())):
        if sum(seconds for seconds, _ in rows.values()) >= 0.001 * total:
            add(f"{program}, by all scopes", rows)
    return "\n".join(text) + "\n"


def annotate(folder: pathlib.Path) -> pathlib.Path:
    """Makes Perfetto's file and the table of the newest trace in a profile folder; the path of the first."""
    traces = sorted(folder.glob("plugins/profile/*/*.xplane.pb"), key=lambda path: path.stat().st_mtime)
    if not traces:
        raise FileNotFoundError(f"no trace in {folder}")
    lines = read_events(traces[-1])
    write_perfetto(lines, folder / TRACE_FILE)
    write_atomically(folder / TABLE_FILE, describe(lines))
    return folder / TRACE_FILE


class Profiler:
    """Traces some iterations of a process.

    Args:
        folder: where the trace goes; None traces nothing.
        first: first iteration traced, counted from 1 in this process: before the third, programs compile.
        last: the last one.
        left: iterations that this process has to do.

    Attributes:
        tell: takes what there is to say.
        trace: Perfetto's file, when it is there.

    Raises:
        ValueError: there are no such iterations.
    """

    def __init__(self, folder: pathlib.Path | None, first: int = 1, last: int = 1, left: int = 1):
        if not 1 <= first <= min(last, left):
            raise ValueError(
                f"profile_iterations = {first} {last}: the first and the last, counted from 1 in this "
                f"process, which has {left} to do"
            )
        self._folder, self._first, self._last = folder, first, last
        self.tell: Callable[[str], None] = print
        self._count = 0
        self._is_tracing = False
        self._step: Any = None
        self.trace: pathlib.Path | None = None

    def begin(self, iteration: int) -> None:
        """Before an iteration of the run."""
        self._count += 1
        if self._folder is None or not self._first <= self._count <= self._last:
            return
        if not self._is_tracing:
            options = jax.profiler.ProfileOptions()
            options.python_tracer_level = 0  # every call of Python would bury the rest
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                jax.profiler.start_trace(self._folder, profiler_options=options)
            except (OSError, RuntimeError) as error:
                self._give_up(error)
                return
            self._is_tracing = True
        self._step = jax.profiler.StepTraceAnnotation("iteration", step_num=iteration)
        self._step.__enter__()

    def end(self) -> None:
        """After it."""
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None
        if self._is_tracing and self._count >= self._last:
            self.close()

    def close(self) -> None:
        """Ends the trace, if one runs, and writes it. A failure is told and costs the trace, not the run."""
        if not self._is_tracing:
            return
        self._is_tracing = False
        assert self._folder is not None
        try:
            jax.profiler.stop_trace()
            self.trace = annotate(self._folder)
        except (OSError, RuntimeError, ValueError) as error:
            self._give_up(error)
            return
        done = min(self._count, self._last)
        self.tell(
            f"traced iterations {self._first} to {done} of this process: {self.trace} opens in "
            f"https://ui.perfetto.dev, its folder in TensorBoard with the xprof plugin (tensorboard --logdir "
            f"{self._folder}); time by scope: {self._folder / TABLE_FILE}"
        )

    def _give_up(self, error: BaseException) -> None:
        self.tell(f"warning: no trace: {reason_of(error)}")
        self._folder = None
        with contextlib.suppress(RuntimeError):
            jax.profiler.stop_trace()
