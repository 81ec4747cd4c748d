// SPDX-License-Identifier: GPL-2.0-only
//! F: every task has an even share of each core type (slide 4; Kwon and others, ISCA'11).
//!
//! Tasks bound to one type come first. What they leave is divided among the others: fast cores
//! first, if there are more cores than tasks.

use std::collections::BTreeMap;

use crate::Error;
use crate::lp::{Program, Var};
use crate::problem::{CoreTypes, Problem};

/// Shares of each task, from its CPU time and the types that it can be put on.
pub(crate) fn shares(
    problem: &Problem,
    cpu: &[f64],
    allowed: &[CoreTypes],
) -> Result<Vec<Vec<f64>>, Error> {
    let types = problem.types();
    let mut left = problem.cores.clone();
    let mut groups: BTreeMap<CoreTypes, f64> = BTreeMap::new();
    for (task, set) in allowed.iter().enumerate() {
        match set.count(types) {
            1 => set.iter(types).for_each(|number| left[number] -= cpu[task]),
            _ => *groups.entry(*set).or_default() += cpu[task],
        }
    }
    left.iter_mut().for_each(|cores| *cores = cores.max(0.0));
    let rows = match groups.len() {
        0 | 1 => groups.iter().map(|(set, time)| (*set, fill(*set, *time, &left))).collect(),
        _ => by_type(&groups, &left)?,
    };
    let row = |set: &CoreTypes| match set.count(types) {
        1 => (0..types).map(|number| f64::from(u8::from(set.has(number)))).collect(),
        _ => rows[set].clone(),
    };
    Ok(allowed.iter().map(row).collect())
}

/// One row for all tasks: fast cores first, until their time is used up.
fn fill(set: CoreTypes, time: f64, left: &[f64]) -> Vec<f64> {
    let mut row = vec![0.0; left.len()];
    let (mut rest, mut last) = (1.0, 0);
    for number in set.iter(left.len()) {
        let part = (left[number] / time).min(rest);
        row[number] = part;
        rest -= part;
        if part > 0.0 {
            last = number;
        }
    }
    row[last] += rest; // what rounding left
    row
}

/// Shares of groups that may use different sets of types. Each type, from the fastest, is divided
/// as evenly as all sets together allow.
fn by_type(
    groups: &BTreeMap<CoreTypes, f64>,
    left: &[f64],
) -> Result<BTreeMap<CoreTypes, Vec<f64>>, Error> {
    let types = left.len();
    let mut least = vec![0.0; types];
    for number in 0..types {
        let (program, _, level) = program(groups, left, &least, Some(number));
        // Slightly less, so that rounding leaves the next program a solution.
        least[number] = (program.maximize()?[level] - 1e-12).max(0.0);
    }
    let (program, cells, _) = program(groups, left, &least, None);
    let solved = program.maximize()?;
    let mut rows: BTreeMap<_, _> = groups.keys().map(|set| (*set, vec![0.0; types])).collect();
    for (set, number, var) in cells {
        rows.get_mut(&set).expect("a row for each group")[number] = solved[var].max(0.0);
    }
    for row in rows.values_mut() {
        let sum: f64 = row.iter().sum();
        row.iter_mut().for_each(|part| *part /= sum);
    }
    Ok(rows)
}

type Cells = Vec<(CoreTypes, usize, Var)>;

/// Maximizes the least fraction of a type that a group gets. Without a type, it maximizes the use
/// of fast cores.
fn program(
    groups: &BTreeMap<CoreTypes, f64>,
    left: &[f64],
    least: &[f64],
    wanted: Option<usize>,
) -> (Program, Cells, Var) {
    let types = left.len();
    let mut program = Program::new();
    let mut cells = Cells::new();
    let level = program.var(f64::from(u8::from(wanted.is_some())));
    for set in groups.keys() {
        for number in set.iter(types) {
            let value = if wanted.is_none() { (types - number) as f64 } else { 0.0 };
            let var = program.var(value);
            program.at_least(least[number], &[(var, 1.0)]);
            cells.push((*set, number, var));
            if wanted == Some(number) {
                program.at_least(0.0, &[(var, 1.0), (level, -1.0)]);
            }
        }
        let own: Vec<_> =
            cells.iter().filter(|(of, ..)| of == set).map(|(_, _, var)| (*var, 1.0)).collect();
        program.exactly(1.0, &own);
    }
    for (number, cores) in left.iter().enumerate() {
        let users = cells.iter().filter(|(_, of, _)| *of == number);
        let times: Vec<_> = users.map(|(set, _, var)| (*var, groups[set])).collect();
        program.at_most(*cores, &times);
    }
    (program, cells, level)
}
