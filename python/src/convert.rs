// SPDX-License-Identifier: GPL-2.0-only
//! Errors and data, as they cross between Rust and Python.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use sweep::Digest;
use terminal::Failure;

create_exception!(
    _paceline,
    InputError,
    PyValueError,
    "What was asked cannot be done: what is wrong, and how to fix it."
);
create_exception!(_paceline, RunError, PyRuntimeError, "A run failed, and why.");

/// The error of a call, with the words that the command has.
pub fn raised(failure: &Failure) -> PyErr {
    match failure {
        Failure::Input(_) => InputError::new_err(failure.to_string()),
        _ => RunError::new_err(failure.to_string()),
    }
}

pub fn told<T>(done: Result<T, Failure>) -> PyResult<T> {
    done.map_err(|failure| raised(&failure))
}

pub fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn json(of: &impl serde::Serialize) -> String {
    serde_json::to_string(of).expect("it is plain data")
}

pub fn read<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| InputError::new_err(format!("{what}: {error}")))
}

pub fn digest_of(module: &Path) -> Result<Digest, Failure> {
    Digest::of_file(module)
        .map_err(|error| Failure::run(format!("cannot read {}: {error}", module.display())))
}
