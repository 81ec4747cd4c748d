# SPDX-License-Identifier: GPL-2.0-only
"""What the documentation shows runs."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import paceline
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs/src/guides"


def blocks(page: Path) -> str:
    """All Python of a page."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE))


def test_the_guide_runs_as_a_program(tmp_path: Path) -> None:
    script = "import matplotlib\nmatplotlib.use('Agg')\n" + blocks(GUIDES / "python.md")
    # Not from a file: processes of a LocalCluster would run all of it again.
    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "did you mean numa-2x4?" in ended.stdout and "flsched:slice=" in ended.stdout
    assert "the same as here: True" in ended.stdout
    kept = [sorted((tmp_path / name).read_text().splitlines()) for name in ("slices.results", "cluster.results")]
    assert kept[0] == kept[1] and len(kept[0]) == 41


def test_the_readme_runs(tmp_path: Path) -> None:
    script = blocks(ROOT / "python/README.md")
    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_the_notebook_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(GUIDES / "paceline.ipynb", as_version=4)
    NotebookClient(notebook, timeout=None, resources={"metadata": {"path": str(tmp_path)}}).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    pictures = [it for cell in code for it in cell.outputs if "image/png" in it.get("data", {})]
    assert len(code) >= 5 and len(pictures) >= 2


def test_the_packages_own_example_holds() -> None:
    ended = doctest.testmod(paceline)
    assert ended.attempted >= 3 and ended.failed == 0
