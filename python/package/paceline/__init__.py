# SPDX-License-Identifier: GPL-2.0-only
"""Published schedulers on stock Linux: see what each would do to your workload before loading it.

>>> import paceline
>>> machine = paceline.Machine("numa-2x4")
>>> run = paceline.simulate(machine, "pulses-8", policy="flsched")
>>> run.wait_p99_s < 0.1
True

``compare`` holds policies against each other, ``sweep`` runs thousands of simulations, on this machine or on a Dask
cluster, and ``tune`` searches the knobs of a policy. Results are pandas tables where pandas is installed.
"""

from ._calls import (
    Comparison,
    Found,
    Machine,
    Reproduced,
    Result,
    Swept,
    Workload,
    compare,
    machines,
    policies,
    record,
    repro,
    simulate,
    sweep,
    tune,
    workloads,
)
from ._paceline import InputError, RunError, __version__

__all__ = [
    "Comparison",
    "Found",
    "InputError",
    "Machine",
    "Reproduced",
    "Result",
    "RunError",
    "Swept",
    "Workload",
    "__version__",
    "compare",
    "machines",
    "policies",
    "record",
    "repro",
    "simulate",
    "sweep",
    "tune",
    "workloads",
]
