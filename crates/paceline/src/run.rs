// SPDX-License-Identifier: GPL-2.0-only
//! `run`: a policy in charge of this machine's own kernel, until it is told to end or has to.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use live::{
    Attached, Behind, CONTROL_SHARE, Counting, Event, Exit, Glance, Knows, Load, Lookout, Reader,
    Scope, Standing,
};
use policy::table::SLOTS;
use policy::{Instance, Policy, Profile, Sources, Told, Topology};
use serde_json::{Value, json};

use crate::affinity;
use crate::cli::{By, CountedBy, Counter, Run};
use crate::contender::{self, Contender, POLICIES};
use crate::failure::{Failure, failed};
use crate::here::{heed_limits, heed_numbers, may_load, outrank_policies};
use crate::known::Known;
use crate::machines::core_types;
use crate::placed::{self, Moves};
use crate::{interrupt, output, turbo};
use report::text::plural;

/// How often the kernel and the command are checked.
const LOOK: Duration = Duration::from_millis(200);
/// The shortest interval of statistics: at a shorter one this process does little else, and it precedes all other
/// tasks.
const STATS_MIN: Duration = Duration::from_millis(10);
/// How often it looks for tasks that wait behind a real-time task.
const LOOK_BEHIND: Duration = Duration::from_secs(2);
/// One part in this many of its time goes into that search.
const LOOK_BEHIND_SHARE: u32 = 50;
/// A step of a control plane that takes longer is stuck, most likely in the kernel.
const STANDS_STILL: Duration = Duration::from_secs(5);
/// The kernel's reason is complete this long after it has ejected the policy.
const DUMP_TAKES: Duration = Duration::from_secs(2);
/// Longest time of an ejection: it waits for every task.
const THROWN_OUT_TAKES: Duration = Duration::from_secs(120);

/// Runs the policy.
pub fn run(args: &Run) -> Result<(), Failure> {
    let instance = named(&dry(args)?)?;
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
    let mut known = Known::new(args, &instance, &topology)?;
    if args.by == By::Affinity {
        return affinity::run(args, &instance, &topology, &mut known, every, until);
    }
    may_load()?;
    heed_numbers(&instance)?;
    let alone = args.partial && !args.command.is_empty();
    heed_limits(&instance, alone, args.ignore_cgroup_limits)?;
    let standing = Standing::now();
    let (stop, suspended) = (interrupt::in_charge()?, interrupt::suspends()?);
    output::wait_for_nobody();
    outrank_policies();
    let scope = if args.partial { Scope::Asking } else { Scope::All };
    let profile = known.profile();
    let attached =
        live::load(&instance, &topology, &profile, scope, counting(args)).map_err(failed)?;
    let started = Instant::now();
    output::say(&format!("paceline: {} is in charge of {}", instance.label, whom(scope)));
    let from = instance.policy.told().map(|told| match told {
        Told::Levels => turbo::described(&instance, &topology.clocks, attached.counters()),
        Told::Speeds => known.speeds(&attached),
        Told::Misses => known.misses(live::counts_misses()),
    });
    from.iter().for_each(|from| output::say(&format!("paceline: {from}")));
    // If the user pressed Ctrl-C during loading, no command is started.
    let mut child = match args.command.is_empty() || stop.load(Ordering::Relaxed) {
        true => None,
        false => Some(start(args, standing)?),
    };
    known.warn(args);
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
        End::Kernel => told(&attached),
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

/// No policy is in charge any more: signals have their default actions, and writes wait for readers again.
pub fn released() {
    interrupt::heed_no_more();
    output::wait_again();
}

/// The policy, with its actions off if that was requested: it only reports what it would do.
fn dry(args: &Run) -> Result<String, Failure> {
    if !args.dry_run {
        return Ok(args.policy.clone());
    }
    let can = |policy: &Policy| policy.knobs.iter().any(|knob| knob.name == "act");
    if !can(named(&args.policy)?.policy) {
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

/// Why it ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Ctrl-C, a hangup or SIGTERM.
    Interrupted,
    /// `--for` is over.
    Time,
    /// The command has ended.
    Command(ExitStatus),
    /// The kernel ejected the policy.
    Kernel,
    /// The reader of its lines has gone.
    Unread,
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
        Ok(now) if now.state != "disabled" => now.of_whom(),
        _ => "Linux's own class is in charge".into(),
    }
}

/// Prints statistics of the machine, and the state of the control plane.
pub fn tell(
    json: bool,
    label: &str,
    passed: Duration,
    load: &Load,
    knows: Option<Knows>,
    moves: &mut Moves,
) -> Result<(), Failure> {
    let sources = knows.as_ref().map(|knows| knows.sources);
    let moved = knows.as_ref().map_or(Vec::new(), |knows| moves.since(&knows.placed));
    let troubles = knows.as_ref().map_or(Vec::new(), troubles);
    let says = knows.and_then(|knows| knows.says);
    if json {
        let mut all = statistics(label, passed, load, sources);
        if let Some(says) = says {
            all["control"] = json!(says);
        }
        if !moved.is_empty() {
            all["placed"] = placed::json(&moved);
        }
        troubles.into_iter().for_each(|trouble| all[trouble.key] = trouble.value);
        return output::print(&format!("{all}\n"));
    }
    let control = says.map_or_else(|| speeds_from(sources), |says| format!("; {says}"));
    let troubles: String =
        troubles.iter().map(|trouble| format!("; its control plane {}", trouble.said)).collect();
    output::say(&(line(label, passed, load) + &control + &troubles));
    if let Some(moved) = placed::line(&moved) {
        output::say(&format!("{label}: {moved}"));
    }
    Ok(())
}

/// A problem of a control plane.
struct Trouble {
    /// Key of its number in JSON.
    key: &'static str,
    value: Value,
    said: String,
}

fn troubles(knows: &Knows) -> Vec<Trouble> {
    let held_up = knows.held_up.map(|pause| Trouble {
        key: "control_held_up_s",
        value: json!(pause.as_secs_f64()),
        said: format!(
            "pauses for {:.2} s at a time, or it would take more than a {CONTROL_SHARE}th of a CPU",
            pause.as_secs_f64()
        ),
    });
    let stands = knows.stepping.filter(|took| *took > STANDS_STILL).map(|took| Trouble {
        key: "control_stands_still_s",
        value: json!(took.as_secs_f64()),
        said: format!("has stood still for {:.0} s", took.as_secs_f64()),
    });
    let refused = Some(knows.refused).filter(|count| *count > 0).map(|count| Trouble {
        key: "control_refused_tasks",
        value: json!(count),
        said: format!(
            "plans for {SLOTS} tasks at a time, and not for {} that came beyond those",
            plural(count as usize, "task")
        ),
    });
    [held_up, stands, refused].into_iter().flatten().collect()
}

fn line(label: &str, passed: Duration, load: &Load) -> String {
    let events = load.events.iter().map(|(name, count)| format!("; {name} {count} times"));
    format!(
        "{label}: {:.0} s, {:.1} % busy, {:.0} switches/s, {} runnable{}",
        passed.as_secs_f64(),
        load.busy * 100.0,
        load.switches_per_s,
        load.runnable,
        events.collect::<String>()
    )
}

/// The control plane's sources of the running tasks' speeds.
fn speeds_from(sources: Option<Sources>) -> String {
    let Some(of) = sources else { return String::new() };
    let all = [
        (of.counters, "measured"),
        (of.profile, "told"),
        (of.memory, "remembered"),
        (of.unknown, "unknown"),
    ];
    let some = all.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = some.map(|(count, how)| format!("{count} {how}")).collect();
    if parts.is_empty() { String::new() } else { format!("; speeds: {}", parts.join(", ")) }
}

fn warning(label: &str, passed: Duration, behind: &Behind) -> String {
    let Behind { task, cpus, real_time, ran, passed: of } = behind;
    format!(
        "{label}: {:.0} s, {}[{}] waits for CPU {}, which real-time {}[{}] keeps: it ran {:.2} of the last {:.1} s",
        passed.as_secs_f64(),
        task.name,
        task.tid,
        listed(cpus),
        real_time.name,
        real_time.tid,
        ran.as_secs_f64(),
        of.as_secs_f64(),
    )
}

fn listed(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn warning_json(label: &str, passed: Duration, behind: &Behind) -> Value {
    let Behind { task, cpus, real_time, ran, passed: of } = behind;
    json!({
        "t_s": passed.as_secs_f64(), "policy": label,
        "behind_real_time": {
            "task": task.name, "tid": task.tid, "cpus": cpus,
            "real_time": real_time.name, "real_time_tid": real_time.tid,
            "ran_s": ran.as_secs_f64(), "of_s": of.as_secs_f64(),
        },
    })
}

fn statistics(label: &str, passed: Duration, load: &Load, sources: Option<Sources>) -> Value {
    let mut all = json!({
        "t_s": passed.as_secs_f64(), "policy": label, "busy": load.busy,
        "switches_per_s": load.switches_per_s, "runnable": load.runnable, "events": load.events,
    });
    if let Some(of) = sources {
        all["speeds_from"] = json!({
            "counters": of.counters, "profile": of.profile, "memory": of.memory,
            "unknown": of.unknown,
        });
    }
    all
}

fn reason(exit: Option<&Exit>) -> String {
    match exit {
        Some(exit) if exit.message.is_empty() => exit.reason.clone(),
        Some(exit) => format!("{} ({})", exit.reason, exit.message),
        None => "it gave no reason (see dmesg)".into(),
    }
}

/// The kernel's reason; it takes the kernel a moment to write it.
fn told(attached: &Attached) -> Option<Exit> {
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
    let mut topology = live::topology().map_err(failed)?;
    if let Some(kinds) = &args.core_types {
        let cpus = topology.core_type.len();
        topology.core_type = core_types(kinds, cpus, &topology.missing)?;
    }
    if let Some(machine) = &args.clocks {
        topology.clocks = turbo::of(machine)?;
    }
    Ok(topology)
}

pub fn counting(args: &Run) -> Counting {
    Counting {
        event: match args.counter {
            Counter::Own => Event::Own,
            Counter::CpuClock => Event::CpuClock,
            Counter::Off => Event::Nothing,
        },
        reader: match args.counted_by {
            CountedBy::Either => Reader::Either,
            CountedBy::Switches => Reader::Switches,
        },
    }
}

fn named(text: &str) -> Result<Instance, Failure> {
    let [contender] = &contender::parse_all(&[text.to_string()])?[..] else {
        return Err(Failure::input("a kernel runs one policy at a time: name one"));
    };
    match contender {
        Contender::Policy(instance) => Ok(instance.clone()),
        Contender::Class(class) => {
            let known: Vec<&str> = POLICIES.iter().map(|policy| policy.name).collect();
            Err(Failure::input(format!(
                "{} is no policy that can be loaded; there are: {}",
                class.name,
                known.join(", ")
            )))
        }
    }
}

fn positive(option: &str, time: humantime::Duration) -> Result<Duration, Failure> {
    let time = *time;
    match time.is_zero() {
        true => Err(Failure::input(format!("{option} 0s: give it a time such as 10s"))),
        false => Ok(time),
    }
}

fn whom(scope: Scope) -> &'static str {
    match scope {
        Scope::All => "all tasks but real-time ones; Ctrl-C ends it",
        Scope::Asking => "tasks that ask for SCHED_EXT; Ctrl-C ends it",
    }
}

/// Starts the command, with this process's scheduling before it went above policies.
pub fn start(args: &Run, standing: Standing) -> Result<Child, Failure> {
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    standing.give(&mut command);
    if args.json {
        // Standard output is for the lines.
        command.stdout(Stdio::from(std::io::stderr()));
    }
    if args.partial && args.by == By::SchedExt {
        live::ask_for_sched_ext(&mut command);
    }
    command
        .spawn()
        .map_err(|error| Failure::input(format!("cannot start {}: {error}", args.command[0])))
}

/// A command's status as a shell reports it: 128 plus the number of a signal that ended it.
pub fn as_shell(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// Ends with no policy in charge. The command runs to its end, whatever else failed. If it fails, its status is this
/// command's, and other errors are only printed.
pub fn conclude(
    end: Result<End, Failure>,
    said: Result<(), Failure>,
    child: Option<Child>,
    suspended: &AtomicBool,
) -> Result<(), Failure> {
    // Signals are not checked from here on.
    released();
    if child.is_some() && suspended.load(Ordering::Relaxed) {
        // Stop together with the command, which the same key has stopped.
        live::stop();
    }
    let status = match (&end, child) {
        (Ok(End::Command(status)), _) => Some(*status),
        (_, Some(mut child)) => Some(child.wait().map_err(|error| failed(error.into()))?),
        (_, None) => None,
    };
    let finished = finish(*end.as_ref().unwrap_or(&End::Unread), status);
    match end.err().or(said.err()) {
        // The reader has gone: neither a failure nor an end for the command.
        None | Some(Failure::Closed) => finished,
        Some(failure) if finished.is_err() => {
            output::say(&format!("paceline: {failure}"));
            finished
        }
        Some(failure) => Err(failure),
    }
}

/// Passes on the command's own status. An ejected policy is a failure if the command has none.
fn finish(end: End, status: Option<ExitStatus>) -> Result<(), Failure> {
    match (end, status.map_or(0, as_shell)) {
        (End::Kernel, 0) => Err(Failure::Status(1)),
        (End::Interrupted, 0) => Err(Failure::Status(130)),
        (_, 0) => Ok(()),
        (_, own) => Err(Failure::Status(own as u8)),
    }
}

#[cfg(test)]
mod tests {
    use signal_hook::consts::SIGTSTP;

    use super::*;

    #[test]
    fn a_command_passes_its_status_on() {
        let raw = |status| Some(ExitStatus::from_raw(status));
        let command = |status| End::Command(ExitStatus::from_raw(status));
        assert_eq!(finish(command(0), raw(0)), Ok(()));
        assert_eq!(finish(command(3 << 8), raw(3 << 8)), Err(Failure::Status(3)));
        assert_eq!(finish(command(9), raw(9)), Err(Failure::Status(137)), "killed");
        assert_eq!(finish(End::Time, None), Ok(()));
        assert_eq!(finish(End::Interrupted, None), Err(Failure::Status(130)));
        assert_eq!(finish(End::Kernel, raw(0)), Err(Failure::Status(1)));
        assert_eq!(finish(End::Unread, raw(3 << 8)), Err(Failure::Status(3)));
    }

    #[test]
    fn a_command_ends_and_its_status_comes_first_whatever_else_fails() {
        let raw = |status| ExitStatus::from_raw(status);
        let fails = || Some(Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap());
        let ends = || Some(Command::new("true").spawn().unwrap());
        let full = || Failure::run("no space left");
        let own = Err(Failure::Status(3));
        let conclude = |end, said, child| conclude(end, said, child, &AtomicBool::new(false));
        assert_eq!(conclude(Ok(End::Command(raw(3 << 8))), Err(Failure::Closed), None), own);
        assert_eq!(conclude(Ok(End::Time), Err(Failure::Closed), fails()), own);
        assert_eq!(
            conclude(Ok(End::Kernel), Err(Failure::Closed), ends()),
            Err(Failure::Status(1))
        );
        assert_eq!(conclude(Ok(End::Time), Err(full()), fails()), own);
        assert_eq!(conclude(Err(full()), Ok(()), fails()), own);
        assert_eq!(conclude(Err(full()), Ok(()), ends()), Err(full()));
        assert_eq!(conclude(Ok(End::Time), Err(Failure::Closed), ends()), Ok(()));
    }

    #[test]
    fn what_keeps_a_control_plane_from_its_work_is_said() {
        let said = |knows: &Knows| -> Vec<(&str, String)> {
            troubles(knows).into_iter().map(|trouble| (trouble.key, trouble.said)).collect()
        };
        let stepping = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(said(&Knows { stepping: stepping(5), ..Knows::default() }), []);
        let still = ("control_stands_still_s", "has stood still for 7 s".to_string());
        assert_eq!(said(&Knows { stepping: stepping(7), ..Knows::default() }), [still]);
        let full = "plans for 16383 tasks at a time, and not for 1 task that came beyond those";
        let full = ("control_refused_tasks", full.to_string());
        assert_eq!(said(&Knows { refused: 1, ..Knows::default() }), [full]);
        let held_up = Some(Duration::from_millis(300));
        let [(key, said)] = &said(&Knows { held_up, ..Knows::default() })[..] else {
            panic!("it is one trouble")
        };
        assert_eq!(*key, "control_held_up_s");
        assert!(said.starts_with("pauses for 0.30 s at a time"), "{said}");
    }

    #[test]
    fn a_terminal_is_not_left_to_a_command_that_was_stopped_alone() {
        let suspended = interrupt::suspends().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 0.3; grep SigCgt /proc/$PPID/status"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        assert_eq!(conclude(Ok(End::Time), Ok(()), Some(child), &suspended), Ok(()));
        let handled = std::io::read_to_string(&mut out).unwrap();
        let handled =
            u64::from_str_radix(handled.trim_start_matches("SigCgt:").trim(), 16).unwrap();
        assert_eq!(handled >> (SIGTSTP - 1) & 1, 0, "Ctrl-Z stops the command and not its parent");
    }
}
