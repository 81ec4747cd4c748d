// SPDX-License-Identifier: GPL-2.0-only
//! Machines by a user's name for them, and the kind of core of each of their CPUs.

use std::path::Path;

use machine::{Machine, MachineError};
use policy::table::TYPES_MAX;
use terminal::{Failure, failed, files, meant, output};

use crate::describe::was_busy;
use crate::measurement::{THIS, this};

/// A built-in machine, a machine from a file, or this one.
pub fn find_machine(name: &str) -> Result<Machine, Failure> {
    if name == THIS {
        return this();
    }
    let path = Path::new(name);
    let is_file = name.ends_with(".toml") || name.contains('/');
    match is_file || !machine::names().any(|known| known == name) && path.exists() {
        true => {
            let text = files::read(path)?;
            if let Some(busy) = was_busy(&text) {
                output::say(&format!("paceline: {name}: {busy}"));
            }
            Machine::from_toml(&text, name).map_err(Failure::input)
        }
        false => machine::find(name).map_err(|error| {
            Failure::input(match error {
                MachineError::Unknown { name, known } => format!(
                    "no machine is called `{name}`; {}there are: {known}, this, or a TOML file",
                    meant::proposal(&name, machine::names())
                ),
                error => error.to_string(),
            })
        }),
    }
}

/// This machine's topology, with the kinds of cores that a user names, if any ([`core_types`]).
pub fn topology_here(kinds: Option<&str>) -> Result<policy::Topology, Failure> {
    let mut topology = live::topology().map_err(failed)?;
    if let Some(kinds) = kinds {
        let cpus = topology.core_type.len();
        topology.core_type = core_types(kinds, cpus, &topology.missing)?;
    }
    Ok(topology)
}

/// Reads `0-1=fast,2-5=slow`: the kind of core that each CPU represents. A kind that is named before another is faster.
/// CPUs marked as `missing` need none.
pub fn core_types(text: &str, cpus: usize, missing: &[bool]) -> Result<Vec<u16>, Failure> {
    let half = |first: usize, last: usize| match first < last {
        true => format!("{first}-{last}"),
        false => first.to_string(),
    };
    let example = match (cpus / 2, cpus) {
        (0, _) => "0=fast".to_string(),
        (fast, all) => format!("{}=fast,{}=slow", half(0, fast - 1), half(fast, all - 1)),
    };
    let bad = |why: String| {
        Failure::input(format!(
            "--core-types {text}: {why}; expected each CPU once, the fastest kind first, such as {example}"
        ))
    };
    let mut kinds: Vec<&str> = Vec::new();
    let mut types = vec![None; cpus];
    for part in text.split(',') {
        let Some((range, kind)) = part.split_once('=') else {
            return Err(bad(format!("`{part}` names no kind")));
        };
        let at = kinds.iter().position(|known| *known == kind).unwrap_or(kinds.len());
        if at == kinds.len() {
            kinds.push(kind);
        }
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else {
            return Err(bad(format!("`{range}` is no range of CPUs")));
        };
        for cpu in first..=last.min(cpus) {
            match types.get_mut(cpu) {
                Some(free @ None) => *free = Some(at as u16),
                Some(Some(_)) => return Err(bad(format!("CPU {cpu} is named twice"))),
                None => return Err(bad(format!("there is no CPU {cpu}"))),
            }
        }
    }
    if kinds.len() > TYPES_MAX {
        return Err(bad(format!("{} kinds, of at most {}", kinds.len(), TYPES_MAX)));
    }
    let is_there = |cpu: usize| !missing.get(cpu).is_some_and(|missing| *missing);
    match (0..cpus).find(|cpu| types[*cpu].is_none() && is_there(*cpu)) {
        Some(cpu) => Err(bad(format!("CPU {cpu} is missing"))),
        None => Ok(types.into_iter().map(Option::unwrap_or_default).collect()),
    }
}
