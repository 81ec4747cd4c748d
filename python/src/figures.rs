// SPDX-License-Identifier: GPL-2.0-only
//! Figures of papers, measured again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use laboratory::{Job, Name, Reproduction, Request, Taken};
use pyo3::prelude::*;
use sweep::Digest;
use terminal::Progress;

use crate::calls::Calls;
use crate::convert::{digest_of, json, locked, read, told};

/// Figures and charts of papers, and the file that keeps them.
#[pyclass(frozen)]
pub struct Figures {
    all: Mutex<Reproduction>,
    program: Digest,
}

#[pymethods]
impl Figures {
    /// Of a paper, or `all`; `module` is this library's own file.
    #[new]
    fn new(
        py: Python<'_>,
        name: String,
        only: Vec<String>,
        quick: bool,
        results: PathBuf,
        module: PathBuf,
    ) -> PyResult<Self> {
        told(py.detach(|| {
            let program = digest_of(&module)?;
            let request = Request { name, only, quick, ..Request::default() };
            let all = Mutex::new(Reproduction::new(request, Some(&results), program)?);
            Ok(Figures { all, program })
        }))
    }

    /// The digest of the program that figures belong to.
    #[getter]
    fn program(&self) -> String {
        self.program.into()
    }

    /// Figures need no files.
    #[allow(clippy::unused_self)]
    fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        BTreeMap::new()
    }

    /// Measures what the simulator has not measured yet, here or elsewhere, and calls `step` after each job: how many
    /// are done, and of how many. A job is what shares runs.
    #[pyo3(signature = (step, elsewhere=None))]
    fn perform(
        &self,
        py: Python<'_>,
        step: Py<PyAny>,
        elsewhere: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let calls = Calls::new(step, elsewhere);
        calls.detached(py, || {
            let mut all = locked(&self.all);
            let mut jobs = all.jobs()?;
            // The largest first: what is begun last should not take longest.
            jobs.sort_by_key(|job| std::cmp::Reverse(job.count()));
            if calls.elsewhere.is_none() {
                return jobs.iter().try_for_each(|job| {
                    all.keep(job.measure()?)?;
                    calls.heeded(|py| calls.step(py, jobs.len()))
                });
            }
            let named = |job: &Job| (String::from(Digest::of(json(job).as_bytes())), json(job));
            let left = jobs.iter().map(named).collect();
            calls.heeded(|py| {
                calls.done(py, left, jobs.len(), |_, done: Vec<(Name, Taken)>| {
                    all.keep(done).map(|()| true)
                })
            })
        })
    }

    /// All figures as JSON, and as text. What the simulator could not measure is tried again here.
    fn measured(&self, py: Python<'_>) -> PyResult<(String, String)> {
        told(py.detach(|| {
            let mut all = locked(&self.all);
            let measured = all.measure(true, &Progress::new(0))?;
            Ok((measured.json(), measured.text()))
        }))
    }
}

/// Does a job, and returns the figures and charts as JSON.
#[pyfunction]
pub fn figures_of(py: Python<'_>, job: &str) -> PyResult<String> {
    let job: Job = read("a job", job)?;
    told(py.detach(|| job.measure().map(|done| json(&done))))
}
