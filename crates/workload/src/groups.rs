// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups in a workload file, with their weights.

use crate::Group;
use crate::json::{Error, Node};

/// The groups read so far.
#[derive(Default)]
pub(crate) struct Groups {
    pub(crate) all: Vec<Group>,
}

impl Groups {
    /// `"taskgroups"`: weights by path.
    pub(crate) fn declare(&mut self, node: Node<'_>) -> Result<(), Error> {
        for (path, value) in node.members("taskgroups")? {
            let at = self.enter(&path, value)?;
            for (key, field) in value.members(&path)? {
                if key != "weight" {
                    return Err(field.error(format!("{path}: {key} is not known; there is weight")));
                }
                let weight = field.integer("weight")?;
                let weight =
                    u32::try_from(weight).ok().filter(|weight| (1..=10_000).contains(weight));
                let wanted =
                    || field.error("weight: expected 1 to 10000, as cpu.weight; 100 is even");
                self.all[at].weight = weight.ok_or_else(wanted)?;
            }
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
                self.all.push(Group { path: path[..end].to_string(), weight: Group::WEIGHT });
                self.all.len() - 1
            });
        }
        Ok(last)
    }
}

#[cfg(test)]
mod tests {
    use crate::rtapp::parse;
    use crate::{Dialect, write};

    const TEXT: &str = r#"{ "tasks": {
        "a": {"run": 10, "taskgroup": "/web/workers", "loop": 1},
        "b": {"run": 10, "taskgroup": "/batch", "loop": 1} },
        "taskgroups": {"/web": {"weight": 400}} }"#;

    #[test]
    fn a_group_brings_those_that_it_is_in() {
        let workload = parse("f", TEXT).unwrap();
        let group = |at: usize| &workload.groups[workload.tasks[at].group.unwrap()];
        assert_eq!((group(0).path.as_str(), group(0).weight), ("/web/workers", 100));
        assert_eq!((group(1).path.as_str(), group(1).parent()), ("/batch", ""));
        assert_eq!(group(0).parent(), "/web");
        let web = workload.groups.iter().find(|group| group.path == "/web").unwrap();
        assert_eq!(web.weight, 400);
        let again = parse("f", &write(&workload, Dialect::Paceline).unwrap()).unwrap();
        let paths = |workload: &crate::Workload| {
            let of = |task: &crate::Task| workload.groups[task.group.unwrap()].clone();
            workload.tasks.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(paths(&again), paths(&workload));
    }

    #[test]
    fn what_is_no_path_or_no_weight_is_refused() {
        for (from, to, said) in [
            ("\"/batch\"", "\"batch\"", "f:3: taskgroup: expected a path from the root"),
            ("\"/batch\"", "\"/../up\"", "taskgroup: expected a path"),
            ("400", "0", "f:4: weight: expected 1 to 10000"),
            ("\"weight\"", "\"heavy\"", "/web: heavy is not known; there is weight"),
        ] {
            let error = parse("f", &TEXT.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
