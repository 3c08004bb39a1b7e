"""Threads for everything that takes time, so that the event loop never waits."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import jax

T = TypeVar("T")
NUM_QUICK = 2  # each of their jobs already uses several cores
NUM_SLOW = 2
MAX_ONCE = 24  # fewer than the compiled searches that `ResumableSearch` keeps
Key = tuple[Any, ...]


class Workers:
    """Two pools: one for short jobs, first come, first served; one for loading, compiling and the like.

    Whoever has one short job at a time gets turns in fairness with all others.
    """

    def __init__(self):
        self._quick = ThreadPoolExecutor(NUM_QUICK, "quick")
        self._slow = ThreadPoolExecutor(NUM_SLOW, "slow")
        self._once: dict[Any, dict[Key, asyncio.Task]] = {}  # by kind

    async def quick(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs a short job."""
        return await asyncio.get_running_loop().run_in_executor(self._quick, function, *arguments)

    async def slow(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs a long job."""
        return await asyncio.get_running_loop().run_in_executor(self._slow, function, *arguments)

    def is_begun(self, key: Key) -> bool:
        """Whether `once` does this now, or has done it."""
        task = self._once.get(key[0], {}).get(key)
        return task is not None and (not task.done() or self.is_done(key))

    def is_done(self, key: Key) -> bool:
        """Whether what `once` does under this key has been done."""
        task = self._once.get(key[0], {}).get(key)
        return task is not None and task.done() and not task.cancelled() and task.exception() is None

    async def once(self, key: Key, function: Callable[..., Any], *arguments: Any) -> None:
        """Runs a long job that only the first who asks has to wait for; it goes on if they go away.

        A job that failed is tried again by the next who asks. A process keeps all that it has compiled, some
        10 MB for each board: after `MAX_ONCE` jobs of a kind, which is the key's first part, all is dropped.
        """
        of_kind = self._once.setdefault(key[0], {})
        if self.is_begun(key):
            task = of_kind[key]
        else:
            if len(of_kind) >= MAX_ONCE:
                function = _after_clearing(function)
                for tasks in self._once.values():
                    for other in [other for other, task in tasks.items() if task.done()]:
                        del tasks[other]
            task = of_kind[key] = asyncio.ensure_future(self.slow(function, *arguments))
            task.add_done_callback(_retrieve)
        await asyncio.shield(task)

    def close(self) -> None:
        """Takes no more jobs, drops those that wait, and does not wait for those that run."""
        for pool in (self._quick, self._slow):
            pool.shutdown(wait=False, cancel_futures=True)

    def busy(self, seconds: float) -> bool:
        """After `close`: whether a job still runs after waiting this long."""
        threads: list[threading.Thread] = [*self._quick._threads, *self._slow._threads]
        for thread in threads:
            thread.join(seconds / len(threads))
        return any(thread.is_alive() for thread in threads)


def _after_clearing(function: Callable[..., T]) -> Callable[..., T]:
    def clear_and_run(*arguments: Any) -> T:
        jax.clear_caches()  # what still runs compiles again
        return function(*arguments)

    return clear_and_run


def _retrieve(task: asyncio.Task) -> None:
    """Looks at an exception that nobody waits for, or asyncio complains."""
    if not task.cancelled():
        task.exception()
