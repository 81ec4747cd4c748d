// SPDX-License-Identifier: GPL-2.0-only
//! Costs of the kernel that no program can measure by themselves. Each is set so that the simulator predicts one small
//! experiment's measurement. Three of them are rings that `check.rs` shows too, as fitted.
//!
//! The model's shortest rings preempt less often than the kernel's do, so a wakeup's cost there is fitted as a whole,
//! including preemptions.
//!
//! In this order, as each needs those before it:
//!
//! | number | experiment |
//! |---|---|
//! | `kernel_cpi` | one task that yields: a system call through the scheduler, without a switch |
//! | `register_switch_ns` | two threads that yield to each other: a switch more |
//! | `mm_switch_ns` | two processes that do: another address space |
//! | lengths of `pipe_write`, `pipe_read` | one task that passes a token to itself |
//! | lengths of delayed sleeps | two threads that pass a token: a wakeup and a sleep more |
//! | lengths of `dequeue_task_fair`, `enqueue_task_fair` | five of them: sleeps to the end |
//! | `itlb_miss_ns` | more batch processes than the TLB has tags, less as many as it has |
//! | `idle_exit_ns` | two threads on two CPUs that pass a token |

use live::measure::{Passers, Reading};
use machine::{Machine, Paths};

use super::predict::{Program, hop_ns, yield_ns};
use super::raw::{ALONE, FULL, Raw, RingKey, Yielders};

/// Results of a fit, by name: None is a number that could not be fitted.
#[derive(Debug, Default)]
pub struct Fitted {
    pub kernel_cpi: Option<f64>,
    pub register_switch_ns: Option<f64>,
    pub mm_switch_ns: Option<f64>,
    /// Factor of path lengths.
    pub pipe: Option<f64>,
    pub delayed: Option<f64>,
    pub full: Option<f64>,
    pub itlb_miss_ns: Option<f64>,
    pub idle_exit_ns: Option<f64>,
}

const PIPE: [&str; 2] = ["pipe_write", "pipe_read"];
const QUEUE: [&str; 2] = ["enqueue_task_fair", "dequeue_task_fair"];

/// Fits every number with readings. `machine` has everything else already.
pub fn fit(mut machine: Machine, raw: &Raw, program: &Program) -> Fitted {
    let paths = Paths::embedded();
    let mut fitted = Fitted::default();
    // The ring's working sets are known, so these costs do not apply.
    (machine.costs.mm_refill_ns, machine.costs.switch_refill_ns) = (0.0, 0.0);
    // Unknown numbers count as nothing, or the simulator would refuse.
    machine.unknown.clear();
    let yields = |yielders: Yielders| move |machine: &Machine| yield_ns(machine, program, yielders);
    let hops = |key: RingKey| move |machine: &Machine| hop_ns(machine, program, key);
    let threads = |tasks| RingKey::new(Passers::Threads, tasks, 0);
    let read = |yielders: Yielders| raw.yields_ns.get(&yielders);
    let hop = |key: RingKey| raw.hops_ns.get(&key);

    let (one, two) = ((Passers::Threads, 1), (Passers::Threads, 2));
    let cpi = |machine: &mut Machine, value: f64| machine.costs.kernel_cpi = value;
    fitted.kernel_cpi = solve(&mut machine, (0.05, 20.0), cpi, read(one), yields(one));
    if fitted.kernel_cpi.is_none() {
        // All other numbers depend on it.
        return fitted;
    }
    let switch = |machine: &mut Machine, value: f64| machine.costs.register_switch_ns = value;
    fitted.register_switch_ns = solve(&mut machine, (0.0, 1e5), switch, read(two), yields(two));
    let two = (Passers::Processes, 2);
    let mm = |machine: &mut Machine, value: f64| machine.costs.mm_switch_ns = value;
    fitted.mm_switch_ns = solve(&mut machine, (0.0, 1e5), mm, read(two), yields(two));

    let pipe = |machine: &mut Machine, value: f64| {
        scale(&mut machine.paths, &paths, &PIPE, value);
    };
    fitted.pipe = solve(&mut machine, (0.0, 50.0), pipe, hop(ALONE), hops(ALONE));
    let delayed = |machine: &mut Machine, value: f64| {
        scale(&mut machine.delayed, &paths, &QUEUE, value);
        scale(&mut machine.paths, &paths, &QUEUE, value);
    };
    let key = threads(2);
    fitted.delayed = solve(&mut machine, (0.0, 50.0), delayed, hop(key), hops(key));
    let least = fitted.delayed.unwrap_or(0.0);
    let full = |machine: &mut Machine, value: f64| {
        scale(&mut machine.paths, &paths, &QUEUE, value);
    };
    let key = threads(FULL);
    fitted.full = solve(&mut machine, (least, 50.0), full, hop(key), hops(key));

    fitted.itlb_miss_ns = flushed(&mut machine, raw, program);
    let key = RingKey { apart: true, ..RingKey::new(Passers::Threads, 2, 0) };
    let exit = |machine: &mut Machine, value: f64| machine.costs.idle_exit_ns = value;
    fitted.idle_exit_ns = solve(&mut machine, (0.0, 1e6), exit, hop(key), hops(key));
    fitted
}

/// Cost of a page of code after a flush took its TLB entry. It is set so that the step from as many processes as there
/// are tags to more matches the measurement; the flush itself is included.
fn flushed(machine: &mut Machine, raw: &Raw, program: &Program) -> Option<f64> {
    let (few, many) = raw.spaces();
    let ring = |tasks| RingKey::new(Passers::Processes, tasks, 0).batch();
    let median = |tasks| raw.hops_ns.get(&ring(tasks)).map(|reading| reading.median);
    let step_ns = median(many)? - median(few)?;
    let predicted = |machine: &Machine| {
        Some(hop_ns(machine, program, ring(many))? - hop_ns(machine, program, ring(few))?)
    };
    let set = |machine: &mut Machine, value: f64| {
        if let Some(memory) = &mut machine.memory {
            memory.itlb_miss_ns = value;
        }
    };
    let step = Reading { median: step_ns, low: step_ns, high: step_ns };
    machine.memory.as_ref()?;
    solve(machine, (0.0, 1e4), set, Some(&step), predicted)
}

fn scale(
    lengths: &mut std::collections::BTreeMap<String, f64>,
    paths: &Paths,
    names: &[&str],
    factor: f64,
) {
    for name in names {
        let length = paths.get(paths.id(name)).instructions;
        lengths.insert((*name).to_string(), factor * length);
    }
}

/// Sets a number so that a prediction matches the measurement, by the rule of false position. If the number would have
/// to be a little beyond its bounds, it is set to the bound. None: nothing was measured or predicted, or no number
/// makes the two agree.
fn solve(
    machine: &mut Machine,
    (low, high): (f64, f64),
    set: impl Fn(&mut Machine, f64),
    measured: Option<&Reading>,
    predict: impl Fn(&Machine) -> Option<f64>,
) -> Option<f64> {
    const STEPS: usize = 12;
    const CLOSE: f64 = 0.002;
    const FAR: f64 = 0.1;
    let goal = measured?.median;
    let mut at = |value: f64| {
        set(machine, value);
        predict(machine).map(|predicted| predicted - goal)
    };
    // The simulator's clock has whole ns, so the first two values must differ enough.
    let (mut a, mut b) =
        if high > 1e3 { (50.0, 150.0) } else { (1f64.max(low), 1.5f64.max(2.0 * low)) };
    let (mut at_a, mut at_b) = (at(a)?, at(b)?);
    for _ in 0..STEPS {
        if at_b.abs() <= CLOSE * goal.abs() || at_a == at_b {
            break;
        }
        let next = (b - at_b * (b - a) / (at_b - at_a)).clamp(low, high);
        (a, at_a) = (b, at_b);
        (b, at_b) = (next, at(next)?);
        if a == b {
            break;
        }
    }
    // At a bound it may be a little off; if it is more, something else is wrong.
    (at_b.abs() <= FAR * goal.abs()).then_some(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn solved(bounds: (f64, f64), goal: f64) -> f64 {
        let mut machine = machine::find("numa-2x4").unwrap();
        let measured = Reading { median: goal, low: goal, high: goal };
        let set = |machine: &mut Machine, value: f64| machine.costs.syscall_ns = value;
        let predict = |machine: &Machine| Some(200.0 + 3.0 * machine.costs.syscall_ns);
        let found = solve(&mut machine, bounds, set, Some(&measured), predict).unwrap();
        assert_eq!(machine.costs.syscall_ns, found, "the machine has what was found");
        found
    }

    #[test]
    fn a_number_is_found_within_its_bounds() {
        assert!((solved((0.0, 1e6), 800.0) - 200.0).abs() < 1.0);
        assert_eq!(solved((0.0, 1e6), 190.0), 0.0, "a little less than nothing is nothing");
        assert!((solved((3.0, 50.0), 230.0) - 10.0).abs() < 0.5);
    }

    #[test]
    fn what_was_not_measured_is_not_found() {
        let mut machine = machine::find("numa-2x4").unwrap();
        let much = Reading { median: 100.0, low: 100.0, high: 100.0 };
        let never = |_: &Machine| Some(5.0);
        assert_eq!(solve(&mut machine, (0.0, 1.0), |_, _| {}, Some(&much), never), None);
        assert_eq!(solve(&mut machine, (0.0, 1.0), |_, _| {}, None, |_| Some(1.0)), None);
    }
}
