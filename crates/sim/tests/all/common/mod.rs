// SPDX-License-Identifier: GPL-2.0-only
//! Policies for one test each, compiled when the test runs.

pub mod groups;

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use machine::Machine;
use policy::{Build, Instance, Object, Policy, Promises};
use sim::{Record, Scenario, Scheduler};
use workload::{Act, Cut, Demand, Script, Step, Task, Workload};

pub const MS: u64 = 1_000_000;

/// Linux's own two, and a policy of each build. The baselines stay away: they do no more than a comparison needs, and
/// heed neither real-time tasks nor CPUs that go.
pub fn every_scheduler() -> Vec<Scheduler> {
    let baselines = policies::folder_of(&baseline::FIFO).expect("it ships").policies;
    let is_baseline = |policy: &Policy| baselines.iter().any(|other| other.name == policy.name);
    let policies = policies::BUILDS.iter().filter(|policy| !is_baseline(policy));
    let policies = policies.map(|policy| Scheduler::Policy(Instance::default(policy)));
    [Scheduler::Default, Scheduler::Cfs].into_iter().chain(policies).collect()
}

/// Linux's own class by the name `default`, or a policy that ships, with its knobs.
pub fn named(policy: &str) -> Scheduler {
    match policy {
        "default" => Scheduler::Default,
        _ => Scheduler::Policy(Instance::parse(policy, &policies::POLICIES).unwrap()),
    }
}

/// Memory-bound tasks that never wait, each a process.
pub fn devils(count: usize) -> Vec<Task> {
    let devil = |at: usize| Task {
        name: format!("devil-{at}"),
        process: at + 1,
        steps: vec![Step::Run { work_ns: 1_000_000 * MS }],
        memory: Some(Demand { mpki: 30.0, cpi: 0.8, bytes: 64 << 20, overlap: None }),
        ..Task::default()
    };
    (0..count).map(devil).collect()
}

/// The policy of `tests/policies/NAME.bpf.c`; its ops table is `NAME_ops`.
pub fn policy(name: &'static str) -> Scheduler {
    policy_that_promises(name, |_| Promises::default())
}

/// The same, held to `promises`.
pub fn policy_that_promises(name: &'static str, promises: fn(&Instance) -> Promises) -> Scheduler {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    policy_of(name, &here.join("tests/policies").join(format!("{name}.bpf.c")), promises)
}

/// The policy of a source file; its ops table is `NAME_ops`.
pub fn policy_of(
    name: &'static str,
    source: &Path,
    promises: fn(&Instance) -> Promises,
) -> Scheduler {
    // Tests run side by side: each compiles for itself.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let out = format!("{name}-{}-{number}", std::process::id());
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(out);
    std::fs::create_dir_all(&out).unwrap();
    let native = std::fs::read(policy_build::test_library(source, &out)).unwrap();
    std::fs::remove_dir_all(&out).unwrap();
    let build = Build { ops: name, native: Object::Plain(native.leak()), ..Build::NONE };
    let policy = Policy { name, build, promises, ..Policy::BARE };
    Scheduler::Policy(Instance::default(Box::leak(Box::new(policy))))
}

/// One node, one cache, `n` cores without SMT.
pub fn cores(n: usize) -> Machine {
    let text = include_str!("../../../../../machines/numa-2x4.toml");
    let text = text
        .replace("nodes = { value = 2", "nodes = { value = 1")
        .replace("cores_per_llc = { value = 4", &format!("cores_per_llc = {{ value = {n}"))
        .replace("[[10, 20], [20, 10]]", "[[10]]");
    Machine::from_toml(&text, "cores").unwrap()
}

/// A task that plays these acts, with no time subtracted.
pub fn played(name: &str, acts: &[Act]) -> Task {
    let script = Some(Script::new(acts.into(), [].into(), Cut::default(), 0.0));
    Task { script, ..task(name, Vec::new()) }
}

pub fn task(name: &str, steps: Vec<Step>) -> Task {
    Task { name: name.into(), steps, ..Task::default() }
}

pub fn burn(ms: u64) -> Step {
    Step::Run { work_ns: ms * MS }
}

pub fn workload(tasks: Vec<Task>) -> Workload {
    Workload { name: "test".into(), tasks, ..Workload::default() }
}

/// Recorded, without random variation of the work.
pub fn scenario(machine: Machine, workload: Workload, scheduler: Scheduler) -> Scenario {
    let mut scenario = Scenario::new(machine, workload, scheduler);
    scenario.options.record = Record { events: true, callbacks: true, ..Record::default() };
    scenario.options.jitter = 0.0;
    scenario
}
