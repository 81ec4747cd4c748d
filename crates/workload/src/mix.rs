// SPDX-License-Identifier: GPL-2.0-only
//! Yardsticks: CPU burners, and a mixed load.

use crate::hackbench::{Channel, Hackbench, Worker};
use crate::model::{Task, Workload};
use crate::step::{Object, Step};

/// `tasks` threads that burn `work_ns` of CPU time each and end.
pub fn burners(tasks: usize, work_ns: u64) -> Workload {
    let burner = |at| Task {
        name: format!("burner-{at}"),
        steps: vec![Step::Run { work_ns }],
        ..Task::default()
    };
    Workload {
        name: format!("{tasks} burners"),
        tasks: (0..tasks).map(burner).collect(),
        ..Workload::default()
    }
}

/// Hogs for half of `cpus`, as many sleepers, and one group of hackbench on pipes between
/// processes; hogs and sleepers go on for `duration_ns`, and the storm has messages for longer.
pub fn mixed(cpus: usize, duration_ns: u64) -> Workload {
    let storm = Hackbench {
        groups: 1,
        loops: 1_000_000,
        channel: Channel::Pipe,
        worker: Worker::Process,
        ..Hackbench::default()
    };
    let mut workload = storm.build();
    workload.name = format!("mixed load for {cpus} CPUs");
    add_hogs_and_sleepers(&mut workload, cpus, duration_ns);
    workload
}

/// The same without the storm.
pub fn hogs_and_sleepers(cpus: usize, duration_ns: u64) -> Workload {
    let name = format!("hogs and sleepers for {cpus} CPUs");
    let mut workload = Workload { name, ..Workload::default() };
    add_hogs_and_sleepers(&mut workload, cpus, duration_ns);
    workload
}

fn add_hogs_and_sleepers(workload: &mut Workload, cpus: usize, duration_ns: u64) {
    workload.duration_ns = Some(duration_ns);
    let forever = |steps| vec![Step::Repeat { times: None, steps }];
    for at in 0..cpus.div_ceil(2) {
        let process = workload.tasks.len();
        let name = format!("hog-{at}");
        let steps = forever(vec![Step::Run { work_ns: 10_000_000 }]);
        workload.tasks.push(Task { name, process, steps, ..Task::default() });

        workload.objects.push(Object::Timer);
        let timer = Step::Timer {
            timer: workload.objects.len() - 1,
            period_ns: 10_000_000,
            relative: true,
        };
        let process = workload.tasks.len();
        let name = format!("sleeper-{at}");
        let steps = forever(vec![Step::Run { work_ns: 500_000 }, timer]);
        workload.tasks.push(Task { name, process, steps, ..Task::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_cpus_have_a_hog() {
        for cpus in [1, 2, 8] {
            let workload = mixed(cpus, 1_000_000_000);
            let hogs = workload.tasks.iter().filter(|t| t.name.starts_with("hog-")).count();
            assert_eq!(hogs, cpus.div_ceil(2));
            assert_eq!(workload.tasks.len(), 41 + 2 * hogs);
            let calm = hogs_and_sleepers(cpus, 1_000_000_000);
            assert_eq!((calm.tasks.len(), calm.duration_ns), (2 * hogs, workload.duration_ns));
        }
    }

    #[test]
    fn burners_only_burn() {
        let workload = burners(3, 7);
        assert_eq!(workload.tasks.len(), 3);
        assert!(workload.tasks.iter().all(|t| t.steps == [Step::Run { work_ns: 7 }]));
    }
}
