# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps on a real Dask scheduler with workers that are processes."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paceline
import pytest
from conftest import DESIGN, lines
from distributed import Client


class Cluster:
    """A scheduler, and workers that come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.file = folder / "scheduler.json"
        self.start("dask_scheduler", "--port", "0", "--no-dashboard", "--host", "127.0.0.1")
        deadline = time.monotonic() + 60
        while not self.file.exists():
            assert time.monotonic() < deadline, "the scheduler does not start"
            time.sleep(0.05)

    def start(self, program: str, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        log = open(self.folder / f"{program}-{len(self.processes)}.log", "wb")
        command = [sys.executable, "-m", f"distributed.cli.{program}", "--scheduler-file", str(self.file), *words]
        # Each has a folder of its own: nothing is shared.
        own = self.folder / f"process-{len(self.processes)}"
        own.mkdir()
        process = subprocess.Popen(command, cwd=own, stdout=log, stderr=log, env={**os.environ, **environment})
        self.processes.append(process)
        return process

    def worker(self, **environment: str) -> subprocess.Popen[bytes]:
        return self.start("dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard", **environment)

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def cluster(folder: Path) -> Iterator[Cluster]:
    it = Cluster(folder)
    yield it
    it.stop()


def test_a_cluster_has_the_results_of_one_machine_bit_for_bit(cluster: Cluster, folder: Path) -> None:
    local = paceline.sweep(DESIGN, results="local")
    for _ in range(2):
        cluster.worker()
    with Client(scheduler_file=str(cluster.file)) as client:
        client.wait_for_workers(2)
        done: list[int] = []
        swept = paceline.sweep(DESIGN, results="cluster", client=client, progress=lambda at, of: done.append(at))
    assert lines(folder / "cluster") == lines(folder / "local") and done[-1] == 60
    assert swept.findings == local.findings


def test_a_search_on_a_cluster_finds_what_one_machine_finds(cluster: Cluster, folder: Path) -> None:
    def tuned(**where: Any) -> paceline.Found:
        knobs = {"slice": {"from": "1ms", "to": "50ms", "scale": "log"}}
        return paceline.tune("flsched", "plain-2", "pulses-8", knobs, objective="p99:pulse", **where)

    here = tuned(results="local")
    for _ in range(2):
        cluster.worker()
    with Client(scheduler_file=str(cluster.file)) as client:
        client.wait_for_workers(2)
        done: list[int] = []
        there = tuned(results="cluster", client=client, progress=lambda at, of: done.append(at))
        assert tuned(results="cluster", client=client) == there, "all is known"
    assert there == here and there.best is not None
    assert lines(folder / "cluster") == lines(folder / "local") and len(done) == len(lines(folder / "local")) - 1


def test_figures_of_a_paper_on_a_cluster_are_those_of_one_machine(cluster: Cluster, folder: Path) -> None:
    names = ["tlb-all-1", "time-chat", "slack-least", "wait-six-one-cpu-1"]
    local = paceline.repro("cas", names, quick=True, results="local")
    for _ in range(2):
        cluster.worker()
    with Client(scheduler_file=str(cluster.file)) as client:
        client.wait_for_workers(2)
        done: list[int] = []
        figures = paceline.repro(
            "cas", names, quick=True, results="cluster", client=client, progress=lambda at, of: done.append(at)
        ).figures
        assert len(done) >= 2, "figures that share no runs are measured apart"
        paceline.repro("cas", names, quick=True, results="cluster", client=client, progress=lambda *_: done.append(0))
    assert 0 not in done, "all is known"
    assert lines(folder / "cluster") == lines(folder / "local")
    assert figures.equals(local.figures)
    figures = figures.set_index("name")
    assert all(figures["holds"][name] for name in names[:3])
    assert figures["holds"][names[3]] is None and "repro` measures it" in figures["why"][names[3]]


def test_workers_that_are_killed_lose_and_repeat_no_result(cluster: Cluster, folder: Path) -> None:
    paceline.sweep(DESIGN, results="local")
    workers = [cluster.worker(), cluster.worker()]
    with Client(scheduler_file=str(cluster.file)) as client:
        client.wait_for_workers(2)

        def step(done: int, of: int) -> None:
            if done in (5, 25, 45):
                worker = workers.pop(0)
                worker.send_signal(signal.SIGKILL)
                worker.wait()
                workers.append(cluster.worker())

        paceline.sweep(DESIGN, results="cluster", client=client, progress=step)
    assert lines(folder / "cluster") == lines(folder / "local")


def test_a_worker_with_another_build_is_refused(cluster: Cluster, folder: Path) -> None:
    """Bytes behind a library's end change nothing of it but its digest."""
    package = Path(paceline.__file__).parent
    other = folder / "other" / "paceline"
    shutil.copytree(package, other)
    shutil.copytree(package.parent / "paceline.libs", other.parent / "paceline.libs")
    library = next(other.glob("_paceline*.so"))
    with open(library, "ab") as file:
        file.write(b"another build")
    cluster.worker()
    cluster.worker(PYTHONPATH=str(other.parent))
    with Client(scheduler_file=str(cluster.file)) as client:
        client.wait_for_workers(2)
        with pytest.raises(paceline.InputError, match="1 workers run another build of paceline"):
            paceline.sweep(DESIGN, results="cluster", client=client)
    assert len(lines(folder / "cluster")) == 1, "no result is kept"


def test_a_cluster_without_workers_is_told_of(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    from paceline import _cluster

    monkeypatch.setattr(_cluster, "WORKERS_S", 0.5)
    with Client(scheduler_file=str(cluster.file)) as client:
        for _ in range(2):
            with pytest.raises(paceline.RunError, match="the cluster has no workers; start some"):
                paceline.repro("cas", "tlb-all-1", quick=True, results="figures", client=client)


def test_a_run_that_cannot_be_done_is_the_clients_error(cluster: Cluster, folder: Path) -> None:
    (folder / "bound.json").write_text('{"tasks": {"one": {"loop": 1, "run": 1000, "cpus": [7]}}}')
    cluster.worker()
    with Client(scheduler_file=str(cluster.file)) as client:
        client.wait_for_workers(1)
        with pytest.raises(paceline.InputError, match="may run on none of the machine's CPUs"):
            paceline.sweep({"policy": "default", "machine": "plain-2", "workload": "bound.json"}, client=client)


def test_a_cluster_that_loses_all_its_workers_goes_on_with_new_ones(cluster: Cluster, folder: Path) -> None:
    """What had been sent to them is lost as well."""
    paceline.sweep(DESIGN, results="local")
    worker = cluster.worker()
    with Client(scheduler_file=str(cluster.file)) as client:
        client.wait_for_workers(1)

        def step(done: int, of: int) -> None:
            if done == 10:
                worker.send_signal(signal.SIGKILL)
                worker.wait()
                cluster.worker()

        paceline.sweep(DESIGN, results="cluster", client=client, progress=step)
    assert lines(folder / "cluster") == lines(folder / "local")


def test_a_batch_that_is_late_is_done_twice_and_kept_once(
    cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paceline import _cluster

    monkeypatch.setattr(_cluster, "STRAGGLES", 0.0)
    monkeypatch.setattr(_cluster, "STRAGGLES_S", 0.0)
    for _ in range(2):
        cluster.worker()
    slow = {"policy": "default", "machine": "numa-2x4", "workload": ["agree-1", "hackbench -g 2 -l 1500"], "seeds": 10}
    with Client(scheduler_file=str(cluster.file)) as client:
        client.wait_for_workers(2)
        paceline.sweep(slow, results="cluster", client=client)
    paceline.sweep(slow, results="local")
    assert lines(folder / "cluster") == lines(folder / "local")


def test_a_file_in_a_workers_folder_is_not_taken_for_a_workload(cluster: Cluster, folder: Path) -> None:
    design = {"policy": ["default", "cas"], "machine": "core2duo-1.86", "workload": "chat", "seeds": 1}
    local = paceline.sweep(design)
    cluster.worker()
    (folder / "process-1" / "chat").write_text((folder / "own.json").read_text())
    with Client(scheduler_file=str(cluster.file)) as client:
        client.wait_for_workers(1)
        assert paceline.sweep(design, client=client).findings == local.findings
