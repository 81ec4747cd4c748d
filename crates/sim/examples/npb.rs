// SPDX-License-Identifier: GPL-2.0-only
//! The use of time by a model of the NAS benchmarks: `cargo run --release -p sim --example npb -- [NAME
//! [TASKS_PER_THREAD [STEPS [PLANES [MACHINE]]]]]`, under `cfs` and `flsched`.
//!
//! Time is cut into windows. For each it shows how many tasks ran, how many were stacked (runnable, and not running)
//! while CPUs were idle, and how many moved.

use policy::Instance;
use sim::{Record, Scenario, Scheduler, run_traced};
use trace::{Event, IDLE, Kind};
use workload::npb::{Npb, Size};

/// What happened in a window of time.
#[derive(Clone, Debug, Default)]
struct Window {
    /// CPU time in tasks, idle time, and time tasks waited for a CPU, in ns.
    busy_ns: u64,
    idle_ns: u64,
    waited_ns: u64,
    woken: usize,
    moved: usize,
    ends: usize,
    /// Most tasks that belonged to one CPU at a time.
    deepest: usize,
}

/// Folds events into windows of equal length.
fn windows(events: &[Event], cpus: usize, length_ns: u64) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    let (mut busy, mut waiting, mut at_ns) = (0u64, 0i64, 0);
    let mut last_cpu = std::collections::BTreeMap::new();
    let mut running = vec![IDLE; cpus];
    let mut queued = vec![0usize; cpus];
    let mut target = std::collections::BTreeMap::new();
    for event in events {
        while at_ns < event.t_ns {
            let index = (at_ns / length_ns) as usize;
            let until_ns = event.t_ns.min((index as u64 + 1) * length_ns);
            let span_ns = until_ns - at_ns;
            windows.resize_with(windows.len().max(index + 1), Window::default);
            windows[index].busy_ns += busy * span_ns;
            windows[index].idle_ns += (cpus as u64 - busy) * span_ns;
            windows[index].waited_ns += waiting.max(0) as u64 * span_ns;
            at_ns = until_ns;
        }
        let index = (event.t_ns / length_ns) as usize;
        windows.resize_with(windows.len().max(index + 1), Window::default);
        let window = &mut windows[index];
        match &event.kind {
            Kind::Wake { tid, target: cpu } => {
                (window.woken, waiting) = (window.woken + 1, waiting + 1);
                target.insert(*tid, *cpu as usize);
                queued[*cpu as usize] += 1;
                window.deepest = window.deepest.max(queued[*cpu as usize]);
            }
            Kind::Exit { .. } => window.ends += 1,
            Kind::Switch { next, prev_runnable, prev, .. } => {
                if *prev != IDLE && *prev_runnable {
                    waiting += 1;
                    target.insert(*prev, event.cpu as usize);
                    queued[event.cpu as usize] += 1;
                }
                if *next != IDLE {
                    waiting -= 1;
                    if let Some(cpu) = target.remove(next) {
                        queued[cpu] -= 1;
                    }
                    let before = last_cpu.insert(*next, event.cpu);
                    window.moved += usize::from(before.is_some_and(|cpu| cpu != event.cpu));
                }
                running[event.cpu as usize] = *next;
                busy = running.iter().filter(|tid| **tid != IDLE).count() as u64;
            }
            _ => {}
        }
    }
    windows
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "cg".into());
    let mut number = |or: u64| arguments.next().map_or(or, |text| text.parse().expect("a number"));
    let (tasks, steps, planes) = (number(1) as usize, number(5), number(100));
    let machine = arguments.next().unwrap_or_else(|| "xeon-phi-31s1p".into());
    let machine = machine::find(&machine).unwrap_or_else(|error| panic!("{error}"));
    let cpus = machine.cpus.len();
    let size = Size { threads: tasks * cpus, cpus, steps_max: steps, planes_max: planes, seed: 1 };
    let workload = Npb::embedded().build(&name, size).expect("one of bt cg ep ft is lu mg sp");
    for scheduler in [Scheduler::Cfs, Scheduler::Policy(Instance::default(&flsched::FLSCHED))] {
        let mut scenario = Scenario::new(machine.clone(), workload.clone(), scheduler);
        scenario.options.record = Record { events: true, ..Record::default() };
        let traced = run_traced(&scenario).unwrap_or_else(|error| panic!("{error}"));
        let outcome = &traced.outcome;
        let spent =
            |part: fn(&sim::Spent) -> u64| traced.spent.iter().map(part).sum::<u64>() as f64;
        println!(
            "{}: {:.3} ms; {} switches ({} involuntary), {} migrations; CPUs: user {:.1} ms, \
             kernel {:.1} ms, idle {:.1} ms, of it {:.1} ms while a task waited; longest wait {:.2} ms",
            outcome.policy,
            outcome.elapsed_ns as f64 / 1e6,
            outcome.observed.context_switches,
            outcome.observed.involuntary_switches,
            outcome.observed.migrations,
            spent(|cpu| cpu.user_ns) / 1e6,
            spent(|cpu| cpu.kernel_ns) / 1e6,
            spent(|cpu| cpu.idle_ns) / 1e6,
            outcome.observed.idle_while_runnable_ns as f64 / 1e6,
            outcome.observed.wait.max_ns as f64 / 1e6,
        );
        let length_ns = (outcome.elapsed_ns / 24).max(1);
        for (index, window) in windows(&traced.events, cpus, length_ns).iter().enumerate() {
            let mean = |ns: u64| ns as f64 / length_ns as f64;
            println!(
                "{:9.3} ms  busy {:6.1}  idle {:6.1}  waiting {:6.1}  woken {:5}  moved {:5}  \
                 ended {:4}  deepest {:3}",
                index as f64 * length_ns as f64 / 1e6,
                mean(window.busy_ns),
                mean(window.idle_ns),
                mean(window.waited_ns),
                window.woken,
                window.moved,
                window.ends,
                window.deepest,
            );
        }
    }
}
