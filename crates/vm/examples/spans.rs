// SPDX-License-Identifier: GPL-2.0-only
//! Measures the path of a wakeup to an idle CPU, step by step: `[paths]`, `[from-idle]` and some costs of
//! machines/icount-2x4.toml.
//!
//! `spans FILE` runs an rt-app file in that machine's guest, observed, under Linux's own class and under flsched, with
//! a plugin of QEMU (plugin/spans.c). For each frequent path it prints how many instructions lie between its functions,
//! from the interrupt that wakes the CPU to the switch. It also prints the instructions of a system call.
//!
//! It needs a QEMU with plugins of API version 1 (4.2 to 8.2), and clang.

mod plugin;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use indicatif::MultiProgress;
use policies::POLICIES;
use policy::Instance;
use vm::{PolicyRef, Request, Shape, WorkloadRef};

/// Functions at which a step may begin or end, by their names in Linux 7.2.
const SYMBOLS: &[&str] = &[
    "asm_sysvec_apic_timer_interrupt",
    "asm_sysvec_call_function_single",
    "sched_ttwu_pending",
    "hrtimer_wakeup",
    "try_to_wake_up",
    "bpf_trace_run1",
    "bpf_ktime_get_ns",
    "irq_exit_rcu",
    "__hrtimer_rearm_deferred",
    "ct_idle_exit",
    "tick_nohz_idle_exit",
    "tick_nohz_restart_sched_tick",
    "clockevents_program_event",
    "schedule_idle",
    "__schedule",
    "update_rq_clock",
    "pick_task_fair",
    "pick_task_scx",
    "do_pick_task_scx",
    "put_prev_task_idle",
    "__scx_update_idle",
    "set_next_task_fair",
    "set_next_task_scx",
    "psi_task_switch",
    "bpf_trace_run4",
    "switch_mm_irqs_off",
    "__switch_to_asm",
    "pv_native_safe_halt",
    "do_syscall_64",
    "futex_wake",
    "__futex_wait",
    "hrtimer_nanosleep",
    "__x64_sys_clock_gettime",
];
const INTERRUPTS: [&str; 2] = [SYMBOLS[0], SYMBOLS[1]];
const HALT: &str = "pv_native_safe_halt";
const SWITCH: &str = "__switch_to_asm";
/// The observer reads the clock.
const STAMP: &str = "bpf_ktime_get_ns";
const LOOK: &str = "__x64_sys_clock_gettime";
/// The workload reads the clock this late only if its work was expected to take longer.
const LATE: u64 = 20_000;
/// A path taken less often is not printed.
const OFTEN: usize = 100;

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let file = match words.next().as_deref() {
        Some("guest") => vm::guest::main(&POLICIES),
        Some(file) => file.to_string(),
        None => anyhow::bail!("spans FILE"),
    };
    let scratch = tempfile::tempdir()?;
    let plugin = plugin::build("spans", scratch.path())?.display().to_string();
    let symbols = symbols(&plugin, scratch.path())?;
    for policy in ["default", "flsched"] {
        let out = scratch.path().join(policy);
        let workload = WorkloadRef::RtApp { json: fs::read_to_string(&file)?, name: file.clone() };
        let options = format!("{plugin},symbols={symbols},out={}", out.display());
        boot(policy, workload, 8, options)?;
        print(policy, &read(&out)?);
    }
    Ok(())
}

/// Writes the addresses of all symbols. The plugin's presence keeps them the same in every boot.
fn symbols(plugin: &str, scratch: &Path) -> anyhow::Result<String> {
    let command = format!("grep -E ' [tTwW] ({})$' /proc/kallsyms", SYMBOLS.join("|"));
    let argv = ["sh", "-c", &command].iter().map(Into::into).collect();
    let workload = WorkloadRef::Command { argv, with: Vec::new() };
    let output = boot("default", workload, 1, format!("{plugin},out=/dev/null"))?;
    let lines = output.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        Some(format!("{} {}\n", words.next()?, words.nth(1)?))
    });
    let path = scratch.join("symbols");
    fs::write(&path, lines.collect::<String>())?;
    Ok(path.display().to_string())
}

fn boot(
    policy: &str,
    workload: WorkloadRef,
    cpus: usize,
    plugin: String,
) -> anyhow::Result<String> {
    let policy = match policy {
        "default" => PolicyRef::Default,
        name => PolicyRef::Instance(Instance::parse(name, &POLICIES)?),
    };
    let request = Request {
        shape: Shape { cpus, nodes: cpus.div_ceil(4), ..Shape::default() },
        turn: Some(Duration::from_micros(10)),
        observe: cpus > 1,
        plugin: Some(plugin),
        ..Request::new(vec![policy], workload)
    };
    let outcomes = vm::run(&request, &std::env::current_exe()?, &MultiProgress::new())?;
    Ok(outcomes.into_iter().next().context("the guest ran nothing")?.output)
}

/// By CPU: the functions it entered, and its instruction count at each.
type Entered = BTreeMap<u32, Vec<(u64, &'static str)>>;

fn read(path: &Path) -> anyhow::Result<Entered> {
    let mut entered = Entered::new();
    for line in BufReader::new(fs::File::open(path)?).lines() {
        let line = line?;
        let mut words = line.split(' ');
        let (Some(cpu), Some(at), Some(name)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let name = SYMBOLS.iter().find(|known| **known == name).copied().unwrap_or("bpf");
        entered.entry(cpu.parse()?).or_default().push((at.parse()?, name));
    }
    Ok(entered)
}

/// All paths of one kind: the functions entered, and the instructions from the first entry to each.
type Ways = BTreeMap<Vec<&'static str>, Vec<Vec<u64>>>;

fn print(policy: &str, entered: &Entered) {
    let mut ways = Ways::new();
    let (mut looks, mut calls) = (Vec::new(), BTreeMap::<_, Vec<u64>>::new());
    for events in entered.values() {
        wakeups(events, &mut ways);
        for pair in events.windows(2) {
            if let [
                (from, "do_syscall_64" | "futex_wake" | "__futex_wait" | "update_rq_clock" | LOOK),
                (to, next),
            ] = pair
            {
                calls.entry((pair[0].1, *next)).or_default().push(to - from);
            }
        }
        looks.extend(last_looks(events));
    }
    let mut ways: Vec<_> = ways.into_iter().filter(|(_, all)| all.len() >= OFTEN).collect();
    ways.sort_by_key(|(_, all)| std::cmp::Reverse(all.len()));
    for (names, all) in ways {
        let first = names.iter().position(|name| *name == STAMP).unwrap_or(0);
        let last = names.iter().rposition(|name| *name == STAMP).unwrap_or(0);
        let waits = all.iter().map(|way| way[last] - way[first]).collect();
        println!("{policy}: {} ways, {} between the observer's clocks", all.len(), median(waits));
        for step in 1..names.len() {
            let steps = all.iter().map(|way| way[step] - way[step - 1]).collect();
            println!("{:>8}  to {}", median(steps), names[step]);
        }
    }
    for ((from, to), spans) in calls.into_iter().filter(|(_, spans)| spans.len() >= OFTEN) {
        println!(
            "{policy}: {:>6} from {from} to {to} ({} times)",
            median(spans.clone()),
            spans.len()
        );
    }
    let mean = looks.iter().sum::<u64>() / looks.len().max(1) as u64;
    println!(
        "{policy}: {mean} between the last two looks at the CPU clock ({} times)",
        looks.len()
    );
}

/// From an interrupt that ends a sleep to the switch to the woken task.
fn wakeups(events: &[(u64, &'static str)], ways: &mut Ways) {
    let starts = (1..events.len())
        .filter(|at| INTERRUPTS.contains(&events[*at].1) && events[at - 1].1 == HALT);
    for start in starts {
        let way = &events[start..];
        let Some(end) = way.iter().position(|(_, name)| [HALT, SWITCH].contains(name)) else {
            continue;
        };
        let stamps = way[..end].iter().filter(|(_, name)| *name == STAMP).count();
        if way[end].1 == SWITCH && stamps == 2 {
            let names = way[..=end].iter().map(|(_, name)| *name).collect();
            let spans = way[..=end].iter().map(|(at, _)| at - way[0].0).collect();
            ways.entry(names).or_default().push(spans);
        }
    }
}

/// Instructions between the last two reads of the CPU clock before a task waits or wakes. Skipped if another task ran
/// in between, or if the work was done long before.
fn last_looks(events: &[(u64, &'static str)]) -> Vec<u64> {
    let (mut before, mut last, mut found) = (None, None, Vec::new());
    for (at, name) in events {
        match *name {
            LOOK => (before, last) = (last, Some(*at)),
            "futex_wake" | "hrtimer_nanosleep" => {
                if let (Some(before), Some(last)) = (before, last) {
                    found.extend(Some(last - before).filter(|span| *span < LATE));
                }
                (before, last) = (None, None);
            }
            SWITCH => (before, last) = (None, None),
            _ => {}
        }
    }
    found
}

fn median(mut spans: Vec<u64>) -> u64 {
    spans.sort_unstable();
    spans.get(spans.len() / 2).copied().unwrap_or(0)
}
