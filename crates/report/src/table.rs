// SPDX-License-Identifier: GPL-2.0-only
//! A comparison as text for a terminal.

use std::collections::BTreeMap;

use anstyle::AnsiColor;

use crate::results::ProgramRun;
use crate::stats::median;
use crate::text::{
    Align, Style, count, fitting, known, percent, plural, sentence, table, time, visible, wrapped,
};
use crate::{Answer, Results, Spread, Summary, Verdict, figure, work};

/// The whole result: the answer, the setting, the figures side by side, and their limits.
pub fn comparison(results: &Results, style: Style) -> String {
    let answer = results.answer.as_ref().map(|answer| self::answer(answer, style));
    let shown = if style.wide { all(results, style) } else { compact(results, style) };
    answer.unwrap_or_default() + &heading(results) + apart(style) + &shown
}

/// Separates a table from the text around it; a frame is separation enough.
fn apart(style: Style) -> &'static str {
    if style.boxes && !style.wide { "" } else { "\n" }
}

/// The answer: the decision, its reasons and objections, and the next step.
fn answer(answer: &Answer, style: Style) -> String {
    let color = match answer.verdict {
        Verdict::Try | Verdict::Tie if answer.is_costly() => Some(AnsiColor::Yellow),
        Verdict::Try | Verdict::Tie => Some(AnsiColor::Green),
        Verdict::None => Some(AnsiColor::Yellow),
        Verdict::Stay => None,
    };
    let form = anstyle::Style::new().bold().fg_color(color.map(Into::into));
    let mut text = style.painted(form, &wrapped(&sentence(&answer.headline), style));
    text += &answer.details.iter().map(|it| wrapped(&sentence(it), style)).collect::<String>();
    // On one line, so that it can be pasted into a shell.
    if let Some(next) = &answer.next {
        text += &format!("next: {}\n", visible(next));
    }
    text + "\n"
}

/// The figures that matter most, as many as fit the width, and the notes a reader must know.
fn compact(results: &Results, style: Style) -> String {
    let name = results.setting.clock.elapsed_name();
    let first = results.summary.first().map_or("", |summary| summary.policy.as_str());
    let against = format!("/ {}", shortened(first, 16));
    let mut headings = vec!["policy", name, &against, "idle while runnable"];
    let shown = ["wait p99", "worst wait", "switches", "migrations"];
    let all = figure::columns(results);
    let columns = shown.iter().filter_map(|name| all.iter().find(|figure| figure.heading == *name));
    headings.extend(columns.clone().map(|figure| figure.heading));
    let row = |one: &Summary| {
        let idle = known(one.idle_while_runnable_share, |share| percent(share.median));
        let mut row =
            vec![one.policy.clone(), time(one.elapsed_s.median), figure::against_first(one), idle];
        row.extend(columns.clone().map(|figure| figure.shown(one)));
        row
    };
    let mut rows: Vec<Vec<String>> = results.summary.iter().map(row).collect();
    let kept = fitting(&headings, &rows, style);
    rows.iter_mut().for_each(|row| row.truncate(kept));
    let mut text = table(&headings[..kept], &rows, Align::Right, style) + apart(style);
    text += &progress(results, style);
    let clock = results.setting.clock;
    if clock.counts_work() {
        text += &wrapped(&format!("{name}: {}.", clock.elapsed_is()), style);
    }
    for note in lost(results).iter().chain(&results.notes) {
        text += &wrapped(note, style);
    }
    text + "--wide shows every figure, and what each means.\n"
}

/// Every figure, and the meaning of each.
fn all(results: &Results, style: Style) -> String {
    let mut text = cost(results, style);
    text += "\n";
    text += &behaviour(results, style);
    text += "\n";
    if missed(results) {
        text += &memory(results, style);
        text += "\n";
        text += &programs(results, style);
    }
    text += &progress(results, style);
    for line in footnotes(results) {
        text += &wrapped(&line, style);
    }
    text
}

/// Names the workload, the ground, the machine and the kernel.
pub fn heading(results: &Results) -> String {
    let setting = &results.setting;
    let mut text = format!(
        "{} on {} ({}), clock {}\n",
        visible(&setting.workload),
        setting.ground,
        visible(&setting.machine),
        setting.clock.name()
    );
    if let Some(kernel) = &setting.kernel {
        text += &format!("kernel {}\n", visible(kernel));
    }
    let other = results.recording.as_ref().filter(|recording| recording.cpus != setting.cpus);
    if let Some(recording) = other {
        let cpus = plural(recording.cpus, "CPU");
        text += &format!("recorded on {cpus}, replayed on {}\n", setting.cpus);
    }
    text
}

/// Lines below the tables: what the seconds are, and the ground's own warnings.
pub fn footnotes(results: &Results) -> Vec<String> {
    let clock = results.setting.clock;
    let mut lines = vec![format!("{}: {}.", clock.elapsed_name(), clock.elapsed_is())];
    lines.push(
        "idle while runnable: CPU time spent idle while a task that might have used it waited, \
         also as a part of all CPU time."
            .into(),
    );
    lines.push(
        "involuntary: switches of tasks that could have gone on; mm switches: to another address \
         space; waits: of a runnable task for a CPU."
            .into(),
    );
    if results.summary.iter().any(|summary| summary.machine.is_some()) {
        lines.push(
            "switches, migrations, waits and idle while runnable are of the workload's own tasks: the command and all \
             that it started. Whole machine: of all tasks."
                .into(),
        );
    }
    if results.summary.iter().any(|summary| summary.energy_j.is_some()) {
        lines.push(
            "energy: of the processors, from the launch to the end and for all tasks.".into(),
        );
    }
    if results.summary.iter().any(|summary| summary.locks.is_some()) {
        lines.push("locks: taken by the scheduler beyond the runqueue's own.".into());
    }
    if missed(results) {
        lines.push(
            "misses: of TLBs (pages of users, of the kernel) and of the last-level cache (lines); \
             time of misses: what these and misses of nearer caches cost; process time: CPU time of \
             all tasks, their system calls included."
                .into(),
        );
    }
    if !work::rows(results).is_empty() {
        lines.push("program: work that a thread of it got done, against the first policy.".into());
    }
    lines.extend(lost(results));
    lines.extend(results.notes.iter().chain(&results.details).cloned());
    lines
}

/// Says in how many runs events were lost because the observer had no room for them.
fn lost(results: &Results) -> Option<String> {
    let lost = results.runs.iter().filter(|run| run.extra.contains_key(trace::OBSERVER_LOST));
    let runs = Some(lost.count()).filter(|runs| *runs > 0)?;
    Some(format!(
        "more happened than can be noted in {}, whose switches, waits and idle time are not known: compare a shorter \
         workload, or one with fewer switches, or give a machine of little memory more.",
        plural(runs, "run")
    ))
}

fn cost(results: &Results, style: Style) -> String {
    let name = results.setting.clock.elapsed_name();
    let first = results.summary.first().map_or("", |summary| summary.policy.as_str());
    let against = format!("{name} / {}", shortened(first, 16));
    let mut headings = vec!["policy", "runs", name, &against, "idle while runnable"];
    let ranges = results.summary.iter().any(|one| one.runs > 1);
    if ranges {
        headings.insert(3, "min – max");
    }
    let row = |summary: &Summary| {
        let elapsed = &summary.elapsed_s;
        let range = ranges.then(|| format!("{} – {}", time(elapsed.min), time(elapsed.max)));
        let before = [summary.policy.clone(), summary.runs.to_string(), time(elapsed.median)];
        let after = [figure::against_first(summary), figure::idle_while_runnable(summary)];
        before.into_iter().chain(range).chain(after).collect()
    };
    let rows: Vec<Vec<String>> = results.summary.iter().map(row).collect();
    table(&headings, &rows, Align::Right, style)
}

fn behaviour(results: &Results, style: Style) -> String {
    let counted = results.summary.iter().any(|summary| summary.locks.is_some());
    let mut headings = vec!["policy"];
    let columns = figure::columns(results);
    headings.extend(columns.iter().map(|figure| figure.heading));
    if counted {
        headings.push("locks");
    }
    let row = |summary: &Summary| {
        let mut row = vec![summary.policy.clone()];
        row.extend(columns.iter().map(|figure| figure.shown(summary)));
        if counted {
            row.push(known(summary.locks, |spread| count(spread.median)));
        }
        row
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for summary in &results.summary {
        rows.push(row(summary));
        rows.extend(summary.whole_machine().as_ref().map(row));
    }
    table(&headings, &rows, Align::Right, style)
}

/// How far the threads of each program got, if policies differ in that.
fn progress(results: &Results, style: Style) -> String {
    let rows: Vec<Vec<String>> = work::rows(results).iter().map(work::Work::row).collect();
    match rows.is_empty() {
        true => String::new(),
        false => table(&work::headings(results), &rows, Align::Right, style) + "\n",
    }
}

/// Whether any run has misses of TLBs and caches.
fn missed(results: &Results) -> bool {
    results.summary.iter().any(|summary| summary.miss_s.is_some())
}

fn memory(results: &Results, style: Style) -> String {
    let headings = [
        "policy",
        "DTLB user",
        "DTLB kernel",
        "ITLB user",
        "ITLB kernel",
        "cache",
        "time of misses",
        "process time",
    ];
    let row = |summary: &Summary| {
        let median = |spread: Option<Spread>| known(spread, |spread| count(spread.median));
        let seconds = |spread: Option<Spread>| known(spread, |spread| time(spread.median));
        vec![
            summary.policy.clone(),
            median(summary.dtlb_user_misses),
            median(summary.dtlb_kernel_misses),
            median(summary.itlb_user_misses),
            median(summary.itlb_kernel_misses),
            median(summary.cache_misses),
            seconds(summary.miss_s),
            seconds(summary.process_s),
        ]
    };
    let rows: Vec<Vec<String>> = results.summary.iter().map(row).collect();
    table(&headings, &rows, Align::Right, style)
}

/// A row for each program under each policy: medians of all runs. Empty if there is one program.
fn programs(results: &Results, style: Style) -> String {
    let mut rows = Vec::new();
    for summary in &results.summary {
        let mut runs: BTreeMap<&String, Vec<&ProgramRun>> = BTreeMap::new();
        let own = results.runs.iter().filter(|run| run.policy == summary.policy);
        for (name, program) in own.flat_map(|run| run.programs.iter().flatten()) {
            runs.entry(name).or_default().push(program);
        }
        rows.extend(runs.iter().map(|(name, runs)| program_row(&summary.policy, name, runs)));
    }
    let headings =
        ["policy", "program", "threads", "TLB misses", "cache misses", "process time", "elapsed"];
    match rows.len() > results.summary.len() {
        true => table(&headings, &rows, Align::Right, style) + "\n",
        false => String::new(),
    }
}

fn program_row(policy: &str, name: &str, runs: &[&ProgramRun]) -> Vec<String> {
    // The median is not known if one of the runs lacks the figure.
    let middle = |of: fn(&ProgramRun) -> Option<f64>| {
        let values: Option<Vec<f64>> = runs.iter().map(|run| of(run)).collect();
        values.and_then(|values| median(&values))
    };
    let threads = middle(|run| Some(run.threads as f64));
    vec![
        policy.to_string(),
        name.to_string(),
        known(threads, count),
        known(middle(|run| run.memory.tlb().map(|n| n as f64)), count),
        known(middle(|run| run.memory.cache_misses.map(|n| n as f64)), count),
        known(middle(|run| Some(run.process_s)), time),
        known(middle(|run| run.elapsed_s), time),
    ]
}

fn shortened(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_string(),
    }
}
