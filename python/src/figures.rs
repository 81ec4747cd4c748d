// SPDX-License-Identifier: GPL-2.0-only
//! Figures of papers, measured again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use laboratory::{Done, Job, Reproduction, Request};
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
            let mut all = Reproduction::new(request)?;
            all.keep_in(&results, program)?;
            Ok(Figures { all: Mutex::new(all), program })
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

    /// Has `elsewhere` measure what the simulator has not measured yet, and calls `step` after each job: how many are done,
    /// and of how many. A job is what shares runs.
    fn perform(&self, py: Python<'_>, step: Py<PyAny>, elsewhere: Py<PyAny>) -> PyResult<()> {
        let calls = Calls::new(step);
        calls.detached(py, || {
            let mut all = locked(&self.all);
            let mut jobs = all.jobs()?;
            // The largest first: what is begun last should not take longest.
            jobs.sort_by_key(|job| std::cmp::Reverse(job.count()));
            let key = |job: &Job| Digest::of(json(&(self.program, job)).as_bytes());
            let left = jobs.iter().map(|job| (String::from(key(job)), json(job))).collect();
            calls.heeded(|py| {
                calls.done(py, &elsewhere, left, jobs.len(), |_, done: Vec<Done>| {
                    all.keep(done).map(|()| true)
                })
            })
        })
    }

    /// Lets other processes write to the file.
    fn release(&self) {
        locked(&self.all).release();
    }

    /// All figures as JSON, and as text. Those that are missing are measured here, and `step` is called after each.
    fn measured(&self, py: Python<'_>, step: Py<PyAny>) -> PyResult<(String, String)> {
        let calls = Calls::new(step);
        calls.detached(py, || {
            let mut all = locked(&self.all);
            let step = |_, of| calls.heeded(|py| calls.step(py, of));
            let measured = all.measure(true, &Progress::new(0), step)?;
            Ok((measured.json(), measured.text()))
        })
    }
}

/// Does a job, and returns the figures and charts as JSON.
#[pyfunction]
pub fn figures_of(py: Python<'_>, job: &str) -> PyResult<String> {
    let job: Job = read("a job", job)?;
    told(py.detach(|| job.measure().map(|done| json(&done))))
}
