// SPDX-License-Identifier: GPL-2.0-only
//! `run`: a policy in charge of this machine's own kernel, until it is told to end or has to.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use comparison::loading::{IGNORE_LIMITS, heed_limits, heed_numbers, may_load, outrank_policies};
use comparison::{POLICIES, contender, turbo};
use live::{Attached, Behind, Exit, Glance, Lookout, Scope, Standing};
use measuring::topology_here;
use policy::{Policy, Profile, Topology};
use report::text::plural;
use serde_json::json;
use service::Known;
use terminal::{Failure, failed, interrupt, output};

use crate::affinity;
use crate::cli::{By, Run};
use crate::ending::{End, conclude, released, start};
use crate::placed::Moves;
use crate::telling::{tell, warning, warning_json};

/// How often the kernel and the command are checked.
const LOOK: Duration = Duration::from_millis(200);
/// The shortest interval of statistics: at a shorter one this process does little else, and it precedes all other
/// tasks.
const STATS_MIN: Duration = Duration::from_millis(10);
/// How often it looks for tasks that wait behind a real-time task.
const LOOK_BEHIND: Duration = Duration::from_secs(2);
/// One part in this many of its time goes into that search.
const LOOK_BEHIND_SHARE: u32 = 50;
/// The kernel's reason is complete this long after it has ejected the policy.
const DUMP_TAKES: Duration = Duration::from_secs(2);
/// Longest time of an ejection: it waits for every task.
const THROWN_OUT_TAKES: Duration = Duration::from_secs(120);

/// Runs the policy.
pub fn run(args: &Run) -> Result<(), Failure> {
    let instance = contender::instance(&dry(args)?)?;
    mend()?;
    let every = positive("--stats", args.stats)?;
    if every < STATS_MIN {
        return Err(Failure::input("--stats: give it 10ms or more"));
    }
    let until = args.duration.map(|time| positive("--for", time)).transpose()?;
    if let Some(program) = args.command.first() {
        vm::which(program.as_ref()).map_err(Failure::input)?;
    }
    let topology = topology(args)?;
    let mut known = Known::new(&args.told(), &instance, &topology)?;
    if args.by == By::Affinity {
        return affinity::run(args, &instance, &topology, &mut known, every, until);
    }
    may_load()?;
    heed_numbers(&instance)?;
    let alone = args.partial && !args.command.is_empty();
    heed_limits(&instance, alone, args.ignore_cgroup_limits, IGNORE_LIMITS)?;
    let standing = Standing::now();
    let (stop, suspended) = (interrupt::in_charge()?, interrupt::suspends()?);
    output::wait_for_nobody();
    outrank_policies();
    let scope = if args.partial { Scope::Asking } else { Scope::All };
    let profile = known.profile();
    let attached =
        live::load(&instance, &topology, &profile, scope, args.counting()).map_err(failed)?;
    let started = Instant::now();
    output::say(&format!("paceline: {} is in charge of {}", instance.label, tasks_of(scope)));
    let from = known.sources(&instance, &topology, &attached);
    from.iter().for_each(|from| output::say(&format!("paceline: {from}")));
    // If the user pressed Ctrl-C during loading, no command is started.
    let mut child = match args.command.is_empty() || stop.load(Ordering::Relaxed) {
        true => None,
        false => Some(start(args, standing)?),
    };
    if args.command.is_empty() {
        // A command may start the programs that do not run yet.
        known.warn();
    }
    let label = &instance.label;
    let mut watch = Watch { args, label, started, every, until, stop, known: &mut known };
    let end = watch.wait(&attached, child.as_mut()).map(|end| {
        // It may have been ejected since the last check.
        if attached.in_charge().unwrap_or(true) { end } else { End::Kernel }
    });
    let said = match &end {
        Ok(end) => unload(&mut watch, attached, end),
        Err(_) => {
            drop(attached);
            released();
            if child.is_some() {
                output::say(&format!("paceline: {label}: unloaded; the command goes on"));
            }
            Ok(())
        }
    };
    conclude(end, said, child, &suspended)
}

/// Puts Linux's own class in charge again, and prints why.
fn unload(watch: &mut Watch, attached: Attached, end: &End) -> Result<(), Failure> {
    let learned = learned(&attached);
    let exit = match end {
        End::Kernel => why(&attached),
        _ => None,
    };
    let detached = attached.detach();
    // The disk may be slow or gone.
    watch.known.keep(learned);
    released();
    if *end != End::Kernel {
        detached.map_err(failed)?;
    }
    watch.tell_end(end, exit.as_ref())
}

/// The policy, with its actions off if that was requested: it only reports what it would do.
fn dry(args: &Run) -> Result<String, Failure> {
    if !args.dry_run {
        return Ok(args.policy.clone());
    }
    let can = |policy: &Policy| policy.knobs.iter().any(|knob| knob.name == "act");
    if !can(contender::instance(&args.policy)?.policy) {
        let those = POLICIES.iter().filter(|policy| can(policy)).map(|policy| policy.name);
        let those: Vec<&str> = those.collect();
        let (last, others) = those.split_last().expect("some ship");
        return Err(Failure::input(format!(
            "--dry-run: {} has nothing that it could say without doing it; {} and {last} have",
            args.policy,
            others.join(", ")
        )));
    }
    let sign = if args.policy.contains(':') { ',' } else { ':' };
    Ok(format!("{}{sign}act=off", args.policy))
}

struct Watch<'a> {
    args: &'a Run,
    label: &'a str,
    started: Instant,
    every: Duration,
    until: Option<Duration>,
    stop: Arc<AtomicBool>,
    known: &'a mut Known,
}

impl Watch<'_> {
    /// Waits until something ends it; prints statistics meanwhile.
    fn wait(&mut self, attached: &Attached, mut child: Option<&mut Child>) -> Result<End, Failure> {
        let mut last = Glance::now().map_err(failed)?;
        let mut next = self.every;
        let mut moves = Moves::default();
        let (mut lookout, mut next_behind) = (Lookout::new(), LOOK_BEHIND);
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(End::Interrupted);
            }
            if !attached.in_charge().map_err(failed)? {
                return Ok(End::Kernel);
            }
            let ended = child.as_mut().map(|child| child.try_wait()).transpose();
            if let Some(status) = ended.map_err(|error| failed(error.into()))?.flatten() {
                return Ok(End::Command(status));
            }
            let passed = self.started.elapsed();
            if self.until.is_some_and(|until| passed >= until) {
                return Ok(End::Time);
            }
            if passed >= next_behind {
                let behind = lookout.look();
                // With tens of thousands of threads it takes a while, at a priority above all of them.
                let took = self.started.elapsed() - passed;
                next_behind = passed + LOOK_BEHIND.max(took * LOOK_BEHIND_SHARE);
                for behind in behind {
                    match self.warn(passed, &behind) {
                        Err(Failure::Closed) => return Ok(End::Unread),
                        told => told?,
                    }
                }
            }
            if passed >= next {
                let now = Glance::now().map_err(failed)?;
                self.known.keep_now_and_then(|| learned(attached), passed);
                let load = now.since(&last);
                let knows = attached.knows();
                match tell(self.args.json, self.label, passed, &load, knows, &mut moves) {
                    Err(Failure::Closed) => return Ok(End::Unread),
                    told => told?,
                }
                last = now;
                // A late line is not made up for.
                next = self.started.elapsed() + self.every;
            }
            let rest = self.until.map_or(LOOK, |until| until.saturating_sub(passed));
            thread::sleep(LOOK.min(rest).min(next.saturating_sub(passed)));
        }
    }

    /// Warns of a task that only the administrator can help.
    fn warn(&self, passed: Duration, behind: &Behind) -> Result<(), Failure> {
        if self.args.json {
            return output::print(&format!("{}\n", warning_json(self.label, passed, behind)));
        }
        output::say(&warning(self.label, passed, behind));
        Ok(())
    }

    /// The last line; if the kernel ejected the policy, its dump comes first.
    fn tell_end(&self, end: &End, exit: Option<&Exit>) -> Result<(), Failure> {
        let passed = self.started.elapsed();
        let why = match end {
            End::Interrupted => "interrupted".to_string(),
            End::Time => "its time is over".to_string(),
            End::Command(_) => "the command has ended".to_string(),
            End::Kernel => format!("the kernel stopped it: {}", reason(exit)),
            End::Unread => "its lines are not read any more".to_string(),
        };
        if self.args.json && *end != End::Unread {
            let end = json!({
                "t_s": passed.as_secs_f64(), "policy": self.label, "ended": why,
                "reason": exit.map(|exit| &exit.reason), "message": exit.map(|exit| &exit.message),
                "dump": exit.map(|exit| &exit.dump),
            });
            return output::print(&format!("{end}\n"));
        }
        if let Some(exit) = exit.filter(|exit| !exit.dump.is_empty()) {
            output::say(&exit.dump);
        }
        let (label, passed) = (self.label, passed.as_secs_f64());
        output::say(&format!(
            "paceline: {label}: unloaded after {passed:.1} s, {why}; {}",
            scheduler_in_charge()
        ));
        Ok(())
    }
}

/// Which scheduler is in charge now: another one may be, and an ejection takes the kernel a while.
fn scheduler_in_charge() -> String {
    match live::state() {
        Ok(now) if now.state != "disabled" => now.phrase(),
        _ => "Linux's own class is in charge".into(),
    }
}

fn reason(exit: Option<&Exit>) -> String {
    match exit {
        Some(exit) => exit.to_string(),
        None => "it gave no reason (see dmesg)".into(),
    }
}

/// The kernel's reason; it takes the kernel a moment to write it.
fn why(attached: &Attached) -> Option<Exit> {
    let began = Instant::now();
    loop {
        let exit = attached.exit();
        let most = if attached.is_out() { DUMP_TAKES } else { THROWN_OUT_TAKES };
        if exit.is_some() || began.elapsed() > most {
            return exit;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn learned(attached: &Attached) -> Profile {
    attached.knows().map(|knows| knows.learned).unwrap_or_default()
}

/// Restores masks that a killed process had changed by affinity.
fn mend() -> Result<(), Failure> {
    let given = live::affinity::mend().map_err(|error| Failure::input(format!("{error:#}")))?;
    if given > 0 {
        output::say(&format!(
            "paceline: {} got back the own mask, which a paceline that was killed had changed",
            plural(given, "thread")
        ));
    }
    Ok(())
}

/// This machine's topology, with its kinds of cores as they were given.
fn topology(args: &Run) -> Result<Topology, Failure> {
    let mut topology = topology_here(args.core_types.as_deref())?;
    if let Some(machine) = &args.clocks {
        topology.clocks = turbo::of(machine)?;
    }
    Ok(topology)
}

fn positive(option: &str, time: humantime::Duration) -> Result<Duration, Failure> {
    let time = *time;
    match time.is_zero() {
        true => Err(Failure::input(format!("{option} 0s: give it a time such as 10s"))),
        false => Ok(time),
    }
}

fn tasks_of(scope: Scope) -> &'static str {
    match scope {
        Scope::All => "all tasks but real-time ones; Ctrl-C ends it",
        Scope::Asking => "tasks that ask for SCHED_EXT; Ctrl-C ends it",
    }
}
