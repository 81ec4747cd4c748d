# SPDX-License-Identifier: GPL-2.0-only
"""A sweep on a Dask cluster.

A task is a batch of runs, and a pure function of them, of the contents of the files that they name, and of the build of
this package. So it can be done anywhere, twice, and again: the results are the same. The client alone writes results.
"""

from __future__ import annotations

import hashlib
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
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
#: A cluster without workers is waited for so long.
WORKERS_S = 30.0
#: A batch may lose so many workers. Then it is likely what kills them.
LOSSES = 10


@cache
def _program() -> str:
    return _paceline.program(_paceline.__file__)


def _run(run: str, folder: Path) -> str:
    return _session().done(run, folder)


def _figures(job: str, folder: Path) -> str:
    return _paceline.figures_of(job)


def _done(
    program: str, work: Callable[[str, Path], str], contents: Mapping[str, bytes], runs: list[str]
) -> tuple[list[str], float]:
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
    came = [work(run, folder) for run in runs]
    return came, time.monotonic() - begun


def _same_build(program: str) -> str:
    return "" if program == _program() else _program()


class Cluster:
    """A cluster that does runs of a sweep, or measures figures."""

    def __init__(self, native: _paceline.Sweep | _paceline.Figures, client: Any) -> None:
        self._are_runs = isinstance(native, _paceline.Sweep)
        self._work = _run if self._are_runs else _figures
        self._program = native.program
        self._contents = native.contents()
        self._client = client
        self._sent: Any = None
        # A job of figures may take an hour: it is no part of a batch.
        self._batches = _Batches(None if self._are_runs else 1)

    def done(self, left: list[tuple[str, str]]) -> Iterator[tuple[int, str]]:
        """Do runs, of each its key and itself. Yield the number of each with what came of it, as they come."""
        from distributed import as_completed

        if self._sent is None:
            self._check()
            self._send()
        batches = self._batches
        batches.begin(len(left), self._threads())
        pending: dict[Any, _Task] = {}
        completed = as_completed(with_results=False, raise_errors=False)
        losses: dict[int, int] = {}
        finished: set[int] = set()
        repeated: set[int] = set()

        def submit(batch: range, copy: int = 0) -> None:
            runs = [left[at][1] for at in batch]
            digest = hashlib.sha256("".join(left[at][0] for at in batch).encode()).hexdigest()[:32]
            key = f"paceline-{digest}-{copy}"
            future = self._client.submit(_done, self._program, self._work, self._sent, runs, key=key, pure=True)
            pending[future] = _Task(batch, time.monotonic())
            completed.add(future)

        def fill() -> None:
            most = (1 + WAITING) * self._threads()
            while len(pending) < most and (batch := batches.take()):
                submit(batch)

        fill()
        try:
            while pending:
                future = _next(completed)
                if future is None:
                    # Batches that wait for a thread do not straggle: only where all run can one be late.
                    # Jobs of figures take from a second to an hour, so that none is late.
                    if self._are_runs and len(pending) <= self._threads():
                        for task in list(pending.values()):
                            if task.number not in repeated and time.monotonic() - task.begun > batches.straggles_s():
                                repeated.add(task.number)
                                submit(task.batch, copy=-1)
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
                        lost = f"{LOSSES} times a worker was lost with the same runs, such as {left[task.number][1]}"
                        raise RunError(lost) from error
                    if self._client.status != "running":
                        raise RunError("the cluster is gone; the same call goes on with what is missing")
                    self._client.wait_for_workers(1)
                    self._send()
                    submit(task.batch, copy=losses[task.number])
                    continue
                came, took = future.result()
                finished.add(task.number)
                batches.took(len(task.batch), took)
                for other, same in list(pending.items()):
                    if same.number == task.number:
                        pending.pop(other)
                        other.cancel()
                fill()
                yield from zip(task.batch, came, strict=True)
        finally:
            for future in pending:
                future.cancel()

    def _check(self) -> None:
        """Refuse workers with another build, and a cluster without any."""
        try:
            self._client.wait_for_workers(1, timeout=WORKERS_S)
        except TimeoutError:
            raise RunError("the cluster has no workers; start some, and call again") from None
        builds = self._client.run(_same_build, self._program).items()
        others = {address: build for address, build in builds if build}
        if others:
            raise InputError(
                f"{len(others)} workers run another build of paceline than this client, such as {next(iter(others))}; "
                "install the same wheel on all"
            )

    def _send(self) -> None:
        """Give the workers the contents of files that runs need."""
        # Under a new name each time: what is lost on one worker may be thought to be there.
        self._sent = self._client.scatter(self._contents, broadcast=True, hash=False) if self._contents else {}

    def _threads(self) -> int:
        return max(1, sum(self._client.nthreads().values()))


class _Task(NamedTuple):
    """A batch that was sent."""

    #: Numbers of its runs.
    batch: range
    begun: float

    @property
    def number(self) -> int:
        """The number of its first run, which names it."""
        return self.batch.start


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

    def __init__(self, size: int | None) -> None:
        """``size``: runs of a batch; None: as many as take about as long."""
        self._fixed = size
        self._left = range(0)
        self._most = 1
        self._size = 1
        self._each_s: float | None = None
        self._times: list[float] = []

    def begin(self, runs: int, threads: int) -> None:
        """From here on batches are of so many new runs, which take about as long as those before."""
        self._left = range(runs)
        self._most = math.ceil(runs / threads)

    def take(self) -> range:
        """The next batch, as numbers of its runs; it is empty when there is none."""
        # Until the first is back, it is not known how long a run takes.
        size = 1 if self._each_s is None else max(1, int(BATCH_S / max(self._each_s, 1e-6)))
        # The next runs may take much longer than the last.
        size = self._size = self._fixed or min(size, 2 * self._size, self._most)
        batch, self._left = self._left[:size], self._left[size:]
        return batch

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
