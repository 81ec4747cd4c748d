# SPDX-License-Identifier: GPL-2.0-only
"""Simulations, comparisons, sweeps and searches."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import paceline
import pandas
import pytest
from conftest import DESIGN, lines


def test_a_simulation_is_repeatable_and_tells_its_figures() -> None:
    machine = paceline.Machine("numa-2x4")
    one = paceline.simulate(machine, "pulses-8", "flsched:slice=20ms")
    again = paceline.simulate(machine, "pulses-8", "flsched:slice=20ms")
    assert one == again and machine.cpus == 8
    assert one.policy == "flsched:slice=20ms" and 0 < one.wait_p99_s < one.elapsed_s == 1.0
    assert list(one.programs.index) == ["hog", "launcher", "pulse"]
    assert one != paceline.simulate(machine, "pulses-8", "flsched:slice=20ms", seed=2)


def test_it_says_what_the_command_says(folder: Path) -> None:
    program = os.environ.get("PACELINE")
    if program is None:
        pytest.skip("PACELINE does not name the program")
    words = "compare --on sim --policy cas --workload pulses-8 --seed 3 --json".split()
    printed = json.loads(subprocess.run([program, *words], capture_output=True, check=True).stdout)
    own = paceline.simulate("numa-2x4", "pulses-8", "cas", seed=3)
    assert own.elapsed_s == printed["runs"][0]["elapsed_s"]
    assert own.switches == printed["runs"][0]["context_switches"]
    refused = subprocess.run([program, "compare", "--on", "sim", "--policy", "csa"], capture_output=True, text=True)
    with pytest.raises(paceline.InputError) as error:
        paceline.simulate("numa-2x4", "pulses-8", "csa")
    assert refused.stderr == f"paceline: {error.value}\n"


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: paceline.Machine("numa-3"), "no machine is called `numa-3`; did you mean numa-2x4"),
        (lambda: paceline.Machine("numa-2x4", {"ipi": 3}), "ipi"),
        (lambda: paceline.Workload("pulses"), "no workload is called `pulses`; did you mean"),
        (lambda: paceline.Workload.from_json({"task": {}}), "task"),
        (lambda: paceline.simulate("numa-2x4", "pulses-8", "flsched:slice=9"), "slice=9: expected a time"),
        (lambda: paceline.simulate("numa-2x4", "pulses-8", limit="long"), "limit: expected a time"),
        (lambda: paceline.simulate("numa-2x4", "pulses-8", limit=-1), "limit: expected a time"),
        (lambda: paceline.simulate("numa-2x4", "pulses-8", pressure=0), "pressure: expected a whole number"),
        (lambda: paceline.simulate("numa-2x4", "pulses-8", seed=-1), "seed: expected a whole number"),
        (lambda: paceline.sweep(DESIGN, jobs=10**9), "jobs: expected a whole number from 1 to 1024"),
        (lambda: paceline.sweep({**DESIGN, "costs": {"ipi_send_ns": float("inf")}}), "cannot have inf"),
        (lambda: paceline.sweep(DESIGN, results="own.json"), "it is a file of the sweep"),
        (lambda: paceline.compare("numa-2x4", "pulses-8", []), "nothing to compare"),
        (lambda: paceline.compare("plain-1", "agree-1", ["default"], objective="fast"), "`fast` cannot be"),
        (lambda: paceline.sweep({"policy": "default"}), "missing field"),
        (lambda: paceline.sweep({**DESIGN, "workload": "pulses-8", "seed": 3}), "unknown field `seed`"),
        (lambda: paceline.sweep({**DESIGN, "seeds": {1, 2}}), "a sweep cannot have {1, 2}"),
        (lambda: paceline.sweep("none.toml"), "cannot read none.toml"),
        (lambda: paceline.tune("flsched", "plain-2", "pulses-8", {}), "no knob is varied"),
    ],
)
def test_a_refusal_says_what_is_wrong(call, why: str, folder: Path) -> None:
    with pytest.raises(paceline.InputError) as error:
        call()
    assert why in str(error.value) and "\n" not in str(error.value)


def test_a_run_that_fails_is_an_error_with_its_reason() -> None:
    with pytest.raises(paceline.RunError, match="has not ended after"):
        paceline.simulate("plain-2", "agree-1", limit="1ms")


def test_a_comparison_is_a_table() -> None:
    compared = paceline.compare("plain-2", "pulses-8", ["default", "flsched"], seeds=3, objective="p99:pulse")
    assert len(compared.runs) == 6 and (compared.runs["gain"][:3] == 1.0).all()
    assert compared.summary.loc["flsched", "gain_max"] < 1.0, "its turns are long"
    assert "flsched" in compared._repr_html_()


def test_a_sweep_keeps_its_results_and_runs_none_twice(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    swept = paceline.sweep(DESIGN, results="kept", progress=lambda done, of: seen.append((done, of)))
    assert len(seen) == 60 and seen[-1] == (60, 60)
    runs = swept.runs
    assert len(runs) == 60 and set(runs["variant"]) == {"default", "flsched:slice=2ms", "flsched:slice=20ms"}
    assert swept.variants.loc["default", "gain"] == 1.0
    assert swept.arrow().num_rows == 60
    kept = lines(folder / "kept")
    again = paceline.sweep(DESIGN, results="kept", jobs=1, progress=lambda *_: pytest.fail("it is known"))
    assert lines(folder / "kept") == kept
    pandas.testing.assert_frame_equal(runs, again.runs)
    swept.report(folder / "it.html")
    assert "flsched" in (folder / "it.html").read_text() and "gain: speed" in str(swept)


def test_what_is_kept_is_not_written_over(folder: Path) -> None:
    swept = paceline.sweep({**DESIGN, "title": "\U0001f600", "seeds": 1}, results="kept")
    for write in (swept.report, swept.csv):
        for path in ("kept", "own.json", "/dev/null", "."):
            with pytest.raises(paceline.InputError, match="name another file"):
                write(path)
    assert len(lines(folder / "kept")) == 7


def test_a_machines_file_is_read_anew(folder: Path) -> None:
    machines = Path(__file__).parents[2] / "machines"
    shutil.copy(machines / "numa-2x4.toml", "mine.toml")
    assert paceline.Machine("mine.toml").cpus == 8
    shutil.copy(machines / "core2duo-1.86.toml", "mine.toml")
    assert paceline.Machine("mine.toml").cpus == 2


def test_a_failed_recorder_returns_no_old_recording(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "paceline"
    program.write_text("#!/bin/sh\necho 'paceline: no root' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (folder / "old.trace").write_text("old")
    with pytest.raises(paceline.RunError, match="no root"):
        paceline.record(["true"], "old.trace")


def test_a_search_finds_a_slice(folder: Path) -> None:
    slices = {"slice": {"from": "1ms", "to": "100ms", "scale": "log"}}
    found = paceline.tune("flsched", "numa-2x4", "pulses-8", slices, objective="p99:pulse")
    assert found.best is not None and found.low > 1.5 and len(found.tried) > 5
    flat = paceline.tune("dino", "plain-2", "agree-1", {"copies": {"from": 1, "to": 1000}})
    assert flat.best is None


def test_other_threads_run_meanwhile() -> None:
    """A call that kept the interpreter to itself would let this thread count nothing."""
    counted, done = 0, threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=count)
    thread.start()
    paceline.simulate("numa-2x4", "hackbench -g 2 -l 300")
    done.set()
    thread.join()
    assert counted > 10


def test_ctrl_c_stops_a_sweep_and_keeps_what_is_done(folder: Path) -> None:
    script = (
        "import os, signal, paceline, conftest\n"
        # A shell's background job ignores it.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "stop = lambda done, of: done == 20 and os.kill(os.getpid(), signal.SIGINT)\n"
        "paceline.sweep(conftest.DESIGN, results='kept', progress=stop)\n"
    )
    search = str(Path(__file__).parent)
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": search}
    )
    assert "KeyboardInterrupt" in ended.stderr, ended.stderr
    assert 20 <= len(lines(folder / "kept")) - 1 < 60
    assert len(paceline.sweep(DESIGN, results="kept").runs) == 60


def test_importing_it_brings_no_heavy_package() -> None:
    heavy = ("pandas", "numpy", "pyarrow", "distributed")
    script = f"import sys, paceline; print([name for name in {heavy} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed == "[]\n"
