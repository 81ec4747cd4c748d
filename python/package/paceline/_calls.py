# SPDX-License-Identifier: GPL-2.0-only
"""What a user of the package calls."""

from __future__ import annotations

import atexit
import json
import math
import os
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _paceline
from ._paceline import InputError, RunError

if TYPE_CHECKING:
    import pandas as pd

#: Columns of names.
_NAMES = ("policy", "variant", "workload", "machine", "failed")


@cache
def _session() -> _paceline.Session:
    return _paceline.Session()


@cache
def _scratch() -> str:
    """A folder that goes with this process, and not with one that it forked."""
    folder, owner = tempfile.mkdtemp(prefix="paceline-"), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _limit(time: str | float) -> str:
    """A time such as ``"60s"``, or seconds."""
    if isinstance(time, str):
        return time
    if not (isinstance(time, (int, float)) and 0 < time < 1e9):
        raise InputError(f"limit: expected a time such as '60s', or seconds above 0, and not {time!r}")
    return f"{round(time * 1e9)}ns"


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{name}: expected a whole number from {least} to {most}, and not {value!r}")
    return value


def _jobs(jobs: int | None) -> int:
    return _whole("jobs", jobs, 1, 1024) if jobs is not None else os.cpu_count() or 1


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("this needs pandas; pip install 'paceline[pandas]'") from None
    return pandas


def machines() -> list[str]:
    """Names of machines that come along."""
    return _paceline.names()[1]


def policies() -> list[str]:
    """Names of policies, and of Linux's own classes."""
    return _paceline.names()[0]


def workloads() -> list[str]:
    """Names of workloads that come along as files; there are models as well, such as ``"hackbench -g 4 -l 20"``."""
    return _paceline.names()[2]


@dataclass(frozen=True)
class Machine:
    """A simulated machine: a name (see :func:`machines`), a TOML file, or ``this``.

    ``costs`` sets costs to other values, by their names in machine files: ns, unless the name has another unit.
    """

    name: str
    costs: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _session().machine(self.name, dict(self.costs))

    @property
    def cpus(self) -> int:
        """How many CPUs it has."""
        return _session().machine(self.name, dict(self.costs))[1]

    def with_costs(self, **costs: float) -> Machine:
        """The same machine with other costs."""
        return Machine(self.name, {**self.costs, **costs})


@dataclass(frozen=True)
class Workload:
    """What runs: a name (see :func:`workloads`), a file of rt-app JSON, a recording, or a command line of hackbench."""

    name: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", os.fspath(self.name))
        _session().workload(self.name)

    @classmethod
    def from_json(cls, what: str | Mapping[str, Any]) -> Workload:
        """rt-app JSON, as text or as a dict."""
        text = what if isinstance(what, str) else json.dumps(what)
        file = tempfile.NamedTemporaryFile("w", dir=_scratch(), suffix=".json", delete=False)
        with file:
            file.write(text)
        return cls(file.name)


def _machine(machine: Machine | str) -> Machine:
    return machine if isinstance(machine, Machine) else Machine(machine)


def _workload(workload: Workload | str | os.PathLike[str]) -> Workload:
    return workload if isinstance(workload, Workload) else Workload(os.fspath(workload))


@dataclass(frozen=True)
class Result:
    """What came of a simulation. Times are seconds of the simulated machine."""

    policy: str
    seed: int
    #: All figures as they are kept: times in ns, also by program.
    figures: Mapping[str, Any] = field(repr=False)
    _came: str = field(repr=False)

    @property
    def elapsed_s(self) -> float:
        """From the start of the workload to its end."""
        return self.figures["elapsed_ns"] / 1e9

    @property
    def cpu_s(self) -> float:
        """CPU time of all tasks."""
        return self.figures["cpu_ns"] / 1e9

    @property
    def switches(self) -> int:
        """Context switches."""
        return self.figures["switches"]

    @property
    def migrations(self) -> int:
        """How often a task ran on another CPU than before."""
        return self.figures["migrations"]

    @property
    def wait_p99_s(self) -> float:
        """99 % of the waits for a CPU were shorter."""
        return self.figures["wait"]["p99_ns"] / 1e9

    @property
    def longest_wait_s(self) -> float:
        """The longest wait for a CPU."""
        return self.figures["wait"]["max_ns"] / 1e9

    @property
    def programs(self) -> pd.DataFrame:
        """A row for each program: tasks, CPU time and waits in seconds, work in the workload's unit."""
        rows = {
            name: {
                "tasks": of["tasks"],
                "cpu_s": of["cpu_ns"] / 1e9,
                "wait_p50_s": of["wait"]["p50_ns"] / 1e9,
                "wait_p99_s": of["wait"]["p99_ns"] / 1e9,
                "longest_wait_s": of["wait"]["max_ns"] / 1e9,
                "work": of.get("work"),
            }
            for name, of in self.figures["programs"].items()
        }
        return _pandas().DataFrame.from_dict(rows, orient="index")


def _run(machine: Machine, workload: Workload, pressure: int, policy: str, seed: int, limit: str | float) -> str:
    pressure = _whole("pressure", pressure, 1, 1000)
    seed = _whole("seed", seed, 0, 2**64 - 1)
    return _session().run(machine.name, dict(machine.costs), workload.name, pressure, policy, seed, _limit(limit))


def simulate(
    machine: Machine | str,
    workload: Workload | str | os.PathLike[str],
    policy: str = "default",
    *,
    seed: int = 1,
    pressure: int = 1,
    limit: str | float = "10min",
) -> Result:
    """Simulate one run. The same arguments always give the same result.

    ``pressure``: so many copies of the workload run side by side. ``limit``: the longest that it may take on the
    simulated clock. Raises :class:`RunError` if the run fails, and :class:`InputError` if it cannot be done.
    """
    run = _run(_machine(machine), _workload(workload), pressure, policy, seed, limit)
    came = _session().done(run, None)
    read = json.loads(came)
    if "failed" in read:
        raise RunError(f"{policy} on {_machine(machine).name}: {read['failed']}")
    return Result(json.loads(run)["policy"], seed, read["measured"], came)


@dataclass(frozen=True)
class Comparison:
    """Policies held against the first one, with the same seeds."""

    results: Sequence[Result] = field(repr=False)
    objective: str

    @property
    def runs(self) -> pd.DataFrame:
        """A row for each run; ``gain``: how many times as good it is as the first policy with the same seed."""
        first = {one.seed: one for one in self.results if one.policy == self.results[0].policy}
        return _pandas().DataFrame(
            {
                "policy": one.policy,
                "seed": one.seed,
                "gain": _paceline.ratio(self.objective, one._came, first[one.seed]._came),
                "elapsed_s": one.elapsed_s,
                "wait_p99_s": one.wait_p99_s,
                "longest_wait_s": one.longest_wait_s,
                "switches": one.switches,
                "migrations": one.migrations,
            }
            for one in self.results
        )

    @property
    def summary(self) -> pd.DataFrame:
        """The median of each policy, and the least and greatest gain."""
        groups = self.runs.drop(columns="seed").groupby("policy", sort=False)
        summary = groups.median()
        summary.insert(1, "gain_min", groups["gain"].min())
        summary.insert(2, "gain_max", groups["gain"].max())
        return summary

    def plot(self, ax: Any = None) -> Any:
        """Gains of all runs by policy, with matplotlib. Returns the axes."""
        axes = _axes(ax)
        runs = self.runs
        names = list(dict.fromkeys(runs["policy"]))
        axes.boxplot([runs["gain"][runs["policy"] == name].dropna() for name in names], orientation="horizontal")
        axes.set_yticks(range(1, len(names) + 1), names)
        axes.axvline(1, color="0.6", linewidth=1)
        axes.set_xlabel(f"{self.objective}, times that of {names[0]}")
        return axes

    def _repr_html_(self) -> str:
        return self.summary._repr_html_()


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("this needs matplotlib; pip install 'paceline[plot]'") from None
    return pyplot.subplots(layout="constrained")[1]


def compare(
    machine: Machine | str,
    workload: Workload | str | os.PathLike[str],
    policies: str | Iterable[str],
    *,
    seeds: int | Iterable[int] = 5,
    objective: str = "speed",
    pressure: int = 1,
    limit: str | float = "10min",
    jobs: int | None = None,
) -> Comparison:
    """Run policies side by side, each with all seeds, on all cores. The others are compared with the first one."""
    from concurrent.futures import ThreadPoolExecutor

    machine, workload = _machine(machine), _workload(workload)
    _paceline.check_objective(objective)
    policies = [policies] if isinstance(policies, str) else policies
    seeds = range(1, seeds + 1) if isinstance(seeds, int) else list(seeds)
    wanted = [(policy, seed) for policy in policies for seed in seeds]
    if not wanted:
        raise InputError("there is nothing to compare; name policies and seeds")

    def one(policy_and_seed: tuple[str, int]) -> Result:
        policy, seed = policy_and_seed
        return simulate(machine, workload, policy, seed=seed, pressure=pressure, limit=limit)

    with ThreadPoolExecutor(_jobs(jobs)) as pool:
        results = list(pool.map(one, wanted))
    return Comparison(results, objective)


def record(command: Sequence[str], output: str | os.PathLike[str], *, calls: bool = False) -> Workload:
    """Record a command on this machine with the program ``paceline``, and return the recording as a workload.

    It needs the program in PATH, and for more than samples root or CAP_BPF and CAP_PERFMON.
    """
    program = shutil.which("paceline")
    if program is None:
        raise InputError("the program `paceline` was not found, which records; put it in PATH")
    # Beside its place: an earlier recording is not taken for this one.
    beside = Path(output).with_name(f".{Path(output).name}.{os.getpid()}")
    words = [program, "record", "-o", os.fspath(beside), *(["--calls"] if calls else []), "--", *command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if not beside.exists():
        said = [line for line in done.stderr.splitlines() if line.startswith("paceline: ")]
        raise RunError(said[-1].removeprefix("paceline: ") if said else f"paceline ended with {done.returncode}")
    beside.replace(output)
    return Workload(os.fspath(output))


def _text_of(design: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[str, str, Path]:
    """Name, text and folder of a sweep."""
    if isinstance(design, Mapping):
        return str(design.get("title", "sweep")), _toml(design), Path.cwd()
    path = Path(design)
    try:
        return str(path), path.read_text(), path.parent
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None


def _toml(design: Mapping[str, Any]) -> str:
    """A mapping as TOML: of all that a sweep's file may have, JSON's form of a value is TOML's."""

    def quoted(text: str) -> str:
        return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

    def value(of: Any) -> str:
        if isinstance(of, Mapping):
            return "{ " + ", ".join(f"{quoted(key)} = {value(it)}" for key, it in of.items()) + " }"
        if isinstance(of, (list, tuple, range)):
            return "[" + ", ".join(value(it) for it in of) + "]"
        if isinstance(of, Workload):
            return quoted(of.name)
        if isinstance(of, Machine) and not of.costs:
            return quoted(of.name)
        if isinstance(of, (str, os.PathLike)):
            return quoted(os.fspath(of))
        if isinstance(of, (bool, int)) or (isinstance(of, float) and math.isfinite(of)):
            return json.dumps(of)
        raise InputError(f"a sweep cannot have {of!r}; name texts, numbers and lists")

    text = "\n".join(f"{quoted(str(key))} = {value(it)}" for key, it in design.items())
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"a sweep cannot have this: {error}") from None
    return text


@contextmanager
def _steps(progress: bool | Callable[[int, int], object], what: str) -> Iterator[Callable[[int, int], object]]:
    """What is called after each simulation, or whatever is done: how many are done, and of how many."""
    shown = False

    def step(done: int, of: int) -> None:
        nonlocal shown
        if progress and (done == of or done % max(1, of // 100) == 0):
            print(f"\r{done} of {of} {what}", end="", flush=True)
            shown = True

    try:
        yield progress if callable(progress) else step
    finally:
        if shown:
            print()


@dataclass(frozen=True)
class Swept:
    """A sweep with all its results."""

    _sweep: _paceline.Sweep = field(repr=False)
    #: What was found: gains, winners, effects, as ``paceline sweep --json`` prints it.
    findings: Mapping[str, Any] = field(repr=False)
    _text: str = field(repr=False)
    _page: str = field(repr=False)

    @property
    def runs(self) -> pd.DataFrame:
        """A row for each run: factors, seed, ``gain`` over the first policy, figures."""
        pandas = _pandas()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "runs.csv"
            self._sweep.csv(path)
            # Names stay texts, even such as NA and 007.
            return pandas.read_csv(path, dtype=dict.fromkeys(_NAMES, str), keep_default_na=False, na_values=[""])

    @property
    def variants(self) -> pd.DataFrame:
        """A row for each variant: its mean gain with the range in which it lies with 95 %, and its waits."""
        rows = {
            of["label"]: {
                "gain": (of["gain"] or {}).get("mean"),
                "low": (of["gain"] or {}).get("low"),
                "high": (of["gain"] or {}).get("high"),
                "wait_p99": of["wait_p99"],
                "failed": of["failed"],
            }
            for of in self.findings["variants"]
        }
        return _pandas().DataFrame.from_dict(rows, orient="index")

    def arrow(self) -> Any:
        """Return :attr:`runs` as an Arrow table, which ``pyarrow.parquet.write_table`` writes as Parquet."""
        try:
            import pyarrow
        except ImportError:
            raise ImportError("this needs pyarrow; pip install 'paceline[arrow]'") from None
        return pyarrow.Table.from_pandas(self.runs)

    def csv(self, path: str | os.PathLike[str]) -> None:
        """Write a row for each run."""
        self._sweep.csv(path)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write a page with all that was found."""
        self._sweep.report(path, self._page)

    def plot(self, ax: Any = None) -> Any:
        """Gain and waits of all variants, with matplotlib. Returns the axes."""
        axes = _axes(ax)
        for point in self.findings["frontier"]:
            color = "tab:blue" if point["best"] else "0.6"
            axes.plot(point["wait_p99"], point["gain"], "o", color=color)
            if point["best"]:
                axes.annotate(
                    point["label"], (point["wait_p99"], point["gain"]), xytext=(5, 5), textcoords="offset points"
                )
        axes.set_xlabel(f"wait p99, times that of {self.findings['base']}")
        axes.set_ylabel(f"gain in {self.findings['objective']}")
        return axes

    def __str__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self.variants._repr_html_()


def _results(results: str | os.PathLike[str] | None) -> str:
    if results is not None:
        return os.fspath(results)
    return os.path.join(tempfile.mkdtemp(dir=_scratch()), "results")


def _elsewhere(native: _paceline.Sweep | _paceline.Figures, client: Any) -> Callable[..., Any] | None:
    """What does runs on a cluster. None: they are done here."""
    if client is None:
        return None
    from ._cluster import Cluster

    return Cluster(native, client).done


def sweep(
    design: str | os.PathLike[str] | Mapping[str, Any],
    *,
    results: str | os.PathLike[str] | None = None,
    client: Any = None,
    jobs: int | None = None,
    progress: bool | Callable[[int, int], object] = False,
) -> Swept:
    """Run all of a sweep that is not known yet, and say what was found.

    ``design``: a sweep's file, or a dict with its keys. ``results``: the file that keeps each run's result; runs that
    are in it are not run again. Without it, results go with this process. ``client``: a ``distributed.Client``, whose
    workers run it; each needs this package in the same build. ``progress``: print it, or call this with how many
    simulations are done, and of how many.
    """
    name, text, folder = _text_of(design)
    native = _paceline.Sweep(name, text, folder, _results(results), _paceline.__file__, False)
    try:
        with _steps(progress, "simulations") as step:
            native.perform(_jobs(jobs), step, _elsewhere(native, client))
    finally:
        # What was found stays in use, and the same file may be asked for more.
        native.release()
    findings, told, page = native.findings()
    return Swept(native, json.loads(findings), told, page)


@dataclass(frozen=True)
class Found:
    """What a search found."""

    #: The policy with the knobs that were found; None: there is nothing to gain.
    best: str | None
    #: How many times as good it is, with seeds that the search has not seen, and where that lies with 95 %.
    gain: float | None
    low: float | None
    high: float | None
    #: All that ``paceline tune --json`` prints.
    findings: Mapping[str, Any] = field(repr=False)

    @property
    def tried(self) -> pd.DataFrame:
        """A row for each candidate, the best first: knobs, gain in the search, seeds."""
        rows = [
            {"policy": it["label"], **it["knobs"], "gain": it["gain"], "seeds": it["seeds"]}
            for it in self.findings["tried"]
        ]
        return _pandas().DataFrame(rows)


def tune(
    policy: str,
    machine: Machine | str,
    workload: Workload | str | os.PathLike[str],
    knobs: Mapping[str, Any],
    *,
    objective: str = "speed",
    budget: int = 200,
    results: str | os.PathLike[str] | None = None,
    client: Any = None,
    jobs: int | None = None,
    progress: bool | Callable[[int, int], object] = False,
) -> Found:
    """Search the values of a policy's knobs that are best for a workload, and confirm them with other seeds.

    ``knobs``: values by knob, as in a sweep's file: ``{"slice": {"from": "1ms", "to": "50ms", "scale": "log"}}``.
    ``budget``: most simulations of the search. ``client``: a ``distributed.Client``, as for :func:`sweep`.
    """
    machine, workload = _machine(machine), _workload(workload)
    design: dict[str, Any] = {
        "title": workload.name,
        "policy": policy,
        "machine": machine.name,
        "workload": workload.name,
        "objective": objective,
        "knobs": {policy.split(":")[0]: dict(knobs)},
        "costs": dict(machine.costs),
    }
    name, text, folder = _text_of(design)
    native = _paceline.Sweep(name, text, folder, _results(results), _paceline.__file__, True)
    try:
        budget = _whole("budget", budget, 10, 10**6)
        with _steps(progress, "simulations at most") as step:
            found = json.loads(native.tune(_jobs(jobs), budget, step, _elsewhere(native, client)))
    finally:
        native.release()
    gain = found["gain"] or {}
    return Found(found["best"], gain.get("mean"), gain.get("low"), gain.get("high"), found)


@dataclass(frozen=True)
class Reproduced:
    """Figures of papers, measured again."""

    #: All that ``paceline repro --json`` prints.
    findings: Sequence[Mapping[str, Any]] = field(repr=False)
    _text: str = field(repr=False)

    @property
    def figures(self) -> pd.DataFrame:
        """A row for each figure: what was published, ours, the gate, and whether it holds."""
        columns = ("paper", "name", "unit", "published", "published_as", "ours", "gate", "holds", "why")
        rows = [{column: of[column] for column in columns} for of in self.findings if "holds" in of]
        return _pandas().DataFrame(rows, columns=columns)

    def __str__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self.figures._repr_html_()


def repro(
    name: str = "all",
    only: Sequence[str] = (),
    *,
    quick: bool = False,
    results: str | os.PathLike[str] | None = None,
    client: Any = None,
    progress: bool | Callable[[int, int], object] = False,
) -> Reproduced:
    """Measure figures of papers again that the simulator measures; the command ``paceline repro`` boots guests, too.

    ``name``: a paper, or ``all``. ``only``: names of figures. ``quick``: fewer seeds and sizes. ``results``: the file
    that keeps them; what is in it is not measured again. ``client``: a ``distributed.Client``, as for :func:`sweep`.
    """
    names = [only] if isinstance(only, str) else list(only)
    native = _paceline.Figures(name, names, quick, _results(results), _paceline.__file__)
    try:
        elsewhere = _elsewhere(native, client)
        if elsewhere is not None:
            with _steps(progress, "jobs") as step:
                native.perform(step, elsewhere)
        # After a cluster there is little left to do.
        with _steps(progress if elsewhere is None else False, "figures") as step:
            figures, text = native.measured(step)
    finally:
        native.release()
    return Reproduced(json.loads(figures), text)
