# SPDX-License-Identifier: GPL-2.0-only
"""A sweep on a Dask cluster.

A task is a batch of runs, and a pure function of them, of the contents of the files that they name, and of the build of
this package. So it can be done anywhere, twice, and again: the results are the same. The client alone writes results.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from . import _paceline
from ._calls import _scratch, _session
from ._paceline import InputError, RunError

#: A batch takes about this long, s: much longer than Dask takes for a task, and short enough to spread and to repeat.
BATCH_S = 0.5
#: Batches that a worker's thread has waiting.
WAITING = 2
#: A batch that takes so many times the median, and at least so long, is done a second time elsewhere.
STRAGGLES = 5.0
STRAGGLES_S = 10.0
#: A batch may lose so many workers. Then it is likely what kills them.
LOSSES = 10


@cache
def _program() -> str:
    return _paceline.program(_paceline.__file__)


def _done(program: str, contents: Mapping[str, bytes], runs: list[str]) -> tuple[list[str], float]:
    """Do a batch, on a worker. Returns what came of each run, and how long all took."""
    if program != _program():
        raise InputError(
            f"this worker runs another build of paceline ({_program()[:8]}) than the client ({program[:8]}); "
            "install the same wheel on all"
        )
    folder = Path(_scratch())
    for digest, data in contents.items():
        path = folder / digest
        if not path.exists():
            beside = folder / f"{digest}.{os.getpid()}.{time.monotonic_ns()}"
            beside.write_bytes(data)
            beside.replace(path)
    begun = time.monotonic()
    came = [_session().done(run, folder) for run in runs]
    return came, time.monotonic() - begun


def _same_build(program: str) -> str:
    return "" if program == _program() else _program()


def perform(native: _paceline.Sweep, client: Any, step: Callable[[int, int], object]) -> None:
    """Have a cluster do what is missing of a sweep, and keep each result."""
    from distributed import as_completed

    left = native.missing()
    if not left:
        return
    program = native.program
    others = {address: build for address, build in client.run(_same_build, program).items() if build}
    if others:
        raise InputError(
            f"{len(others)} workers run another build of paceline than this client, such as {next(iter(others))}; "
            "install the same wheel on all"
        )
    contents = native.contents()
    sent = client.scatter(contents, broadcast=True) if contents else {}
    batches = _Batches(left)
    pending: dict[Any, _Task] = {}
    completed = as_completed(with_results=False, raise_errors=False)
    losses: dict[int, int] = {}
    finished: set[int] = set()
    repeated: set[int] = set()
    done = 0

    def submit(number: int, batch: list[tuple[str, str]], copy: int = 0) -> None:
        runs = [run for _, run in batch]
        digest = hashlib.sha256("".join(key for key, _ in batch).encode()).hexdigest()[:32]
        future = client.submit(_done, program, sent, runs, key=f"paceline-{digest}-{copy}", pure=True)
        pending[future] = _Task(number, batch, time.monotonic())
        completed.add(future)

    def threads() -> int:
        return max(1, sum(client.nthreads().values()))

    def fill() -> None:
        most = (1 + WAITING) * threads()
        while len(pending) < most and (taken := batches.take()) is not None:
            submit(*taken)

    fill()
    try:
        while pending:
            future = _next(completed)
            if future is None:
                # Batches that wait for a thread do not straggle: only where all run can one be late.
                if len(pending) <= threads():
                    for task in list(pending.values()):
                        if task.number not in repeated and time.monotonic() - task.begun > batches.straggles_s():
                            repeated.add(task.number)
                            submit(task.number, task.batch, copy=-1)
                continue
            # The late copy of a batch that is done comes as well.
            if future not in pending:
                continue
            task = pending.pop(future)
            if task.number in finished:
                continue
            error = future.exception() if future.status == "error" else None
            if error is not None and type(error).__name__ != "KilledWorker":
                raise error
            if future.status != "finished":
                # Its workers are lost, or what had been sent to them.
                losses[task.number] = losses.get(task.number, 0) + 1
                if losses[task.number] >= LOSSES:
                    lost = f"{LOSSES} times a worker was lost with the same runs, such as {task.batch[0][1]}"
                    raise RunError(lost) from error
                if client.status != "running":
                    raise RunError("the cluster is gone; the same call goes on with what is missing")
                client.wait_for_workers(1)
                sent = client.scatter(contents, broadcast=True, hash=False) if contents else {}
                submit(task.number, task.batch, copy=losses[task.number])
                continue
            came, took = future.result()
            finished.add(task.number)
            batches.took(len(task.batch), took)
            for (key, run), one in zip(task.batch, came, strict=True):
                if native.put(key, run, one):
                    done += 1
                    step(done, len(left))
            for other, same in list(pending.items()):
                if same.number == task.number:
                    pending.pop(other)
                    other.cancel()
            fill()
    finally:
        for future in pending:
            future.cancel()


class _Task(NamedTuple):
    """A batch that was sent."""

    number: int
    batch: list[tuple[str, str]]
    begun: float


def _next(completed: Any) -> Any:
    """The next future that is done. None: there was none for a second."""
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        if completed.has_ready():
            return next(completed)
        time.sleep(0.002)
    return None


class _Batches:
    """Runs in batches of about the same time."""

    def __init__(self, left: list[tuple[str, str]]) -> None:
        self._left = left
        self._at = 0
        self._number = 0
        self._size = 1
        self._each_s: float | None = None
        self._times: list[float] = []

    def take(self) -> tuple[int, list[tuple[str, str]]] | None:
        """The next batch with its number. None: there is none."""
        if self._at >= len(self._left):
            return None
        # Until the first is back, it is not known how long a run takes.
        size = 1 if self._each_s is None else max(1, int(BATCH_S / max(self._each_s, 1e-6)))
        # The next runs may take much longer than the last.
        size = self._size = min(size, 2 * self._size)
        batch = self._left[self._at : self._at + size]
        self._at += len(batch)
        self._number += 1
        return self._number, batch

    def took(self, runs: int, seconds: float) -> None:
        """So many runs took so long."""
        each = seconds / runs
        self._each_s = each if self._each_s is None else 0.8 * self._each_s + 0.2 * each
        self._times.append(seconds)
        del self._times[:-200]

    def straggles_s(self) -> float:
        """A batch that takes longer is done elsewhere, too."""
        if len(self._times) < 5:
            return float("inf")
        return max(STRAGGLES_S, STRAGGLES * statistics.median(self._times))
