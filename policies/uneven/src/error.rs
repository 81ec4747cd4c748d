// SPDX-License-Identifier: GPL-2.0-only
//! Errors in a problem or a policy's numbers, each in one line that says how to fix it.

use thiserror::Error;

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Error {
    /// There are no tasks.
    #[error("there are no tasks; give at least one")]
    NoTasks,
    /// No cores at all.
    #[error("there are no core types; give the number of cores of each, fastest first")]
    NoTypes,
    /// More core types than a set of them can hold.
    #[error("{0} core types are too many; at most {most} can be told apart", most = crate::limits::TYPES_MAX)]
    ManyTypes(usize),
    /// A core type without a core.
    #[error("core type {number} has {cores} cores; leave it out, or give it more than 0")]
    NoCores {
        /// The core type, from 1.
        number: usize,
        /// As given.
        cores: f64,
    },
    /// Speeds that do not match the core types.
    #[error(
        "task {task} has {given} speeds for {types} core types; give one for each, fastest first"
    )]
    Speeds {
        /// The task, from 1.
        task: usize,
        /// How many it has.
        given: usize,
        /// How many it needs.
        types: usize,
    },
    /// A speed that no core has.
    #[error("task {task} has speed {speed}; speeds are 1 to {most} times that of the slowest core type", most = crate::limits::SPEED_MAX)]
    Speed {
        /// The task, from 1.
        task: usize,
        /// As given.
        speed: f64,
    },
    /// Speeds that are not relative to the slowest core type.
    #[error(
        "task {task} has speed {speed} on the slowest core type, which comes last; divide its speeds by that"
    )]
    Slowest {
        /// The task, from 1.
        task: usize,
        /// As given.
        speed: f64,
    },
    /// An invalid weight, width or floor.
    #[error("task {task} has {what} {value}; give {wanted}")]
    Number {
        /// The task, from 1.
        task: usize,
        /// The invalid quantity.
        what: &'static str,
        /// As given.
        value: f64,
        /// The valid values.
        wanted: &'static str,
    },
    /// A task that may run nowhere.
    #[error("task {0} may run on no core type; allow at least one")]
    Nowhere(usize),
    /// An invalid number of a policy.
    #[error("{what} is {value}; give {wanted}")]
    Parameter {
        /// The invalid quantity.
        what: &'static str,
        /// As given.
        value: f64,
        /// The valid values.
        wanted: &'static str,
    },
    /// A target that not every task can reach, which only happens against another base than
    /// max-fair.
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
        /// The core type, from 1.
        number: usize,
        /// As given.
        cores: f64,
    },
    /// The solver gave up on a linear program.
    #[error("a linear program was not solved ({status}); give other speeds")]
    Unsolved {
        /// The solver's message.
        status: String,
    },
}
