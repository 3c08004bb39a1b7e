"""Measures speed and prints tables. Try:

    python experiments/benchmark.py env
    python experiments/benchmark.py rules
    python experiments/benchmark.py vcf --rules renju
    python experiments/benchmark.py net --boards 6x6x4 --kinds conv
    python experiments/benchmark.py search --agent runs/seed0 --simulations 100 400 --json rows.jsonl
    python experiments/benchmark.py selfplay --tutorial ../AlphaZero_Gomoku
    python experiments/benchmark.py train --preset 6x6x4
    python experiments/benchmark.py parallel --preset 6x6x4
    python experiments/benchmark.py --scale
    python experiments/benchmark.py predict --devices h100 h200x8 v5ex16
    python experiments/benchmark.py web --json rows.jsonl
    python experiments/benchmark.py gomocup --games 200

`--scale`, also written `scale`, lays measurements on 1, 2, 4, ... devices beside the estimate; `predict` is
the estimate alone, for devices that are elsewhere. The same commands run on accelerators, with larger default
sizes. `pip install -e '.[bench]'` brings the other programs that some of them measure beside ours.
"""

import sys
from typing import Annotated

import tyro
from rows import append_row, command_line

from benchmarks import (
    env,
    gomocup,
    memory,
    net,
    parallel,
    predict,
    rules,
    scale,
    search,
    selfplay,
    train,
    vcf,
    web,
)
from gomoku_jax.agent import AgentError
from gomoku_jax.metrics import provenance

_RUNS = {
    env.Env: env.run,
    rules.Rules: rules.run,
    vcf.Vcf: vcf.run,
    net.Net: net.run,
    search.Search: search.run,
    selfplay.Selfplay: selfplay.run,
    train.Train: train.run,
    memory.Memory: memory.run,
    parallel.Parallel: parallel.run,
    scale.Scale: scale.run,
    predict.Predict: predict.run,
    web.Web: web.run,
    gomocup.Gomocup: gomocup.run,
}


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if "--scale" in argv:  # the other spelling
        argv = ["scale", *(word for word in argv if word != "--scale")]
    arguments = tyro.cli(
        Annotated[env.Env, tyro.conf.subcommand("env")]
        | Annotated[rules.Rules, tyro.conf.subcommand("rules")]
        | Annotated[vcf.Vcf, tyro.conf.subcommand("vcf")]
        | Annotated[net.Net, tyro.conf.subcommand("net")]
        | Annotated[search.Search, tyro.conf.subcommand("search")]
        | Annotated[selfplay.Selfplay, tyro.conf.subcommand("selfplay")]
        | Annotated[train.Train, tyro.conf.subcommand("train")]
        | Annotated[memory.Memory, tyro.conf.subcommand("memory")]
        | Annotated[parallel.Parallel, tyro.conf.subcommand("parallel")]
        | Annotated[scale.Scale, tyro.conf.subcommand("scale")]
        | Annotated[predict.Predict, tyro.conf.subcommand("predict")]
        | Annotated[web.Web, tyro.conf.subcommand("web")]
        | Annotated[gomocup.Gomocup, tyro.conf.subcommand("gomocup")],
        args=argv,
        description=__doc__,
    )
    target = arguments.json
    try:
        if target is not None and not target.absolute().parent.is_dir():
            raise ValueError(f"--json {target}: no such folder")
        rows = _RUNS[type(arguments)](arguments)
        if target is not None:
            command = command_line("benchmark.py", argv)
            facts = provenance() | {"command": command}
            for row in rows:
                append_row(target, row | facts)
    except (AgentError, ValueError, OSError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
