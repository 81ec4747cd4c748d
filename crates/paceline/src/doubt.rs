// SPDX-License-Identifier: GPL-2.0-only
//! Doubts about a comparison although each run ended with 0: the workload complained, one of its programs was not
//! found, or it did next to nothing.

use std::collections::BTreeSet;

use comparison::Ground;
use report::Results;
use report::text::{percent, plural, time, visible};
use trace::{NOT_FOUND, OWN_CPU, Outcome};

/// A workload with less CPU time than this part of its elapsed time slept: its elapsed time is that of its sleep, under
/// any policy. A task that works for 0.5 ms of each 10 ms is at 0.05.
const ASLEEP: f64 = 0.10;
/// With less CPU time than this a command did little but start and end, s. A shell takes some ms in a guest. A
/// simulated workload starts at no cost.
const BEGUN_S: f64 = 0.010;
/// Most letters of a quoted line.
const QUOTED: usize = 160;

/// Adds notes for the reader, and withholds ratios that would compare sleep.
pub fn tell(results: &mut Results, outcomes: &[Outcome], ground: &dyn Ground) {
    let mut notes = complaints(outcomes, ground);
    let idle: Vec<&Outcome> = outcomes
        .iter()
        .filter(|outcome| Used::of(outcome).is_some_and(|it| it.is_idle(ground)))
        .collect();
    let policies: BTreeSet<&str> = idle.iter().map(|outcome| &*outcome.policy).collect();
    results.withhold_ratios(&policies);
    notes.extend(idleness(&idle, &policies, ground));
    results.notes.extend(notes);
}

/// CPU time and elapsed time of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Used {
    cpu_s: f64,
    elapsed_s: f64,
}

impl Used {
    /// None: this ground does not have them.
    ///
    /// On a clock of instructions both are on the same clock, on which CPUs take turns. So one task that never sleeps
    /// has as much CPU time as the run took, on any number of CPUs. Both are compared as they are, and not per CPU.
    fn of(outcome: &Outcome) -> Option<Used> {
        let elapsed_s = outcome.elapsed_ns as f64 / 1e9;
        let extra = |name: &str| outcome.extra.get(name).copied();
        let seen = &outcome.observed;
        let waited_for = extra("children_user_s").zip(extra("children_system_s"));
        let waited_for = waited_for.map(|(user, system)| user + system);
        // The observed run is a separate one, so its ratio is used.
        let seen_s = seen.elapsed_ns as f64 / 1e9;
        let observed = match waited_for {
            // Only the observer sees children that are not waited for.
            Some(_) => extra(OWN_CPU),
            None => Some(seen.tasks.values().map(|task| task.cpu_ns as f64 / 1e9).sum()),
        };
        let observed = observed.filter(|_| seen_s > 0.0).map(|cpu_s| cpu_s / seen_s * elapsed_s);
        let cpu_s = match (waited_for, observed) {
            (Some(one), Some(other)) => one.max(other),
            (one, other) => one.or(other)?,
        };
        Some(Used { cpu_s, elapsed_s })
    }

    fn is_idle(self, ground: &dyn Ground) -> bool {
        self.cpu_s < ASLEEP * self.elapsed_s || self.only_begun(ground)
    }

    fn only_begun(self, ground: &dyn Ground) -> bool {
        ground.runs_programs() && self.cpu_s < BEGUN_S
    }
}

/// A note about runs with next to no CPU time of tasks.
fn idleness(idle: &[&Outcome], policies: &BTreeSet<&str>, ground: &dyn Ground) -> Option<String> {
    let used: Vec<Used> = idle.iter().filter_map(|outcome| Used::of(outcome)).collect();
    let most = used.iter().copied().max_by(|a, b| a.cpu_s.total_cmp(&b.cpu_s))?;
    let named = policies.iter().copied().collect::<Vec<_>>().join(", ");
    let had = format!(
        "under {named} the workload's tasks had {} of CPU time at most, in {} ({})",
        time(most.cpu_s),
        time(most.elapsed_s),
        percent(most.cpu_s / most.elapsed_s.max(1e-9)),
    );
    let see = match ground.runs_programs() {
        true => ", or see with --show-output what it wrote",
        false => "",
    };
    Some(match used.iter().any(|used| used.only_begun(ground)) {
        true => format!(
            "{had}: little more than to begin and end, so no ratio is shown; give it more to do{see}"
        ),
        false => format!(
            "{had}: it mostly slept, so how long it took is no speed, and no ratio is shown; switches and waits hold; \
             to compare speeds, give it more to do{see}"
        ),
    })
}

/// Notes about the workload's standard error, and about programs that were not found.
fn complaints(outcomes: &[Outcome], ground: &dyn Ground) -> Vec<String> {
    let mut notes = Vec::new();
    let with = |it: &&Outcome| !it.errors.trim().is_empty();
    let complained: Vec<&Outcome> = outcomes.iter().filter(with).collect();
    if let Some(line) = complained.last().and_then(|outcome| telling(&outcome.errors)) {
        notes.push(format!(
            "the workload wrote to standard error in {} of {}, though it ended with 0: `{}`; --show-output shows all",
            complained.len(),
            plural(outcomes.len(), "run"),
            quoted(line)
        ));
    }
    let all =
        outcomes.iter().flat_map(|outcome| outcome.errors.lines().chain(outcome.output.lines()));
    let absent: BTreeSet<&str> = all.filter_map(not_found).collect();
    notes.extend(absent.iter().map(|name| ground.lacks(name)));
    let ended: f64 = outcomes.iter().filter_map(|outcome| outcome.extra.get(NOT_FOUND)).sum();
    if ended > 0.0 && absent.is_empty() {
        notes.push(format!(
            "{} ended with status 127, as a shell does that does not find a program: what was meant to run may not have \
             run",
            plural(ended as usize, "process").replace("processs", "processes")
        ));
    }
    notes
}

/// The most informative line: about a program that was not found, else the last.
fn telling(text: &str) -> Option<&str> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines().find(|line| not_found(line).is_some()).or(lines().next_back())
}

fn quoted(line: &str) -> String {
    let shown: String = line.chars().take(QUOTED).collect();
    visible(&shown) + if line.chars().count() > QUOTED { "..." } else { "" }
}

/// The program that a shell, or a program that starts others, reports as not found.
fn not_found(line: &str) -> Option<&str> {
    const STARTERS: [&str; 9] =
        ["env", "nice", "nohup", "timeout", "taskset", "chrt", "setsid", "stdbuf", "xargs"];
    let line = line.trim();
    let by_shell =
        line.strip_suffix(": not found").or_else(|| line.strip_suffix(": command not found"));
    let (before, name) = match by_shell {
        Some(named) => named.rsplit_once(' ')?,
        None => line.strip_suffix(": No such file or directory")?.rsplit_once(' ')?,
    };
    let (program, _) = before.split_once(':')?;
    let says_so = match by_shell {
        Some(_) => before.ends_with(':'),
        None => STARTERS.contains(&program.rsplit('/').next()?),
    };
    if !says_so {
        return None;
    }
    let name = name.trim_matches(|mark: char| "'\"`‘’“”".contains(mark));
    let is_plain = |letter: char| letter.is_alphanumeric() || "._+-/".contains(letter);
    (!name.is_empty() && name.chars().all(is_plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use comparison::{Guest, Simulated};
    use trace::{Observed, TaskObserved};

    use super::*;

    fn vm() -> Guest {
        Guest {
            shape: vm::Shape::default(),
            rates: Vec::new(),
            clock: vm::Clock::Dilated,
            turn: None,
            boots: 1,
            kernel: None,
            emulator: None,
            keep: None,
            limit: Duration::from_secs(1),
            or_in_turn: false,
        }
    }

    fn sim() -> Simulated {
        let machine = Box::new(machine::find("numa-2x4").unwrap());
        let limit = Duration::from_secs(1);
        Simulated { machine, named: "numa-2x4".into(), limit, faults: Vec::new() }
    }

    fn outcome(policy: &str, elapsed_ms: u64, cpu_ms: f64) -> Outcome {
        let times = [("children_user_s", cpu_ms / 1e3), ("children_system_s", 0.0)];
        let extra = times.map(|(name, s)| (name.to_string(), s)).into();
        let elapsed_ns = elapsed_ms * 1_000_000;
        Outcome { policy: policy.into(), elapsed_ns, extra, ..Outcome::default() }
    }

    fn told(outcomes: &[Outcome], ground: &dyn Ground) -> (Vec<String>, Vec<bool>) {
        let setting = report::Setting {
            ground: "vm".into(),
            machine: "m".into(),
            cpus: 2,
            workload: "w".into(),
            seed: None,
            clock: report::Clock::Dilated,
            kernel: None,
        };
        let mut results = Results::new(setting, outcomes, false);
        tell(&mut results, outcomes, ground);
        (results.notes, results.summary.iter().map(|one| one.vs_first.is_some()).collect())
    }

    #[test]
    fn a_workload_that_did_nothing_has_no_ratio() {
        let pair = |cpu_ms| [outcome("default", 20, cpu_ms), outcome("cas", 20, cpu_ms)];
        let (notes, ratios) = told(&pair(3.0), &vm());
        assert_eq!(ratios, [false, false]);
        assert!(
            notes[0].contains("under cas, default the workload's tasks had 3.00 ms"),
            "{notes:?}"
        );
        assert!(notes[0].contains("little more than to begin and end"), "{notes:?}");
        assert_eq!(told(&pair(12.0), &vm()), (Vec::new(), vec![true, true]));
    }

    /// 0.5 ms of each 10 ms, on one CPU or in turn with others.
    #[test]
    fn a_workload_that_sleeps_has_no_ratio_and_one_that_works_has() {
        let (notes, ratios) =
            told(&[outcome("default", 1000, 50.0), outcome("cas", 1000, 50.0)], &vm());
        assert_eq!(ratios, [false, false]);
        assert!(
            notes[0].contains("it mostly slept") && notes[0].contains("switches and waits hold"),
            "{notes:?}"
        );
        // One busy task of a guest with eight CPUs on a clock of instructions: all of the work is its own.
        let (notes, ratios) =
            told(&[outcome("default", 1000, 990.0), outcome("cas", 1000, 50.0)], &vm());
        assert_eq!(ratios, [true, false]);
        assert!(notes[0].starts_with("under cas the workload's"), "{notes:?}");
    }

    /// A daemon is not waited for, so only the observer knows its CPU time.
    #[test]
    fn a_child_that_was_not_waited_for_counts() {
        let mut daemon = outcome("default", 1000, 5.0);
        daemon.observed = Observed { elapsed_ns: 2_000_000_000, ..Observed::default() };
        daemon.extra.insert(OWN_CPU.into(), 1.0);
        assert_eq!(told(&[daemon], &vm()), (Vec::new(), vec![true]));
    }

    #[test]
    fn a_simulated_workload_may_be_short_and_not_asleep() {
        let run = |cpu_us: u64| {
            let mut run =
                Outcome { policy: "default".into(), elapsed_ns: 1_000_000, ..Outcome::default() };
            let task = TaskObserved { cpu_ns: cpu_us * 1000, ..TaskObserved::default() };
            run.observed = Observed {
                elapsed_ns: 1_000_000,
                tasks: [(7, task)].into(),
                ..Observed::default()
            };
            told(&[run], &sim())
        };
        assert_eq!(run(500), (Vec::new(), vec![true]));
        let (notes, ratios) = run(50);
        assert!(
            notes[0].contains("it mostly slept") && !notes[0].contains("--show-output"),
            "{notes:?}"
        );
        assert_eq!(ratios, [false]);
    }

    #[test]
    fn what_it_wrote_to_standard_error_is_quoted_once() {
        let mut runs = [outcome("default", 100, 90.0), outcome("cas", 100, 90.0)];
        runs[0].errors = "a warning\nskipped: \u{1b}[2J run it as somebody\n\n".into();
        let (notes, _) = told(&runs, &vm());
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("in 1 of 2 runs, though it ended with 0"), "{notes:?}");
        assert!(notes[0].contains("`skipped: \u{fffd}[2J run it as somebody`"), "{notes:?}");
    }

    #[test]
    fn a_program_that_was_not_found_comes_with_its_option() {
        let mut run = outcome("default", 100, 90.0);
        run.errors = "sh: 1: cat: not found\nand so on\n".into();
        run.output = "bash: line 1: no-such-prog: command not found\n".into();
        let (notes, _) = told(&[run], &vm());
        assert!(notes[0].contains("`sh: 1: cat: not found`"), "{notes:?}");
        assert!(
            notes[1].contains("`cat` was not found in the guest") && notes[1].contains("--with /"),
            "{notes:?}"
        );
        assert!(
            notes[2].contains("`no-such-prog` was not found, and did not run; install"),
            "{notes:?}"
        );
        let mut silent = outcome("default", 100, 90.0);
        silent.extra.insert(NOT_FOUND.into(), 2.0);
        let (notes, _) = told(&[silent], &vm());
        assert!(notes[0].starts_with("2 processes ended with status 127"), "{notes:?}");
    }

    #[test]
    fn not_all_that_is_not_found_is_a_program() {
        assert_eq!(not_found("env: ‘fio’: No such file or directory"), Some("fio"));
        assert_eq!(
            not_found("timeout: failed to run command 'fio': No such file or directory"),
            Some("fio")
        );
        assert_eq!(not_found("cat: x: No such file or directory"), None);
        assert_eq!(not_found("get: the page you want: not found"), None);
        assert_eq!(not_found("404 not found"), None);
    }
}
