// SPDX-License-Identifier: GPL-2.0-only
//! `run --by affinity`: shares of uneven cores, or places in memory domains, through threads' masks of CPUs. It works
//! where no scheduler can be loaded.

use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use live::affinity::{Had, Steered, Steering, TURN};
use live::{Glance, Standing};
use policy::{Binds, Instance, Told, Topology};
use report::text::plural;
use serde_json::json;
use service::Known;
use terminal::{Failure, failed, interrupt, output};

use crate::cli::{Counter, Run};
use crate::ending::{End, conclude, released, start};
use crate::placed::Moves;
use crate::telling::tell;

/// Runs it until something ends it; then restores every thread's own mask.
pub fn run(
    args: &Run,
    instance: &Instance,
    topology: &Topology,
    known: &mut Known,
    every: Duration,
    until: Option<Duration>,
) -> Result<(), Failure> {
    let control =
        instance.policy.control.map(|plan| (plan.begin)(instance, topology, &known.profile()));
    let control = control.filter(|control| control.binds() != Binds::Nothing);
    let Some(control) = control else {
        return Err(Failure::input(format!(
            "{} decides in the kernel alone: --by affinity is for policies of uneven cores, such as min-fair, and of \
             memory domains, such as dino",
            instance.policy.name
        )));
    };
    if instance.promises().heeds_cgroup_weights {
        return Err(Failure::input(
            "tenant=cgroup needs sched_ext; with --by affinity Linux's own class heeds cpu.weight",
        ));
    }
    match control.binds() {
        Binds::Domains(cpus) if cpus.iter().filter(|cpus| !cpus.is_empty()).count() < 2 => {
            return Err(Failure::input(
                "this machine has one memory domain: nothing to place, and nowhere to move",
            ));
        }
        Binds::Kinds if topology.kinds() < 2 => {
            return Err(Failure::input(
                "all cores of this machine are alike, as far as the kernel tells: nothing to share; name them with \
                 --core-types",
            ));
        }
        _ => {}
    }
    if args.partial && args.command.is_empty() {
        return Err(Failure::input(
            "--partial --by affinity steers a command and its children: name one after --",
        ));
    }
    let standing = Standing::now();
    let (stop, suspended) = (interrupt::in_charge()?, interrupt::suspends()?);
    output::wait_for_nobody();
    // It also works from the ordinary class, but its turns come later when the machine is full.
    let _ = live::outrank_policies();
    let mut child = match args.command.is_empty() || stop.load(Ordering::Relaxed) {
        true => None,
        false => Some(start(args, standing)?),
    };
    let whose = match (&child, args.partial) {
        (Some(child), true) => Steered::Process(child.id()),
        _ => Steered::All,
    };
    let event = args.counting().event;
    let began = Steering::begin(control, topology, whose, event);
    let mut steering = match began {
        Ok(steering) => steering,
        Err(error) => {
            let goes_on = if child.is_some() { "; the command goes on without it" } else { "" };
            output::say(&format!("paceline: {error:#}{goes_on}"));
            return conclude(Ok(End::Kernel), Ok(()), child, &suspended);
        }
    };
    let label = &instance.label;
    let threads =
        if args.partial { "the command's threads" } else { "all threads but real-time ones" };
    output::say(&format!(
        "paceline: {label} says by masks of CPUs where {threads} run; Ctrl-C ends it"
    ));
    let from = match instance.policy.told(topology.kinds()) {
        Some(Told::Misses) => known.misses(live::counts_misses()),
        _ => known.speeds_by(steering.counts().map(|()| match args.counter {
            Counter::CpuClock => "cpu-clock of each thread".to_string(),
            Counter::Own | Counter::Off => "instructions of each thread".to_string(),
        })),
    };
    output::say(&format!("paceline: {from}"));
    if args.command.is_empty() {
        known.warn();
    }
    let started = Instant::now();
    let ended = watch(args, label, &mut steering, child.as_mut(), known, (every, until), &stop);
    let (learned, had) = (steering.knows().learned, steering.had());
    let given = steering.end().map_err(failed);
    // The disk may be slow or gone.
    known.keep(learned);
    released();
    let said = match (&ended, given) {
        (Ok(end), Ok(given)) => tell_end(args, label, started.elapsed(), end, &had, given),
        (_, given) => given.map(|_| ()),
    };
    conclude(ended, said, child, &suspended)
}

/// The last lines: why it ended, and the CPU time of each task that ran.
fn tell_end(
    args: &Run,
    label: &str,
    passed: Duration,
    end: &End,
    had: &[Had],
    given: usize,
) -> Result<(), Failure> {
    let why = match end {
        End::Time => "its time is over",
        End::Command(_) => "the command has ended",
        End::Unread => "its lines are not read any more",
        End::Interrupted | End::Kernel => "interrupted",
    };
    output::say(&format!(
        "paceline: {label}: ended after {:.1} s, {why}; {} got the own mask back",
        passed.as_secs_f64(),
        plural(given, "thread")
    ));
    if !args.json || *end == End::Unread {
        return Ok(());
    }
    let task = |had: &Had| match had.domain {
        Some(domain) => {
            json!({"tid": had.tid, "name": had.name, "domain": domain, "kind_ms": had.kind_ms})
        }
        None => json!({"tid": had.tid, "name": had.name, "kind_ms": had.kind_ms}),
    };
    let end = json!({
        "t_s": passed.as_secs_f64(), "policy": label, "ended": why,
        "tasks": had.iter().map(task).collect::<Vec<_>>(),
    });
    output::print(&format!("{end}\n"))
}

fn watch(
    args: &Run,
    label: &str,
    steering: &mut Steering,
    mut child: Option<&mut Child>,
    known: &mut Known,
    (every, until): (Duration, Option<Duration>),
    stop: &AtomicBool,
) -> Result<End, Failure> {
    let started = Instant::now();
    let mut last = Glance::now().map_err(failed)?;
    let (mut next, mut turn) = (every, Duration::ZERO);
    let mut moves = Moves::default();
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(End::Interrupted);
        }
        let ended = child.as_mut().map(|child| child.try_wait()).transpose();
        if let Some(status) = ended.map_err(|error| failed(error.into()))?.flatten() {
            return Ok(End::Command(status));
        }
        let passed = started.elapsed();
        if until.is_some_and(|until| passed >= until) {
            return Ok(End::Time);
        }
        if passed >= turn {
            steering.turn().map_err(failed)?;
            // A late turn is not made up for.
            turn = started.elapsed() + TURN;
        }
        if passed >= next {
            next = started.elapsed() + every;
            let now = Glance::now().map_err(failed)?;
            let (load, knows) = (now.since(&last), steering.knows());
            last = now;
            known.keep_now_and_then(|| knows.learned.clone(), passed);
            match tell(args.json, label, passed, &load, Some(knows), &mut moves) {
                Err(Failure::Closed) => return Ok(End::Unread),
                told => told?,
            }
        }
        let passed = started.elapsed();
        let rest = [Some(turn), Some(next), until].into_iter().flatten().min().unwrap_or(turn);
        thread::sleep(rest.saturating_sub(passed).min(TURN));
    }
}
