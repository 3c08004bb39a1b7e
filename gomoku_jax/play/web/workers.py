"""Threads for everything that takes time, so that the event loop never waits."""

import asyncio
import collections
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
NUM_QUICK = 2  # each of their jobs already uses several cores
NUM_SLOW = 2
MAX_ONCE = 16  # fewer than the compiled searches that are kept, see `ResumableSearch`
Key = tuple[Any, ...]


class Workers:
    """Two pools: one for short jobs, first come, first served; one for loading, compiling and the like.

    Whoever has one short job at a time gets turns in fairness with all others.
    """

    def __init__(self):
        self._quick = ThreadPoolExecutor(NUM_QUICK, "quick")
        self._slow = ThreadPoolExecutor(NUM_SLOW, "slow")
        self._once: dict[Any, collections.OrderedDict[Key, asyncio.Task]] = {}  # by kind

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

        A job that failed is tried again by the next who asks. Of each kind, which is the key's first part,
        the last `MAX_ONCE` are remembered.
        """
        of_kind = self._once.setdefault(key[0], collections.OrderedDict())
        if self.is_begun(key):
            task = of_kind[key]
        else:
            task = of_kind[key] = asyncio.ensure_future(self.slow(function, *arguments))
            task.add_done_callback(_retrieve)
            while len(of_kind) > MAX_ONCE:
                of_kind.popitem(last=False)
        of_kind.move_to_end(key)
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


def _retrieve(task: asyncio.Task) -> None:
    """Looks at an exception that nobody waits for, or asyncio complains."""
    if not task.cancelled():
        task.exception()
