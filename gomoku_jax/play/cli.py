"""The console command `gomoku-jax`. What a subcommand needs is imported when it is called."""

import importlib
import os
import sys

COMMANDS = {
    "play": ("gomoku_jax.play.terminal", "play in the terminal, or watch players play"),
    "web": ("gomoku_jax.play.web.command", "serve the web board on this machine"),
    "gomocup": (
        "gomoku_jax.play.gomocup.command",
        "speak the Gomocup (Piskvork) protocol on stdin and stdout",
    ),
    "agents": ("gomoku_jax.play.agents", "list the agents found here, and show their model cards"),
    "convert": ("gomoku_jax.play.files.command", "convert game files: SGF, Piskvork .psq, move strings"),
}

EXAMPLES = """examples:
  gomoku-jax play                              play the agent that is found here, on its board
  gomoku-jax play --board 15x15x5 --white mcts:2000 --black human
  gomoku-jax play --black 6x6x4@400 --white mcts:1000 --delay 1
  gomoku-jax web                               then open http://127.0.0.1:8000
  gomoku-jax web --agent runs/mine --port 9000
  gomoku-jax gomocup                           as an engine for a Gomocup manager such as Piskvork
  gomoku-jax agents 6x6x4                      the model card of a shipped agent
  gomoku-jax convert game.sgf game.psq"""


def usage() -> str:
    """The help of the whole command."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: gomoku-jax COMMAND [options]",
            "",
            "Play AlphaZero agents for Gomoku, watch them think, and let other programs play them.",
            "",
            "commands:",
            *lines,
            "",
            "gomoku-jax COMMAND --help shows a command's options and examples.",
            "",
            EXAMPLES,
        ]
    )


def main(argv: list[str] | None = None) -> int:
    """Runs a subcommand; returns the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if argv else 2
    if argv[0] in ("-V", "--version"):
        from gomoku_jax import __version__

        print(f"gomoku_jax {__version__}")
        return 0
    if argv[0] not in COMMANDS:
        print(f"error: no command {argv[0]!r}; choose {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    module = importlib.import_module(COMMANDS[argv[0]][0])
    try:
        status = module.main(argv[1:])
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:  # as of `| head`; what is left to print goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


if __name__ == "__main__":
    sys.exit(main())
