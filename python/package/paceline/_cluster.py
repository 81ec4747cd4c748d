# SPDX-License-Identifier: GPL-2.0-only
"""A sweep on a Dask cluster.

A task is a batch of runs, and a pure function of them, of the contents of the files that they name, and of the build of
this package. So it can be done anywhere, twice, and again: the results are the same. The client alone writes results.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from . import _paceline
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
def _session() -> _paceline.Session:
    return _paceline.Session()


@cache
def _program() -> str:
    return _paceline.program(_paceline.__file__)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="paceline-")


def _done(program: str, contents: Mapping[str, bytes], runs: list[str]) -> tuple[list[str], float]:
    """Do a batch, on a worker. Returns what came of each run, and how long all took."""
    if program != _program():
        raise InputError(
            f"this worker runs another build of paceline ({_program()[:8]}) than the client ({program[:8]}); "
            "install the same wheel on all"
        )
    folder = Path(_folder().name)
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


def perform(native: _paceline.Sweep, client: Any, step: Callable[[], object]) -> None:
    """Have a cluster do what is missing of a sweep, and keep each result."""
    from distributed import as_completed

    left = native.missing()[1]
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
    batches = _Batches(native, left, step)
    pending: dict[Any, tuple[int, list[tuple[str, str]], float]] = {}
    completed = as_completed(with_results=False, raise_errors=False)

    def submit(number: int, batch: list[tuple[str, str]], copy: int = 0) -> None:
        runs = [run for _, run in batch]
        digest = hashlib.sha256("".join(key for key, _ in batch).encode()).hexdigest()[:32]
        future = client.submit(_done, program, sent, runs, key=f"paceline-{digest}-{copy}", pure=True)
        pending[future] = (number, batch, time.monotonic())
        completed.add(future)

    def fill() -> None:
        threads = max(1, sum(client.nthreads().values()))
        while len(pending) < WAITING * threads + threads:
            taken = batches.take()
            if taken is None:
                return
            submit(*taken)

    losses: dict[int, int] = {}
    finished: set[int] = set()
    repeated: set[int] = set()
    fill()
    try:
        while pending:
            future = _next(completed, client)
            if future is None:
                for number, batch, begun in list(pending.values()):
                    waits = time.monotonic() - begun
                    if number not in repeated and waits > batches.straggles_s():
                        repeated.add(number)
                        submit(number, batch, copy=1)
                continue
            number, batch, _ = pending.pop(future)
            if number in finished or future.status == "cancelled":
                continue
            if future.status == "error":
                error = future.exception()
                if type(error).__name__ != "KilledWorker":
                    raise error
                losses[number] = losses.get(number, 0) + 1
                if losses[number] >= LOSSES:
                    raise RunError(
                        f"{LOSSES} times a worker was lost with the same runs, such as {batch[0][1]}"
                    ) from error
                submit(number, batch, copy=1 + losses[number])
                continue
            came, took = future.result()
            finished.add(number)
            batches.took(len(batch), took)
            for (key, run), one in zip(batch, came, strict=True):
                if native.put(key, run, one):
                    step()
            for other, (same, _, _) in list(pending.items()):
                if same == number:
                    other.cancel()
                    pending.pop(other)
            fill()
    finally:
        for future in pending:
            future.cancel()


def _next(completed: Any, client: Any) -> Any:
    """The next future that is done. None: there was none for a second."""
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        if completed.has_ready():
            return next(completed)
        time.sleep(0.002)
    return None


class _Batches:
    """Runs in batches of about the same time."""

    def __init__(self, native: _paceline.Sweep, left: list[tuple[str, str]], step: Callable[[], object]) -> None:
        self._left = left
        self._at = 0
        self._number = 0
        self._each_s: float | None = None
        self._times: list[float] = []

    def take(self) -> tuple[int, list[tuple[str, str]]] | None:
        """The next batch with its number. None: there is none."""
        if self._at >= len(self._left):
            return None
        # Until the first is back, it is not known how long a run takes.
        size = 1 if self._each_s is None else max(1, int(BATCH_S / max(self._each_s, 1e-6)))
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
