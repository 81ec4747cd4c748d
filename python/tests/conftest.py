# SPDX-License-Identifier: GPL-2.0-only
"""What several tests need."""

from pathlib import Path

import pytest

#: A sweep of 60 different runs, some 10 ms each.
DESIGN = {
    "policy": ["default", "flsched"],
    "machine": "numa-2x4",
    "workload": ["pulses-8", "own.json"],
    "seeds": 10,
    "knobs": {"flsched": {"slice": ["2ms", "20ms"]}},
}
LOAD = '{"tasks": {"one": {"loop": 50, "run": 1000, "sleep": 100}}}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which the test runs, with the design's own workload."""
    (tmp_path / "own.json").write_text(LOAD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(results: Path) -> list[str]:
    """All results of a file, in any order of runs."""
    return sorted(results.read_text().splitlines())
