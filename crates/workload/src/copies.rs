// SPDX-License-Identifier: GPL-2.0-only
//! A workload several times side by side.

use crate::model::{Task, Workload};
use crate::step::Moved;

impl Workload {
    /// So many of it side by side, each with objects and processes of its own. They share the cgroups. With more than
    /// one, its time is that from the start, even if the program reports its time by a clock of its own.
    #[must_use]
    pub fn copies(&self, count: usize) -> Workload {
        let processes = self.tasks.iter().map(|task| task.process + 1).max().unwrap_or(0);
        let mut all = Workload {
            tasks: Vec::new(),
            objects: Vec::new(),
            object_names: Vec::new(),
            ..self.clone()
        };
        for copy in 0..count {
            let by = Moved { objects: copy * self.objects.len(), tasks: copy * self.tasks.len() };
            let named = |name: &String| match copy {
                0 => name.clone(),
                _ => format!("{name}-{copy}"),
            };
            all.objects.extend_from_slice(&self.objects);
            all.object_names.extend(self.object_names.iter().map(named));
            all.tasks.extend(self.tasks.iter().map(|task| Task {
                name: named(&task.name),
                process: task.process + copy * processes,
                steps: task.steps.iter().map(|step| step.moved(by)).collect(),
                script: task.script.clone().map(|script| script.moved(by)),
                gil: task.gil.map(|gil| gil + by.objects),
                ..task.clone()
            }));
        }
        if count > 1 {
            all.timed_from = None;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Object, Step};

    #[test]
    fn a_copy_has_objects_tasks_and_processes_of_its_own() {
        let pipe = Object::Pipe { capacity: 1 };
        let steps = vec![
            Step::Fork(1),
            Step::Repeat { times: Some(2), steps: vec![Step::Read { channel: 1, bytes: 4 }] },
        ];
        let one = Workload {
            tasks: vec![
                Task { name: "make".into(), process: 1, steps, ..Task::default() },
                Task { name: "cc-0".into(), process: 2, forked: true, ..Task::default() },
            ],
            objects: vec![Object::Mutex, pipe.clone()],
            timed_from: Some(0),
            ..Workload::default()
        };
        assert_eq!(one.copies(1), one);
        let two = one.copies(2);
        let names: Vec<&str> = two.tasks.iter().map(|task| task.name.as_str()).collect();
        let processes: Vec<usize> = two.tasks.iter().map(|task| task.process).collect();
        assert_eq!(names, ["make", "cc-0", "make-1", "cc-0-1"]);
        assert_eq!(processes, [1, 2, 4, 5]);
        assert_eq!(two.objects[3], pipe);
        let moved = vec![
            Step::Fork(3),
            Step::Repeat { times: Some(2), steps: vec![Step::Read { channel: 3, bytes: 4 }] },
        ];
        assert_eq!((&two.tasks[2].steps, two.timed_from), (&moved, None));
    }
}
