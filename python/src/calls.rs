// SPDX-License-Identifier: GPL-2.0-only
//! What Rust's work calls in Python.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use terminal::Failure;

use crate::convert::{locked, raised, read, told};

/// What a sweep calls in Python.
pub struct Calls {
    /// Called after each simulation: how many are done, and of how many.
    step: Py<PyAny>,
    count: AtomicUsize,
    /// An exception of these calls.
    raised: Mutex<Option<PyErr>>,
}

impl Calls {
    pub fn new(step: Py<PyAny>) -> Self {
        Calls { step, count: AtomicUsize::new(0), raised: Mutex::new(None) }
    }

    /// Works while other Python threads run. What Python raised meanwhile is raised again.
    pub fn detached<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce() -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        let ended = py.detach(work);
        match locked(&self.raised).take() {
            Some(error) => Err(error),
            None => told(ended),
        }
    }

    /// Calls Python from Rust's work, which an exception ends.
    pub fn heeded(&self, call: impl FnOnce(Python<'_>) -> PyResult<()>) -> Result<(), Failure> {
        Python::attach(call).map_err(|error| {
            // Ctrl-C may be followed by what it causes.
            locked(&self.raised).get_or_insert(error);
            Failure::run("stopped")
        })
    }

    /// One more is done. Heeds Ctrl-C.
    pub fn step(&self, py: Python<'_>, of: usize) -> PyResult<()> {
        py.check_signals()?;
        let count = 1 + self.count.fetch_add(1, Ordering::Relaxed);
        self.step.call1(py, (count, of)).map(drop)
    }

    /// Has other processes do what is left, of each its key and itself as JSON, and keeps what they yield. `keep` gets
    /// its number and what came of it, and says whether that is new.
    pub fn done<T: DeserializeOwned>(
        &self,
        py: Python<'_>,
        elsewhere: &Py<PyAny>,
        left: Vec<(String, String)>,
        of: usize,
        mut keep: impl FnMut(usize, T) -> Result<bool, Failure>,
    ) -> PyResult<()> {
        for one in elsewhere.bind(py).call1((left,))?.try_iter()? {
            let (at, came): (usize, String) = one?.extract()?;
            if keep(at, read("a result", &came)?).map_err(|failure| raised(&failure))? {
                self.step(py, of)?;
            }
        }
        Ok(())
    }
}
