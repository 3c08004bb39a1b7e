"""`gomoku-jax gomocup`: the engine on stdin and stdout.

Without options nothing but the standard library is imported before the protocol is spoken.
"""

import dataclasses
import os
import pathlib
import sys
import threading
import time

from gomoku_jax.play.gomocup.engine import Engine

_SECONDS_TO_END = 0.4  # after END or the end of the input
_LONGEST_LINE = 4096  # bytes; the rest of a longer line is dropped

EXAMPLES = """Speaks the Gomocup (Piskvork) protocol on stdin and stdout, for tournament managers. Try:

    gomoku-jax gomocup                         with the agent that is found here
    gomoku-jax gomocup --agent runs/mine       with one of your own
    printf 'ABOUT\\nEND\\n' | gomoku-jax gomocup

In a manager, give the path of an executable file with these two lines:

    #!/bin/sh
    exec gomoku-jax gomocup
"""


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The command line."""

    agent: str | None = None
    """A run or agent folder, a published .model file, or a shipped agent's name; by default the newest run in
    runs/ that was trained on the manager's board, else the shipped agent that fits it best."""
    simulations: int | None = None
    """Most simulations a move; by default as many as the clock allows, up to 8192."""
    platform: str | None = None
    """What JAX computes on: cpu, gpu or tpu; by default the best there is."""


def read_arguments(argv: list[str]) -> Arguments:
    """The options; tyro is imported only where there are any.

    Raises:
        ValueError: one that cannot be.
    """
    if not argv:
        return Arguments()
    import tyro

    arguments = tyro.cli(Arguments, args=argv, description=EXAMPLES, prog="gomoku-jax gomocup")
    if arguments.simulations is not None and not 1 <= arguments.simulations <= 32768:
        raise ValueError(f"--simulations {arguments.simulations}: from 1 to 32768")
    if arguments.platform not in (None, "cpu", "gpu", "cuda", "rocm", "tpu"):
        raise ValueError(f"--platform {arguments.platform!r}: choose cpu, gpu or tpu")
    if arguments.agent is not None:
        shipped = pathlib.Path(__file__).parents[2] / "shipped"  # as in agent.py, which imports JAX
        names = sorted(path.parent.name for path in shipped.glob("*/agent.json"))
        if not pathlib.Path(arguments.agent).exists() and arguments.agent not in names:
            raise ValueError(
                f"--agent {arguments.agent!r}: no such file or folder, and the shipped agents are "
                f"{', '.join(names)}"
            )
    return arguments


def read_lines(engine: Engine, file: int) -> None:
    """Puts lines from a file descriptor into the engine's events, until END or the end of the input."""
    rest, dropping = b"", False
    while True:
        try:
            data = os.read(file, 65536)
        except OSError:
            data = b""
        now = time.monotonic()
        if not data:
            break
        *lines, rest = (rest + data).replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            if not dropping:
                engine.events.put(("line", line[:_LONGEST_LINE].decode("utf-8", "replace"), now))
                if line.strip().upper() == b"END":
                    return
            dropping = False
        if len(rest) > _LONGEST_LINE:
            if not dropping:
                engine.events.put(("line", rest[:_LONGEST_LINE].decode("utf-8", "replace"), now))
            rest, dropping = b"", True
    engine.events.put(("end", None, time.monotonic()))


def main(argv: list[str]) -> int:
    """Speaks the protocol until END or the end of the input; ends the process."""
    try:
        arguments = read_arguments(argv)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if arguments.platform is not None:
        os.environ["JAX_PLATFORMS"] = arguments.platform
    from gomoku_jax import __version__

    # Whatever libraries print goes to stderr: stdout carries the protocol alone.
    out = os.dup(1)
    os.dup2(2, 1)

    def write(line: str) -> None:
        try:
            os.write(out, line.encode("ascii", "replace") + b"\n")
        except OSError:  # nobody reads any more
            os._exit(0)

    def read() -> None:
        read_lines(engine, 0)
        time.sleep(_SECONDS_TO_END)
        os._exit(0)  # the loop writes to a manager that does not read

    engine = Engine(write, arguments.agent, arguments.simulations, __version__)
    threading.Thread(target=read, name="reader", daemon=True).start()
    status = 1
    try:
        status = engine.run()
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)  # XLA may be compiling in a thread that nothing stops
