r"""Plays in the terminal: a person, an agent, pure MCTS, a random player or an engine on each side. Try:

  gomoku-jax play                                   black against the agent that is found here, on its board
  gomoku-jax play --white human --black agent       the agent begins
  gomoku-jax play --board 15x15x5 --white mcts:2000
  gomoku-jax play --black 6x6x4@400 --white mcts:1000 --delay 1     watch two players
  gomoku-jax play --board 15x15x5 --opening-rule swap2              as tournaments open
  gomoku-jax play --load game.sgf --save game2.sgf  go on with a game from a file
  printf 'c3\nhint\nquit\n' | gomoku-jax play       from a script

A player is human, agent (the one of --agent, or chosen), random, tactical, vcf:PLIES, mcts:PLAYOUTS, a run or
agent folder or a shipped agent's name with @SIMULATIONS if wanted, or gomocup:PATH, an engine that speaks the
Gomocup protocol. Where one side is given the other is a person, or the agent if that side is a person.

Moves are typed as h8, or as row,column (8,8), counted from 1 and from the lower left corner; help lists the
commands: undo, redo, hint, resign, save FILE, board, moves, new, quit.
"""

import contextlib
import dataclasses
import importlib
import io
import pathlib
import shlex
import sys

import tyro

from gomoku_jax.agent import AgentError, parse_player
from gomoku_jax.compilation import use_compilation_cache
from gomoku_jax.config import Rule
from gomoku_jax.game import Gomoku, parse_board
from gomoku_jax.openings import SWAPS, OpeningRule, SwapOpening
from gomoku_jax.play.choose import Choice, choose
from gomoku_jax.play.files import GameFile, GameFileError, file_format, read_game, read_moves
from gomoku_jax.play.opponents import ENGINE_PREFIX, AgentPlayer, HostPlayer, Limit, make_opponent
from gomoku_jax.play.record import GameRecord
from gomoku_jax.play.terminal_display import is_interactive, make_console
from gomoku_jax.play.terminal_session import Adviser, EndOfInput, Quit, Session, read_line
from gomoku_jax.play.thinking import DEFAULT_SIMULATIONS, Thinker

HUMAN, AGENT = "human", "agent"
MAX_DELAY = 3600.0


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The command line."""

    black: str | None = None
    """Who plays black and begins; by default a person."""
    white: str | None = None
    """Who plays white; by default the agent."""
    agent: str | None = None
    """What `agent` means, and who gives hints: a run or agent folder, or a shipped agent's name. By default
    the newest run in ./runs on this board, else the shipped agent that fits best."""
    board: str | None = None
    """ROWSxCOLUMNSxK, such as 15x15x5; by default the agent's own."""
    rule: Rule | None = None
    """freestyle: K or more in a row win; exact: exactly K; caro: exactly K, and not with the other's stones
    at both ends; caro_overline: as caro, and more than K; renju: five for black, who has forbidden moves, and
    five or more for white. By default the agent's own, or freestyle."""
    opening_rule: OpeningRule | None = None
    """By default that of the agent's game, or free. pro, long_pro: black's first stone is in the centre, its
    second at least 3 or 4 points away. swap: the side of black places three stones, the other takes a colour;
    swap2: the other may also place two more, and leave the colours to the first. An agent places and takes by
    what it thinks of the position."""
    simulations: int | None = None
    """An agent's search, a move; by default 200, or none but --seconds. 0 is the network alone."""
    seconds: float | None = None
    """An agent's or engine's time, a move; together with --simulations, whichever ends first."""
    delay: float = 0.5
    """Seconds between two moves where machines play each other."""
    load: pathlib.Path | None = None
    """Go on with the game in this file: .sgf, .psq or a move string."""
    moves: str | None = None
    """Go on after these moves, such as h8i9j10."""
    save: pathlib.Path | None = None
    """Write the game at the end, whatever the end is: .sgf, .psq or .txt."""
    seed: int | None = None
    """Of players that draw: random, tactical, mcts (by default 0), and of the stones that an agent places in
    an opening (by default others each time)."""
    color: bool = True
    """Colours, where the terminal has them; --no-color or the variable NO_COLOR for a plain board."""


def sides(arguments: Arguments) -> dict[int, str]:
    """Who plays each colour, from what was said of one or none."""
    black, white = arguments.black, arguments.white
    if black is None and white is None:
        black, white = HUMAN, AGENT
    other = {HUMAN: AGENT}
    black = black or other.get(white or "", HUMAN)
    white = white or other.get(black, HUMAN)
    return {1: black, -1: white}


def check(arguments: Arguments) -> None:
    """Finds what cannot be before any work. Raises ValueError."""
    if not 0 <= arguments.delay <= MAX_DELAY:
        raise ValueError(f"--delay {arguments.delay}: from 0 to {MAX_DELAY:.0f} seconds")
    if arguments.load is not None and arguments.moves is not None:
        raise ValueError("--load and --moves: give one of them")
    if arguments.opening_rule is not None and arguments.load is not None:
        raise ValueError(f"--opening-rule {arguments.opening_rule}: for a new game, not with --load")
    if arguments.opening_rule in SWAPS and arguments.moves is not None:
        raise ValueError(
            f"--opening-rule {arguments.opening_rule}: for a new game, not together with --moves"
        )
    if arguments.seed is not None and not 0 <= arguments.seed < 2**32:
        raise ValueError(f"--seed {arguments.seed}: from 0 to {2**32 - 1}")
    if arguments.save is not None:
        file_format(arguments.save)
        if not arguments.save.parent.is_dir():
            raise ValueError(f"--save {arguments.save}: there is no folder {arguments.save.parent}")


def make_limit(arguments: Arguments) -> Limit:
    """How long agents think."""
    simulations = arguments.simulations
    if simulations is None and arguments.seconds is None:
        simulations = DEFAULT_SIMULATIONS
    return Limit(simulations, arguments.seconds)


def asked_board(arguments: Arguments) -> Gomoku | None:
    """The board of the command line; None where there is none."""
    return None if arguments.board is None else parse_board(arguments.board, arguments.rule or "freestyle")


def load_file(arguments: Arguments, board: Gomoku | None) -> GameFile | None:
    """The game to go on with. Raises ValueError where it does not read or is of another board."""
    if arguments.load is None:
        return None
    data = arguments.load.read_bytes()
    try:
        file = read_game(data, board)
        if board is None and arguments.rule is not None:
            board = dataclasses.replace(file.game, rule=arguments.rule)
            file = read_game(data, board)  # where the file does not tell the rule
    except GameFileError as error:
        raise ValueError(f"{arguments.load}: {error}") from None
    if board is not None and file.game != board:
        raise ValueError(f"{arguments.load} is a game on {file.game}, not on {board}")
    return file


def given_moves(arguments: Arguments, board: Gomoku) -> tuple[int, ...]:
    """The moves of --moves. Raises ValueError where they cannot be played."""
    try:
        return read_moves(arguments.moves or "", board).moves
    except GameFileError as error:
        raise ValueError(f"--moves: {error}") from None


def spec_board(specs: dict[int, str]) -> Gomoku | None:
    """The board of the first agent that is named as a player; None where there is none."""
    for spec in specs.values():
        if spec not in (HUMAN, AGENT) and not spec.startswith(ENGINE_PREFIX):
            agent = parse_player(spec).agent
            if agent is not None:
                return agent.game
    return None


def make_player(
    spec: str, choice: Choice | None, game: Gomoku, limit: Limit, seed: int | None
) -> HostPlayer | None:
    """Who plays a side; None is a person."""
    if spec == HUMAN:
        return None
    if spec == AGENT:
        assert choice is not None
        return AgentPlayer(Thinker(choice.agent, game), limit, f"agent {choice.name}", seed)
    return make_opponent(spec, game, limit, seed)


def make_session(arguments: Arguments) -> Session:
    """Everything that a game needs.

    Raises:
        AgentError, ValueError, OSError: it cannot be played so.
    """
    check(arguments)
    limit, specs = make_limit(arguments), sides(arguments)
    console = make_console(arguments.color)
    board = asked_board(arguments)
    file = load_file(arguments, board)
    board = file.game if file else board
    if board is None and arguments.agent is None:
        board = spec_board(specs)
    if board is not None and arguments.board is None and file is None and arguments.rule is not None:
        board = dataclasses.replace(board, rule=arguments.rule)
    choice: Choice | None = None
    reason = ""
    # Hints need an agent too, but a person can do without.
    if AGENT in specs.values() or arguments.agent is not None or board is None:
        choice = choose(arguments.agent, board)
        if board is None and arguments.rule is not None:
            choice = choose(arguments.agent, dataclasses.replace(choice.game, rule=arguments.rule))
        board = choice.game
    elif HUMAN in specs.values():
        try:
            choice = choose(None, board)
        except AgentError as error:
            reason = str(error)
    opening = None
    if arguments.opening_rule in SWAPS:
        board = dataclasses.replace(board, opening="free")
        opening = SwapOpening(board, arguments.opening_rule)
    elif arguments.opening_rule is not None:
        board = dataclasses.replace(board, opening=arguments.opening_rule)
    moves = file.moves if file else given_moves(arguments, board)
    players = {
        color: make_player(spec, choice, board, limit, arguments.seed) for color, spec in specs.items()
    }

    for player in players.values():
        if opening is not None and player is not None:
            if player.opener is None:
                raise ValueError(f"--opening-rule {opening.swap}: {player.name} takes no part in it")
            player.opener.check(opening.swap)

    def thinker() -> Thinker:
        if choice is None:
            raise AgentError(reason)
        return Thinker(choice.agent, board)

    advice = Limit(limit.simulations or DEFAULT_SIMULATIONS, limit.seconds)
    adviser = Adviser(f"agent {choice.name}" if choice else "the agent", thinker, advice)
    session = Session(GameRecord(board, moves), players, console, adviser, arguments.delay, file, opening)
    if choice is not None and AGENT in specs.values():
        session.say(choice.reason)
    elif choice is not None and HUMAN in specs.values():
        session.say(f"for hints, {choice.reason}")
    session.say(f"{board}. Black: {_shown(players[1])}. White: {_shown(players[-1])}.")
    for warning in file.warnings if file else ():
        session.say(f"warning: {arguments.load}: {warning}")
    if HUMAN in specs.values() and opening is None:
        session.say("Type a move such as h8, or help.")
    return session


def _shown(player: HostPlayer | None) -> str:
    return "human" if player is None else player.name


def play(arguments: Arguments, session: Session) -> int:
    """Plays the game; whatever ends it, nothing of it is lost."""
    status = 0
    try:
        session.run()
    except (EndOfInput, Quit):
        pass
    except KeyboardInterrupt:
        session.console.print("\ninterrupted")
        status = 130
    finally:
        for player in session.players.values():
            if player is not None:
                with contextlib.suppress(Exception):
                    player.close()
    if arguments.save is not None:
        try:
            session.save(arguments.save, replace=True)
            session.say(f"saved: {arguments.save}")
        except (OSError, ValueError) as error:
            print(f"error: {arguments.save} was not written: {error}", file=sys.stderr)
            status = status or 1
    if not session.over and session.record.moves:
        specs = {color: shlex.quote(spec) for color, spec in sides(arguments).items()}
        if session.exchanged:
            specs = {-color: spec for color, spec in specs.items()}
        names = ("agent", "simulations", "seconds")
        given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
        options = "".join(f" --{name} {shlex.quote(str(value))}" for name, value in given.items())
        session.say(session.how_to_go_on(specs, options), wrap=False)
    return status


def may_replace(path: pathlib.Path | None) -> bool:
    """Whether the file of --save may be written at the end: new, or the person says so.

    Raises:
        ValueError: it is there, and nobody can be asked.
    """
    if path is None or not path.exists():
        return True
    if path.is_dir():
        raise ValueError(f"--save {path} is a folder")
    if not is_interactive():
        raise ValueError(f"--save {path}: the file is there; give another name")
    return read_line(f"{path} is there: replace it at the end? yes or no: ").strip().lower() in ("y", "yes")


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    arguments = tyro.cli(Arguments, args=argv, description=__doc__, prog="gomoku-jax play")
    if is_interactive():
        with contextlib.suppress(ImportError):
            importlib.import_module("readline")  # which gives input() its history and editing
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):  # a letter too strange is no reason to stop
            stream.reconfigure(errors="replace")
    try:
        if not may_replace(arguments.save):
            return 0
        use_compilation_cache()
        session = make_session(arguments)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except (AgentError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except EndOfInput:
        return 0
    return play(arguments, session)
