// SPDX-License-Identifier: GPL-2.0-only
//! The components of a woken task's wait: all between the kernel's two tracepoints.

use machine::{Machine, Ticks};
use sim::{Scheduler, run};
use workload::{Act, Met, Step, Task, Then};

use crate::common::{MS, burn, cores, played, scenario, task, workload};

/// All waits of a task that is started, sleeps for `sleep_ns`, and is woken, alone on one CPU.
fn wait_ns(machine: Machine, sleep_ns: u64) -> u64 {
    let steps = vec![burn(1), Step::Sleep { ns: sleep_ns }, burn(1)];
    let scenario = scenario(machine, workload(vec![task("sleeper", steps)]), Scheduler::Default);
    let outcome = run(&scenario).unwrap();
    outcome.observed.tasks.values().map(|task| task.wait_ns).sum()
}

fn machine(ticks: Ticks) -> Machine {
    let mut machine = cores(1);
    machine.ticks = ticks;
    machine
}

const LONG_NS: u64 = 20_000_000;
const COST_NS: f64 = 50_000.0;

#[test]
fn the_switch_itself_is_no_wait() {
    let mut slow = machine(Ticks::Apart);
    slow.costs.register_switch_ns += COST_NS;
    assert_eq!(wait_ns(slow, LONG_NS), wait_ns(machine(Ticks::Apart), LONG_NS));
}

#[test]
fn leaving_idle_comes_before_the_wakeup_and_the_idle_loop_after_it() {
    let base_ns = wait_ns(machine(Ticks::Apart), LONG_NS);
    let mut deep = machine(Ticks::Apart);
    deep.costs.idle_exit_ns += COST_NS;
    assert_eq!(wait_ns(deep, LONG_NS), base_ns, "the interrupt is late, not the task");
    let mut long = machine(Ticks::Apart);
    long.from_idle.insert("cpu_idle_exit".into(), 1e5);
    assert!(wait_ns(long, LONG_NS) > base_ns + 10_000);
}

#[test]
fn a_stopped_tick_is_started_again_on_the_way() {
    let slow = || {
        let mut machine = machine(Ticks::Together);
        machine.costs.tick_restart_ns = COST_NS;
        machine
    };
    let (long, short) = (wait_ns(slow(), LONG_NS), wait_ns(slow(), 10_000));
    assert!(long >= short + COST_NS as u64, "{long} after ticks were stopped, else {short}");
    let base_ns = wait_ns(machine(Ticks::Apart), LONG_NS);
    assert_eq!(wait_ns(machine(Ticks::Together), LONG_NS), base_ns, "nothing else differs");
}

#[test]
fn an_observer_is_in_what_it_observes() {
    let mut observed = machine(Ticks::Apart);
    observed.costs.observe_before_ns = 300.0;
    observed.costs.observe_after_ns = 200.0;
    let base_ns = wait_ns(machine(Ticks::Apart), LONG_NS);
    assert_eq!(
        wait_ns(observed, LONG_NS),
        base_ns + 2 * 500,
        "of each wait the end of one event and the start of another"
    );
}

#[test]
fn what_was_recorded_has_the_making_and_the_end_of_a_thread_in_its_work() {
    let act = |then| Act { work_ns: MS as f32, met: Met::default(), then };
    let tasks = vec![
        played("maker", &[act(Then::Fork(1)), act(Then::End)]),
        Task { forked: true, ..played("thread", &[act(Then::End)]) },
    ];
    let outcome = run(&scenario(cores(2), workload(tasks), Scheduler::Default)).unwrap();
    let cpu_ns = |tid| outcome.observed.tasks[&tid].cpu_ns;
    assert!((2 * MS..2 * MS + 20_000).contains(&cpu_ns(1)), "{}", cpu_ns(1));
    assert!((MS..MS + 20_000).contains(&cpu_ns(2)), "{}", cpu_ns(2));
}
