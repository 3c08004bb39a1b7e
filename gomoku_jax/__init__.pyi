from . import game as game
from . import rating as rating
from . import suites as suites
from .agent import Agent as Agent
from .agent import load_agent as load_agent
from .agent import shipped_agents as shipped_agents
from .arena import MatchResult as MatchResult
from .arena import play_match as play_match
from .checkpoint import load_checkpoint as load_checkpoint
from .config import NetworkConfig as NetworkConfig
from .config import SearchConfig as SearchConfig
from .config import TrainConfig as TrainConfig
from .game import Gomoku as Gomoku
from .game import IllegalMoveError as IllegalMoveError
from .game import State as State
from .game import replay_moves as replay_moves
from .network import NetworkOutput as NetworkOutput
from .network import apply_network as apply_network
from .network import init_network as init_network
from .players import mcts_player as mcts_player
from .players import policy_player as policy_player
from .players import random_player as random_player
from .players import search_player as search_player
from .players import tactical_player as tactical_player
from .players import vcf_player as vcf_player
from .presets import PRESETS as PRESETS
from .published import load_published as load_published
from .search import ResumableSearch as ResumableSearch
from .search import SearchOutput as SearchOutput
from .search import SearchSummary as SearchSummary
from .search import anytime_search as anytime_search
from .search import search as search
from .train import train as train

__version__: str
__all__: list[str]
