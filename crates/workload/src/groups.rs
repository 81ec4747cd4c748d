// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups in a workload file, with their weights and limits.

use std::ops::RangeInclusive;

use crate::json::{Error, Node};
use crate::{Group, Max};

/// The groups read so far.
#[derive(Default)]
pub(crate) struct Groups {
    pub(crate) all: Vec<Group>,
}

impl Groups {
    /// `"taskgroups"`: what groups have, by path.
    pub(crate) fn declare(&mut self, node: Node<'_>) -> Result<(), Error> {
        for (path, value) in node.members("taskgroups")? {
            let at = self.enter(&path, value)?;
            let mut burst = None;
            for (key, field) in value.members(&path)? {
                let group = &mut self.all[at];
                match key.as_str() {
                    "weight" => group.weight = weight(field)?,
                    "idle" => group.idle = field.boolean("idle")?,
                    "max" => group.max = max(field)?,
                    "burst" => burst = Some(field),
                    _ => {
                        let known = "weight, idle, max and burst";
                        let unknown = format!("{path}: {key} is not known; there are {known}");
                        return Err(field.error(unknown));
                    }
                }
            }
            let Some(burst) = burst else { continue };
            let max = self.all[at].max.as_mut();
            let quota_us = max.as_ref().map_or(0, |max| max.quota_us);
            let burst_us = within(burst, "burst", 0..=quota_us, "µs, at most the quota of max")?;
            max.into_iter().for_each(|max| max.burst_us = burst_us);
        }
        Ok(())
    }

    /// The group that a task names.
    pub(crate) fn of(&mut self, node: Node<'_>) -> Result<usize, Error> {
        self.enter(&node.string("taskgroup")?, node)
    }

    /// A group by its path, created with all its ancestors.
    fn enter(&mut self, path: &str, node: Node<'_>) -> Result<usize, Error> {
        let names = path.strip_prefix('/').unwrap_or_default();
        let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
        if !names.split('/').all(is_name) {
            let wanted = "a path from the root of all groups, such as /web or /web/workers";
            return Err(node.error(format!("taskgroup: expected {wanted}, found {path:?}")));
        }
        let mut last = 0;
        for (end, _) in path.match_indices('/').skip(1).chain([(path.len(), "")]) {
            let known = self.all.iter().position(|group| group.path == path[..end]);
            last = known.unwrap_or_else(|| {
                self.all.push(Group::new(&path[..end]));
                self.all.len() - 1
            });
        }
        Ok(last)
    }
}

fn weight(field: Node<'_>) -> Result<u32, Error> {
    let weight = within(field, "weight", 1..=10_000, "as cpu.weight; 100 is even")?;
    Ok(weight as u32)
}

fn within(
    field: Node<'_>,
    key: &str,
    range: RangeInclusive<u64>,
    meaning: &str,
) -> Result<u64, Error> {
    let number = u64::try_from(field.integer(key)?).ok().filter(|number| range.contains(number));
    let wanted = || {
        let (least, most) = (range.start(), range.end());
        field.error(format!("{key}: expected {least} to {most}, {meaning}"))
    };
    number.ok_or_else(wanted)
}

/// The kernel's least quota and its least and greatest period, µs.
const QUOTA_US_MIN: u64 = 1_000;
const PERIOD_US: RangeInclusive<u64> = 1_000..=1_000_000;
/// Its period if none is given.
const PERIOD_US_DEFAULT: u64 = 100_000;

/// A limit in the kernel's format: `50000 100000`, `50000`, or `max`.
fn max(field: Node<'_>) -> Result<Option<Max>, Error> {
    let text = field.string("max")?;
    let wanted = || {
        let of = "µs of CPU time and of the period, such as \"50000 100000\", or \"max\"";
        field.error(format!("max: expected {of}, found {text:?}"))
    };
    let mut words = text.split_ascii_whitespace();
    let quota = words.next().ok_or_else(wanted)?;
    let period_us = words.next().map_or(Ok(PERIOD_US_DEFAULT), str::parse);
    let period_us = period_us.ok().filter(|us| PERIOD_US.contains(us)).ok_or_else(wanted)?;
    if words.next().is_some() {
        return Err(wanted());
    }
    if quota == "max" {
        return Ok(None);
    }
    let quota_us = quota.parse().ok().filter(|us| *us >= QUOTA_US_MIN).ok_or_else(wanted)?;
    Ok(Some(Max { quota_us, period_us, burst_us: 0 }))
}

#[cfg(test)]
mod tests {
    use crate::rtapp::parse;
    use crate::{Dialect, Max, write};

    const TEXT: &str = r#"{ "tasks": {
        "a": {"run": 10, "taskgroup": "/web/workers", "loop": 1},
        "b": {"run": 10, "taskgroup": "/batch", "loop": 1} },
        "taskgroups": {"/web": {"weight": 400, "burst": 10000, "max": "50000 100000"}, "/batch": {"idle": true}} }"#;

    #[test]
    fn a_group_brings_those_that_it_is_in() {
        let workload = parse("f", TEXT).unwrap();
        let group = |at: usize| &workload.groups[workload.tasks[at].group.unwrap()];
        assert_eq!((group(0).path.as_str(), group(0).weight), ("/web/workers", 100));
        assert_eq!((group(1).path.as_str(), group(1).parent()), ("/batch", ""));
        assert_eq!(group(0).parent(), "/web");
        let web = workload.groups.iter().find(|group| group.path == "/web").unwrap();
        assert_eq!(web.weight, 400);
        assert_eq!(web.max, Some(Max { quota_us: 50_000, period_us: 100_000, burst_us: 10_000 }));
        assert!(group(1).idle && !web.idle);
        let again = parse("f", &write(&workload, Dialect::Paceline).unwrap()).unwrap();
        assert_eq!(again.groups.iter().find(|group| group.path == "/web"), Some(web));
        let groups = |workload: &crate::Workload| {
            let of = |task: &crate::Task| workload.groups[task.group.unwrap()].clone();
            workload.tasks.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(groups(&again), groups(&workload));
    }

    #[test]
    fn what_is_no_path_or_no_weight_is_refused() {
        for (from, to, said) in [
            ("\"/batch\"", "\"batch\"", "taskgroup: expected a path from the root"),
            ("\"/batch\"", "\"/../up\"", "taskgroup: expected a path"),
            ("400", "0", "f:4: weight: expected 1 to 10000"),
            ("\"weight\"", "\"heavy\"", "/web: heavy is not known; there are weight, idle, max"),
            ("50000 ", "500 ", "max: expected µs of CPU time and of the period"),
            (" 100000", " 10 ms", "such as \"50000 100000\", or \"max\", found \"50000 10 ms\""),
            ("10000,", "60000,", "burst: expected 0 to 50000, µs, at most the quota of max"),
        ] {
            let error = parse("f", &TEXT.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
