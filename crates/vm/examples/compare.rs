// SPDX-License-Identifier: GPL-2.0-only
//! Runs a command in the guest under some policies and prints the outcomes: `paceline compare` without its reports, for
//! work on the guest itself.
//!
//! `compare [key=value ...] -- COMMAND`, with keys policy (`default;fifo`), cpus, nodes, smt, memory, clock, turn_us,
//! boots, runs, observe, locks, kernel, with. A command that ends in `.json` is an rt-app file. In the environment,
//! VERBOSE prints each outcome in full, and EVENTS names a folder for the scheduling events of each run.

use std::path::PathBuf;
use std::time::Duration;

use indicatif::MultiProgress;
use policies::POLICIES;
use policy::Instance;
use vm::{PolicyRef, Request, WorkloadRef};

fn main() -> anyhow::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("guest") {
        vm::guest::main(&POLICIES);
    }
    let mut words = std::env::args_os().skip(1);
    let nothing = WorkloadRef::Command { argv: Vec::new(), with: Vec::new() };
    let mut request = Request { observe: true, ..Request::new(vec![PolicyRef::Default], nothing) };
    let mut files = Vec::new();
    for word in words.by_ref().map(|word| word.to_string_lossy().into_owned()) {
        if word == "--" {
            break;
        }
        let (key, value) = word.split_once('=').unwrap_or((&word, ""));
        match key {
            "policy" => request.policies = policies(value)?,
            "cpus" => request.shape.cpus = value.parse()?,
            "nodes" => request.shape.nodes = value.parse()?,
            "smt" => request.shape.smt = value.parse()?,
            "memory" => request.shape.memory_mib = value.parse()?,
            "clock" => request.clock = serde_json::from_value(value.into())?,
            "turn_us" => request.turn = Some(Duration::from_micros(value.parse()?)),
            "boots" => request.boots = value.parse()?,
            "runs" => request.runs_per_boot = value.parse()?,
            "seed" => request.seed = value.parse()?,
            "observe" => request.observe = value.parse()?,
            "locks" => request.count_locks = value.parse()?,
            "kernel" => request.kernel = Some(value.into()),
            "with" => files.push(PathBuf::from(value)),
            _ => anyhow::bail!("no key is called {key}"),
        }
    }
    let argv: Vec<_> = words.collect();
    request.workload = match argv.first().map(|word| word.to_string_lossy().into_owned()) {
        Some(name) if name.ends_with(".json") => {
            WorkloadRef::RtApp { json: std::fs::read_to_string(&name)?, name }
        }
        _ => WorkloadRef::Command { argv, with: files },
    };
    let runs = vm::run_traced(&request, &std::env::current_exe()?, &MultiProgress::new())?;
    for vm::Traced { outcome, events, .. } in &runs {
        let seen = &outcome.observed;
        println!(
            "{:<12} boot {} run {}  {:.4} s  switches {} involuntary {} mm {} migrations {} \
             idle-while-runnable {:.4} s ({:.4} s in flight) of {:.4} s  wait p99 {:.3} ms max {:.3} ms  locks {}",
            outcome.policy,
            outcome.boot,
            outcome.run,
            outcome.elapsed_ns as f64 / 1e9,
            seen.context_switches,
            seen.involuntary_switches,
            seen.address_space_switches,
            seen.migrations,
            seen.idle_while_runnable_ns as f64 / 1e9,
            seen.wakeup_in_flight_ns as f64 / 1e9,
            seen.elapsed_ns as f64 / 1e9,
            seen.wait.p99_ns as f64 / 1e6,
            seen.wait.max_ns as f64 / 1e6,
            outcome.locks.values().sum::<u64>(),
        );
        if std::env::var_os("VERBOSE").is_some() {
            println!("{}", serde_json::to_string_pretty(outcome)?);
        }
        if let Some(folder) = std::env::var_os("EVENTS") {
            let name = format!("{}-{}-{}", outcome.policy, outcome.boot, outcome.run);
            let lines = events.iter().map(|event| format!("{event:?}\n"));
            let lines = outcome.names.iter().map(|it| format!("{it:?}\n")).chain(lines);
            std::fs::write(PathBuf::from(folder).join(name), lines.collect::<String>())?;
        }
    }
    Ok(())
}

fn policies(text: &str) -> anyhow::Result<Vec<PolicyRef>> {
    let policy = |name: &str| match name {
        "default" => Ok(PolicyRef::Default),
        name => Ok(PolicyRef::Instance(Instance::parse(name, &POLICIES)?)),
    };
    text.split(';').map(policy).collect()
}
