// SPDX-License-Identifier: GPL-2.0-only
//! What the Python package `paceline` calls: simulations, sweeps and searches.
//!
//! Results cross as JSON, in the form in which they are kept. While Rust works, other Python threads run.

mod calls;
mod convert;
mod figures;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use pyo3::prelude::*;
use report::Style;
use sweep::{Came, Design, Digest, Inputs, Purpose, Run, Stages, Store, show};
use terminal::Failure;
use terminal::files::is_same;

use calls::Calls;
use convert::{InputError, RunError, digest_of, json, locked, raised, read, told};
use figures::{Figures, figures_of};

/// Machines and workloads of this process, each read once.
#[pyclass(frozen)]
struct Session {
    inputs: Mutex<Inputs>,
    stages: Stages,
}

#[pymethods]
impl Session {
    #[new]
    fn new() -> Self {
        Session { inputs: Mutex::new(Inputs::new("".as_ref())), stages: Stages::default() }
    }

    /// Finds a machine. Returns its own name and its number of CPUs.
    fn machine(
        &self,
        py: Python<'_>,
        name: &str,
        costs: BTreeMap<String, f64>,
    ) -> PyResult<(String, usize)> {
        told(py.detach(|| {
            let mut inputs = locked(&self.inputs);
            let input = inputs.add_machine(name)?;
            let mut machine = inputs.machine(&input).clone();
            for (cost, value) in costs {
                machine = machine.with_cost(&cost, value).map_err(Failure::input)?;
            }
            Ok((machine.name.clone(), machine.cpus.len()))
        }))
    }

    /// Finds a workload.
    fn workload(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        told(py.detach(|| locked(&self.inputs).add_workload(name).map(drop)))
    }

    /// A run that can be done, as JSON. `limit` is a time such as `60s`.
    #[allow(clippy::too_many_arguments)]
    fn run(
        &self,
        py: Python<'_>,
        machine: &str,
        costs: BTreeMap<String, f64>,
        workload: &str,
        pressure: u32,
        policy: &str,
        seed: u64,
        limit: &str,
    ) -> PyResult<String> {
        told(py.detach(|| {
            let mut inputs = locked(&self.inputs);
            let (machine, workload) =
                (inputs.add_machine(machine)?, inputs.add_workload(workload)?);
            let policy = comparison::Contender::parse(policy)?.label().to_string();
            let limit = humantime::parse_duration(limit).map_err(|_| {
                Failure::input(format!("limit: expected a time such as 60s, and not {limit}"))
            })?;
            let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
            let run = Run { policy, machine, costs, workload, pressure, seed, limit_ns };
            self.stages.check(&run, &inputs)?;
            Ok(json(&run))
        }))
    }

    /// Does a run, and returns what came of it as JSON. Machines and workloads with a digest are files of that name in
    /// `folder`, or known already.
    fn done(&self, py: Python<'_>, run: &str, folder: Option<PathBuf>) -> PyResult<String> {
        let run: Run = read("a run", run)?;
        told(py.detach(|| {
            let stage = {
                let mut inputs = locked(&self.inputs);
                for (input, is_machine) in [(&run.machine, true), (&run.workload, false)] {
                    let file = folder.as_ref().zip(input.digest);
                    let file = file.map(|(folder, digest)| folder.join(String::from(digest)));
                    inputs.add(input, is_machine, file.as_deref())?;
                }
                self.stages.stage(&run, &inputs)?
            };
            run.simulate_on(&stage).map(|came| json(&came))
        }))
    }
}

/// A sweep, with the file of its results.
#[pyclass(frozen)]
struct Sweep {
    design: Design,
    stages: Stages,
    store: Mutex<Store>,
    program: Digest,
}

#[pymethods]
impl Sweep {
    /// Reads the text of a sweep's file, which names other files from `folder` on; `module` is this library's own file.
    #[new]
    fn new(
        py: Python<'_>,
        name: &str,
        text: &str,
        folder: PathBuf,
        results: PathBuf,
        module: PathBuf,
        tune: bool,
    ) -> PyResult<Self> {
        let purpose = if tune { Purpose::Tune } else { Purpose::Sweep };
        told(py.detach(|| {
            let design = Design::parse(name, text, &folder, purpose)?;
            let stages = sweep::check(&design)?;
            refuse_inputs(&design, &results)?;
            let (program, store) = (digest_of(&module)?, Mutex::new(Store::open(&results)?));
            Ok(Sweep { design, stages, store, program })
        }))
    }

    /// The digest of the program that results belong to.
    #[getter]
    fn program(&self) -> String {
        self.program.into()
    }

    /// Does what is missing, and calls `step` after each: how many are done, and of how many. Runs are done here, `jobs`
    /// at a time, or by `elsewhere`: it is called with keys and runs, and yields the number of each in that list with
    /// what came of it, in any order.
    #[pyo3(signature = (jobs, step, elsewhere=None))]
    fn perform(
        &self,
        py: Python<'_>,
        jobs: usize,
        step: Py<PyAny>,
        elsewhere: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let calls = Calls::new(step);
        calls.detached(py, || {
            let mut store = locked(&self.store);
            let left = sweep::missing(&self.design, &*store, self.program).left;
            let how = (jobs, elsewhere.as_ref());
            self.done(&left, &mut store, how, &calls, left.len())
        })
    }

    /// Searches with at most so many simulations, and returns what was found as JSON; the rest as for `perform`.
    #[pyo3(signature = (jobs, budget, step, elsewhere=None))]
    fn tune(
        &self,
        py: Python<'_>,
        jobs: usize,
        budget: usize,
        step: Py<PyAny>,
        elsewhere: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let calls = Calls::new(step);
        calls.detached(py, || {
            let mut store = locked(&self.store);
            let perform = |left: &[(Digest, Run)], store: &mut Store| {
                self.done(left, store, (jobs, elsewhere.as_ref()), &calls, budget)
            };
            let tuned = sweep::tune(&self.design, &mut store, self.program, budget, perform)?;
            Ok(json(&tuned))
        })
    }

    /// Lets other sweeps write to the file of results.
    fn release(&self) {
        locked(&self.store).release();
    }

    /// Contents of files that runs need elsewhere, by digest.
    fn contents(&self) -> PyResult<BTreeMap<String, Vec<u8>>> {
        let contents = self.design.inputs.contents().map_err(|failure| raised(&failure))?;
        Ok(contents.into_iter().map(|(digest, bytes)| (digest.into(), bytes)).collect())
    }

    /// What was found, as JSON, as text, and as a page.
    fn findings(&self, py: Python<'_>) -> PyResult<(String, String, String)> {
        let found = py.detach(|| {
            let store = locked(&self.store);
            let findings = sweep::findings(&self.design, &store, self.program)?;
            let again = "paceline.sweep(...)";
            let text = show::text(&findings, Style::PLAIN);
            Ok((json(&findings), text, show::page(&findings, again)))
        });
        found.map_err(|failure: Failure| raised(&failure))
    }

    /// Writes a row for each run.
    fn csv(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        told(py.detach(|| {
            let store = locked(&self.store);
            self.refuse(&path, &store)?;
            show::csv(&self.design, &store, self.program, &path)
        }))
    }

    /// Writes a page that was made.
    fn report(&self, path: PathBuf, page: &str) -> PyResult<()> {
        let refused = self.refuse(&path, &locked(&self.store));
        told(refused.and_then(|()| report::write_whole(&path, page).map_err(Failure::input)))
    }
}

/// Refuses to write over what a sweep is made of.
fn refuse_inputs(design: &Design, path: &Path) -> Result<(), Failure> {
    match design.inputs.files().iter().any(|file| is_same(file, path)) {
        false => Ok(()),
        true => Err(Failure::input(format!(
            "{}: it is a file of the sweep; name another file",
            path.display()
        ))),
    }
}

impl Sweep {
    /// Refuses to write over the sweep's files, and its results.
    fn refuse(&self, path: &Path, store: &Store) -> Result<(), Failure> {
        refuse_inputs(&self.design, path)?;
        match is_same(path, store.path()) || path.exists() && !path.is_file() {
            false => Ok(()),
            true => Err(Failure::input(format!(
                "{}: it has the sweep's results, or is no regular file; name another file",
                path.display()
            ))),
        }
    }

    /// Does runs here or elsewhere, and keeps each result.
    fn done(
        &self,
        left: &[(Digest, Run)],
        store: &mut Store,
        (jobs, elsewhere): (usize, Option<&Py<PyAny>>),
        calls: &Calls,
        of: usize,
    ) -> Result<(), Failure> {
        match elsewhere {
            _ if left.is_empty() => Ok(()),
            Some(elsewhere) => calls.heeded(|py| {
                let runs = left.iter().map(|(key, run)| (String::from(*key), json(run)));
                calls.done(py, elsewhere, runs.collect(), of, |at, came: Came| {
                    let (key, run) = &left[at];
                    let is_new = !store.has(*key);
                    if is_new {
                        store.put(*key, run, came)?;
                    }
                    Ok(is_new)
                })
            }),
            None => {
                let on = (&self.design.inputs, &self.stages);
                sweep::perform(left, on, store, jobs.max(1), || {
                    calls.heeded(|py| calls.step(py, of))
                })
            }
        }
    }
}

/// The digest of this library, which results belong to.
#[pyfunction]
fn program(module: PathBuf) -> PyResult<String> {
    digest_of(&module).map(String::from).map_err(|failure| raised(&failure))
}

/// Names of policies, machines and workloads that come along.
#[pyfunction]
fn names() -> (Vec<String>, Vec<String>, Vec<String>) {
    let policies = comparison::contender::names().map(String::from).collect();
    let machines = machine::names().map(String::from).collect();
    let workloads = comparison::WORKLOADS.iter().map(|(name, _)| (*name).to_string());
    (policies, machines, workloads.collect())
}

/// How many times as good a result is as another with the same seed. None: one of both lacks the quantity.
#[pyfunction]
fn ratio(objective: &str, own: &str, base: &str) -> PyResult<Option<f64>> {
    let objective: sweep::Objective = objective
        .parse()
        .map_err(|why: sweep::NoObjective| InputError::new_err(why.to_string()))?;
    match (read("a result", own)?, read("a result", base)?) {
        (Came::Measured(own), Came::Measured(base)) => Ok(objective.ratio(&own, &base)),
        _ => Ok(None),
    }
}

/// Refuses a text that is no objective.
#[pyfunction]
fn check_objective(objective: &str) -> PyResult<()> {
    let read: Result<sweep::Objective, _> = objective.parse();
    read.map(drop).map_err(|why| InputError::new_err(why.to_string()))
}

/// The module that the package imports.
#[pymodule]
fn _paceline(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Python has its own ways to show progress.
    terminal::say_as_much_as(true, false);
    module.add("InputError", module.py().get_type::<InputError>())?;
    module.add("RunError", module.py().get_type::<RunError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Session>()?;
    module.add_class::<Sweep>()?;
    module.add_class::<Figures>()?;
    module.add_function(wrap_pyfunction!(figures_of, module)?)?;
    module.add_function(wrap_pyfunction!(program, module)?)?;
    module.add_function(wrap_pyfunction!(names, module)?)?;
    module.add_function(wrap_pyfunction!(ratio, module)?)?;
    module.add_function(wrap_pyfunction!(check_objective, module)?)?;
    Ok(())
}
