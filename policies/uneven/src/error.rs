// SPDX-License-Identifier: GPL-2.0-only
//! What is wrong with a problem or a policy's numbers, each in one line that says how to mend it.

use thiserror::Error;

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Error {
    /// Nobody to share the cores.
    #[error("there are no tasks; give at least one")]
    NoTasks,
    /// No cores at all.
    #[error("there are no core types; give the number of cores of each, fastest first")]
    NoTypes,
    /// More core types than a set of them can hold.
    #[error("{0} core types are too many; at most {most} can be told apart", most = crate::problem::TYPES_MAX)]
    ManyTypes(usize),
    /// A core type without a core.
    #[error("core type {number} has {cores} cores; leave it out, or give it more than 0")]
    NoCores {
        /// Which, from 1.
        number: usize,
        /// As given.
        cores: f64,
    },
    /// Speeds that do not match the core types.
    #[error(
        "task {task} has {given} speeds for {types} core types; give one for each, fastest first"
    )]
    Speeds {
        /// Which, from 1.
        task: usize,
        /// How many it has.
        given: usize,
        /// How many there are to have.
        types: usize,
    },
    /// A speed that no core has.
    #[error("task {task} has speed {speed}; speeds are 1 to {most} times that of the slowest core type", most = crate::problem::SPEED_MAX)]
    Speed {
        /// Which, from 1.
        task: usize,
        /// As given.
        speed: f64,
    },
    /// Speeds that are not relative to the slowest core type.
    #[error(
        "task {task} has speed {speed} on the slowest core type, which comes last; divide its speeds by that"
    )]
    Slowest {
        /// Which, from 1.
        task: usize,
        /// As given.
        speed: f64,
    },
    /// A weight, width or floor that cannot be.
    #[error("task {task} has {what} {value}; give {wanted}")]
    Number {
        /// Which, from 1.
        task: usize,
        /// What is wrong.
        what: &'static str,
        /// As given.
        value: f64,
        /// What it may be.
        wanted: &'static str,
    },
    /// A task that may run nowhere.
    #[error("task {0} may run on no core type; allow at least one")]
    Nowhere(usize),
    /// A number of a policy that cannot be.
    #[error("{what} is {value}; give {wanted}")]
    Parameter {
        /// What is wrong.
        what: &'static str,
        /// As given.
        value: f64,
        /// What it may be.
        wanted: &'static str,
    },
    /// A target that cannot be kept for all, which only happens against another base than max-fair.
    #[error(
        "not every task can reach its target against this base; the best for all is {best:.3}: lower the target"
    )]
    OutOfReach {
        /// The greatest target that all can reach.
        best: f64,
    },
    /// A policy that places tasks on whole cores.
    #[error(
        "scaled-load places tasks on whole cores, and core type {number} has {cores}; give a whole number"
    )]
    Fraction {
        /// Which, from 1.
        number: usize,
        /// As given.
        cores: f64,
    },
    /// A linear program was given up by its solver.
    #[error("a linear program was not solved ({status}); give other speeds")]
    Unsolved {
        /// What the solver said.
        status: String,
    },
}
