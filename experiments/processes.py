"""Work in plain Python shared out over processes."""

import concurrent.futures
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def map_over(work: Callable[[T], R], items: Iterable[T], processes: int) -> Iterator[R]:
    """`map`, in this process or over several new ones; results come in order, each as soon as it is there."""
    if processes == 1:
        yield from map(work, items)
        return
    context = multiprocessing.get_context("spawn")  # a fork would share JAX's threads
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=context) as pool:
        yield from pool.map(work, items)
