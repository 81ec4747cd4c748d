// SPDX-License-Identifier: GPL-2.0-only
//! Answers by example; and for any replays, that no answer contradicts a warning.

use comparison::replay::{UNSEEN, Went};
use proptest::prelude::*;
use report::{Beside, Clock, Results, Setting};
use trace::{Observed, Outcome, TaskObserved};

use super::*;
use crate::contest::contestants;
use crate::nearness;

const MS: u64 = 1_000_000;

/// A run of a policy: its time, the 99th percentile of its waits, its longest wait.
#[derive(Clone, Copy, Debug)]
struct Ran {
    elapsed_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

/// The runs of some policies.
type All<'a> = Vec<(&'a str, Vec<Ran>)>;

fn outcome(policy: &str, run: usize, ran: Ran) -> Outcome {
    let mut observed = Observed {
        elapsed_ns: ran.elapsed_ns,
        context_switches: ran.elapsed_ns / MS,
        ..Observed::default()
    };
    (observed.wait.p99_ns, observed.wait.max_ns) = (ran.p99_ns, ran.max_ns);
    observed.tasks.insert(1, TaskObserved { cpu_ns: 50 * MS, ..TaskObserved::default() });
    Outcome {
        policy: policy.into(),
        run,
        elapsed_ns: ran.elapsed_ns,
        observed,
        names: [(1, "make".to_string())].into(),
        ..Outcome::default()
    }
}

/// The result of replays, with its warnings and its answer, assembled as in `try`.
fn tried(of: &[(&str, Vec<Ran>)], went: &Went, ways: &Ways) -> Results {
    const CPUS: usize = 2;
    let runs = |(policy, runs): &(&str, Vec<Ran>)| {
        runs.iter().enumerate().map(|(run, ran)| outcome(policy, run, *ran)).collect::<Vec<_>>()
    };
    let outcomes: Vec<Outcome> = of.iter().flat_map(runs).collect();
    let setting = Setting {
        ground: "sim".into(),
        machine: "m".into(),
        cpus: CPUS,
        workload: "w".into(),
        seed: None,
        clock: Clock::Simulated,
        kernel: None,
    };
    let mut results = Results::new(setting, &outcomes, false);
    let under = went.under.as_deref().unwrap_or("default");
    let own = results.summary.iter().find(|one| one.policy == under);
    let recording = nearness::held(went, own.map(|one| one.elapsed_s.median));
    results.notes = went.notes();
    results.notes.extend(nearness::lines(&recording, CPUS, None));
    let case = Case {
        recording: recording.clone(),
        cpus: CPUS,
        coarse: went.coarse,
        talks_unseen: went.talks_unseen,
        is_doubtful: went.is_doubtful(),
        contestants: contestants(&results, went.coarse.is_some(), |name| name != "cfs"),
    };
    results.details.extend(case.contestants.iter().skip(1).map(|one| line(&case, one)));
    results.answer = Some(answer(&case, Some(ways)));
    results.recording = Some(recording);
    results
}

fn went() -> Went {
    Went { cpus: 2, affinity: true, elapsed_s: 0.1, ..Went::default() }
}

fn ways() -> Ways {
    Ways { command: vec!["make".into()], policies: vec!["default".into()], ..Ways::default() }
}

fn answered(of: &[(&str, Vec<Ran>)], went: &Went) -> Answer {
    let results = tried(of, went, &ways());
    let json = serde_json::from_str(&results.json()).unwrap();
    assert_eq!(laboratory::contradictions(&json), Vec::<String>::new());
    results.answer.unwrap()
}

fn waiting(ms: &[u64], p99_ms: u64, max_ms: u64) -> Vec<Ran> {
    let one = |ms: &u64| Ran { elapsed_ns: ms * MS, p99_ns: p99_ms * MS, max_ns: max_ms * MS };
    ms.iter().map(one).collect()
}

fn runs(ms: &[u64]) -> Vec<Ran> {
    waiting(ms, 3, 20)
}

fn base() -> (&'static str, Vec<Ran>) {
    ("default", runs(&[100, 100]))
}

/// Runs with a policy that takes half of the time.
fn half() -> All<'static> {
    vec![base(), ("cas", runs(&[50, 50]))]
}

/// Rows of a terminal, and the rows that must contain the answer.
const ROWS: usize = 24;
const FIRST: usize = 3;

#[test]
fn what_try_prints_fits_a_terminal_of_80_columns_with_the_answer_first() {
    let style = report::Style { width: 80, boxes: true, ..report::Style::PLAIN };
    let names = ["default", "flsched", "cas", "o1", "min-fair", "max-fair", "max-perf"];
    let all = |ms: [u64; 7], count: usize| -> All<'static> {
        let of = |(name, ms): (&&'static str, &u64)| (*name, runs(&[*ms, ms + 1]));
        names.iter().zip(&ms).take(count).map(of).collect()
    };
    let coarse = Went { coarse: Some(Some(0.02)), talks_unseen: true, ..went() };
    let off = Went { elapsed_s: 1.0, ..went() };
    let busy = Went { others: 0.15, ..went() };
    for went in [went(), coarse, off, busy] {
        for ms in [[100; 7], [100, 80, 81, 79, 120, 80, 130], [100, 60, 110, 97, 98, 99, 98]] {
            // Only uneven cores have seven policies; with warnings they take a few lines more.
            let is_warned = went.coarse.is_some() || went.others > 0.0;
            let counts: &[usize] = if is_warned { &[4] } else { &[4, 7] };
            for count in counts.iter().copied() {
                let mut results = tried(&all(ms, count), &went, &ways());
                results.setting.workload = "cargo build --package trace".into();
                let shown = report::comparison(&results, style) + "report: paceline-try.html\n";
                let lines: Vec<&str> = shown.lines().collect();
                assert!(lines.len() <= ROWS, "{} lines:\n{shown}", lines.len());
                let answer = &results.answer.as_ref().unwrap().headline;
                let begins = lines[..FIRST].join(" ");
                assert!(begins.contains(answer.split(',').next().unwrap()), "{shown}");
                let wide = |line: &&&str| line.chars().count() > 80 && !line.starts_with("next: ");
                assert_eq!(lines.iter().find(wide), None);
            }
        }
    }
}

#[test]
fn a_gain_beyond_chance_and_error_is_worth_a_try() {
    let base = ("default", runs(&[100, 102]));
    let (fast, slower) = (("cas", runs(&[80, 83])), ("flsched", runs(&[95, 96])));
    let said = answered(&[base.clone(), fast, slower], &went());
    assert_eq!((said.verdict, said.policy.as_deref()), (Verdict::Try, Some("cas")));
    assert_eq!(said.headline, "Try cas first: 1.24× faster than default (1.23–1.25)");
    assert_eq!(said.next.as_deref(), Some("paceline run cas --for 60s -- make"));
    for other in [[80, 103], [99, 101], [110, 112]] {
        let said = answered(&[base.clone(), ("cas", runs(&other))], &went());
        assert_eq!((said.verdict, said.next), (Verdict::Stay, None), "{}", said.why);
        assert!(said.why.starts_with("Stay with default: "), "{}", said.why);
    }
    let said = answered(&[base, ("cas", runs(&[80, 103]))], &went());
    assert!(said.why.contains("cas takes 9.51 % less time, not in every replay"), "{}", said.why);
}

#[test]
fn a_gain_below_the_replays_own_error_is_not_recommended() {
    let of = |other: [u64; 2]| [("default", runs(&[108, 108])), ("cas", runs(&other))];
    let noted = |other, end: &str| {
        let details = tried(&of(other), &went(), &ways()).details;
        assert!(details.iter().any(|line| line.ends_with(end)), "{details:?}");
    };
    let said = answered(&of([102, 102]), &went());
    assert_eq!(said.verdict, Verdict::Stay);
    let why = "cas takes 5.56 % less time, and the replay is 8.00 % off";
    assert!(said.why.contains(why), "{}", said.why);
    noted([102, 102], ": less than the replay's own error");
    noted([102, 109], ": no difference");
}

#[test]
fn policies_that_the_replays_cannot_tell_apart_gain_alike() {
    let (fast, slow) = (("flsched", runs(&[80, 81])), ("o1", runs(&[95, 95])));
    let said = answered(&[base(), fast, ("cas", waiting(&[81, 82], 2, 20)), slow], &went());
    assert_eq!((said.verdict, said.policy.as_deref()), (Verdict::Tie, Some("cas")), "least waits");
    assert_eq!(said.alike, ["flsched", "cas"]);
    assert!(said.why.starts_with("flsched and cas gain alike: 1.24× faster"), "{}", said.why);
    let next = "paceline compare --on here --runs 5 --policy default,flsched,cas -- make";
    assert_eq!(said.next.as_deref(), Some(next));
    // Different by more than the simulator's exactness, and by less than the replay's error.
    let apart = |elapsed_s| {
        let of = [base(), ("flsched", runs(&[70, 70])), ("cas", runs(&[76, 76]))];
        answered(&of, &Went { elapsed_s, ..went() }).verdict
    };
    assert_eq!((apart(0.1), apart(0.108)), (Verdict::Try, Verdict::Tie));
}

#[test]
fn what_a_gain_costs_stands_beside_it() {
    let said = answered(&[base(), ("cas", waiting(&[80, 80], 5, 20))], &went());
    let wanted = "Try cas first: 1.25× faster than default. Its cost: 99 % of waits are up to 5.00 ms (3.00 ms under \
                  default), the longest is 20.0 ms (20.0 ms), 80 switches (100 under default), no task takes longer.";
    assert_eq!(said.why, wanted);
    let costs = said.costs.unwrap();
    assert_eq!(costs.wait_p99_s, Some(Beside { own: 0.005, first: 0.003 }));
    assert_eq!(costs.worst_wait_s, Some(Beside { own: 0.02, first: 0.02 }));
}

#[test]
fn waits_that_grow_more_than_twice_are_told_first() {
    for (p99, max) in [(7, 20), (3, 41)] {
        let said = answered(&[base(), ("cas", waiting(&[80, 80], p99, max))], &went());
        assert_eq!(said.verdict, Verdict::Try);
        let wanted = "Waits grow under cas, which is 1.25× faster than default";
        assert_eq!(said.headline, wanted);
        assert!(said.details[0].starts_with("99 % of waits are up to"), "{:?}", said.details);
        assert_eq!(said.details[1], "Try it where that does not matter");
    }
    let (fast, calmer) = (("cas", waiting(&[80, 80], 11, 20)), ("o1", runs(&[90, 90])));
    let said = answered(&[base(), fast, calmer], &went());
    assert_eq!(said.policy.as_deref(), Some("o1"));
    let other = "cas is 1.25× faster than default, but 99 % of waits are up to 11.0 ms (3.00 ms under default)";
    assert!(said.why.starts_with("Try o1 first") && said.why.contains(other), "{}", said.why);
}

#[test]
fn the_task_that_loses_most_is_named() {
    let run = |policy: &str, wait: u64| {
        let mut run = outcome(policy, 0, runs(&[100])[0]);
        let task = |cpu_ns, wait_ns| TaskObserved { cpu_ns, wait_ns, ..TaskObserved::default() };
        let tiny = task(1, 9 * wait * MS);
        let tasks = [(1, task(50 * MS, 50 * MS)), (2, task(50 * MS, wait * MS)), (3, tiny)];
        run.observed.tasks = tasks.into();
        let names = [(1, "make"), (2, "cc1"), (3, "tiny")];
        run.names = names.map(|(tid, name)| (tid, name.to_string())).into();
        run
    };
    let setting = tried(&[base()], &went(), &ways()).setting;
    let results = Results::new(setting, &[run("default", 50), run("cas", 150)], false);
    let slowest = contestants(&results, false, |_| true).remove(1).slowest.unwrap();
    assert_eq!((slowest.name.as_str(), slowest.ratio), ("cc1", 2.0), "tiny did next to nothing");
}

#[test]
fn there_is_no_answer_where_the_replay_says_little_and_the_reason_is_the_true_one() {
    let said = |went: Went| {
        let said = answered(&half(), &went);
        assert_eq!((said.verdict, said.policy, said.gain), (Verdict::None, None, None));
        (said.why, said.next.unwrap())
    };
    let off = Went { elapsed_s: 0.2, ..went() };
    let (why, next) = said(Went { others: 0.3, ..off.clone() });
    let wanted = "No answer: the replay under default is 50.0 % off its own recording, and others had 30.0 % of the \
                  CPU time. Record again on an idle machine.";
    assert_eq!((why.as_str(), next.as_str()), (wanted, "paceline try -- make"));
    let (why, next) = said(Went { others: 0.3, ..went() });
    let wanted = "No answer: others had 30.0 % of the CPU time. Record again on an idle machine.";
    assert_eq!((why.as_str(), next.as_str()), (wanted, "paceline try -- make"));
    let (why, next) = said(off.clone());
    assert!(!why.contains("record again on an idle machine"), "no other load had it: {why}");
    assert_eq!(next, "paceline compare --on vm --policy default -- make");
    let (why, next) = said(Went { talks_unseen: true, ..off.clone() });
    assert!(why.ends_with("Record again with --calls."), "{why}");
    assert_eq!(next, "paceline try --calls -- make");
    let (why, _) = said(Went { coarse: Some(Some(0.3)), ..went() });
    assert!(why.contains("has not seen 30.0 % of the CPU time. Record again with sudo"), "{why}");
    let (why, _) = said(Went { cpus: 8, ..went() });
    assert!(why.starts_with("No answer: it was recorded on 8 CPUs and replayed on 2"), "{why}");
    let (why, _) = said(Went { under: Some("o1".into()), ..went() });
    assert!(why.contains("is not known"), "{why}");
    let once = [("default", runs(&[100])), ("cas", runs(&[50]))];
    assert!(answered(&once, &went()).why.starts_with("No answer: one replay of each policy"));
}

#[test]
fn a_weak_answer_says_so_in_one_sentence() {
    let said = |went: Went| answered(&half(), &went).why;
    assert!(!said(went()).contains("direction"));
    let weak = said(Went { others: 0.12, ..went() });
    let wanted =
        " Take this as a direction and not as a figure: others had 12.0 % of the CPU time.";
    assert!(weak.ends_with(wanted), "{weak}");
    let weak = said(Went { others: 0.12, coarse: Some(None), ..went() });
    assert!(weak.ends_with("12.0 % of the CPU time, and the recording is coarse."), "{weak}");
    let unseen = said(Went { talks_unseen: true, ..went() });
    assert!(unseen.ends_with("what went through its pipes was not recorded."), "{unseen}");
}

#[test]
fn where_nothing_can_be_loaded_the_answer_says_what_to_do() {
    let closed = Ways { obstacle: Some("the kernel has none: boot another".into()), ..ways() };
    let said = tried(&half(), &went(), &closed).answer.unwrap();
    assert!(said.why.contains("No policy can be loaded here"), "{}", said.why);
    assert!(said.why.contains("`paceline doctor`"), "{}", said.why);
    let next = "paceline compare --on vm --policy default,cas -- make";
    assert_eq!(said.next.as_deref(), Some(next));
}

#[test]
fn a_model_that_no_kernel_has_is_not_recommended() {
    let results = tried(&[base(), ("cfs", runs(&[50, 50]))], &went(), &ways());
    assert_eq!(results.answer.unwrap().verdict, Verdict::Stay);
    let told = |line: &String| line.ends_with(": a model, which no kernel has");
    assert!(results.details.iter().any(told), "{:?}", results.details);
}

#[test]
fn what_a_coarse_recording_lacks_is_not_told() {
    let said = |coarse| tried(&half(), &Went { coarse, ..went() }, &ways());
    let told = |results: &Results, what| results.details.iter().any(|line| line.contains(what));
    assert!(told(&said(None), "50 switches where default has 100"));
    let coarse = said(Some(None));
    assert!(!told(&coarse, "switches where"));
    assert_eq!(coarse.answer.unwrap().costs.unwrap().context_switches, None);
}

/// Times near each other, so that gains, losses, ties and noise all occur.
fn any_run() -> impl Strategy<Value = Ran> {
    let elapsed_ms = prop_oneof![90..=110u64, 50..=200u64, 0..=1u64];
    (elapsed_ms, 0..=12u64, 0..=60u64).prop_map(|(elapsed_ms, p99_ms, max_ms)| Ran {
        elapsed_ns: elapsed_ms * MS,
        p99_ns: p99_ms * MS,
        max_ns: max_ms.max(p99_ms) * MS,
    })
}

/// Runs that differ by a few ms only, as replays do.
fn any_runs() -> impl Strategy<Value = Vec<Ran>> {
    let near = (50..=130u64, prop::collection::vec((0..=3u64, 1..=8u64, 8..=30u64), 5));
    let near = near.prop_map(|(ms, runs)| {
        let one = |(more, p99, max)| waiting(&[ms + more], p99, max)[0];
        runs.into_iter().map(one).collect()
    });
    prop_oneof![2 => near, 1 => prop::collection::vec(any_run(), 5)]
}

fn any_went() -> impl Strategy<Value = Went> {
    let others = prop_oneof![0.0..0.06, 0.0..0.25, 0.0..=1.0];
    let times = prop_oneof![4 => 0.095..0.105, 4 => 0.05..0.2, 1 => Just(0.0)];
    let unseen = (0.0..=1.0).prop_map(|part| Some(Some(part)));
    let coarse = prop_oneof![6 => Just(None), 1 => Just(Some(None)), 1 => unseen];
    let named = |name: &str| Just(Some(name.to_string()));
    let under = prop_oneof![8 => Just(None), 1 => named("cas"), 1 => named("dino")];
    let rarely = || prop::bool::weighted(0.2);
    let cpus = prop_oneof![9 => Just(2usize), 1 => 1..=9usize];
    (times, others, coarse, under, (rarely(), rarely(), rarely()), cpus).prop_map(
        |(elapsed_s, others, coarse, under, (talks_unseen, lost, nowhere), cpus)| {
            let unseen = talks_unseen.then(|| UNSEEN.to_string());
            let doubts =
                unseen.into_iter().chain(lost.then(|| "5 events are missing".into())).collect();
            let seen = Went { cpus, affinity: !nowhere, elapsed_s, others, ..Went::default() };
            Went { coarse, under, talks_unseen, doubts, ..seen }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_answer_contradicts_a_warning(
        replays in prop::collection::vec(any_runs(), 1..=4),
        count in 1..=5usize,
        went in any_went(),
        obstacle in prop::option::of(Just("no sched_ext".to_string())),
    ) {
        let labels = ["default", "flsched", "cas", "o1"].into_iter();
        let of: All = labels.zip(&replays).map(|(label, runs)| (label, runs[..count].to_vec())).collect();
        let results = tried(&of, &went, &Ways { obstacle, ..ways() });
        let json = serde_json::from_str(&results.json()).unwrap();
        prop_assert_eq!(laboratory::contradictions(&json), Vec::<String>::new());
    }
}
