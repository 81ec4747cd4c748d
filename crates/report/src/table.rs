// SPDX-License-Identifier: GPL-2.0-only
//! A comparison as text for a terminal.

use crate::text::{
    Align, Style, count, digits, known, percent, plural, table, time, visible, wrapped,
};
use crate::{Results, Spread, Summary, work};

/// The whole result: what ran where, the figures side by side, and what they cannot tell.
pub fn comparison(results: &Results, style: Style) -> String {
    let mut text = heading(results);
    text += "\n";
    text += &cost(results, style);
    text += "\n";
    text += &behaviour(results, style);
    text += "\n";
    if missed(results) {
        text += &memory(results, style);
        text += "\n";
        text += &programs(results, style);
    }
    let done: Vec<Vec<String>> = work::rows(results).iter().map(work::Work::row).collect();
    if !done.is_empty() {
        text += &table(&work::headings(results), &done, Align::Right, style);
        text += "\n";
    }
    for line in footnotes(results) {
        text += &wrapped(&line, style);
    }
    text
}

/// What ran where.
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
    lines.extend(results.notes.iter().cloned());
    lines
}

/// Of how many runs more happened than the observer had room for.
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
    let headings = ["policy", "runs", name, "min – max", &against, "idle while runnable"];
    let rows: Vec<Vec<String>> = results.summary.iter().map(cost_row).collect();
    table(&headings, &rows, Align::Right, style)
}

fn cost_row(summary: &Summary) -> Vec<String> {
    let elapsed = &summary.elapsed_s;
    vec![
        summary.policy.clone(),
        summary.runs.to_string(),
        time(elapsed.median),
        format!("{} – {}", time(elapsed.min), time(elapsed.max)),
        against_first(summary),
        idle_while_runnable(summary),
    ]
}

/// What it needs of what the first policy needs, with the range of the runs' own ratios where they differ.
pub fn against_first(summary: &Summary) -> String {
    let Some(ratio) = summary.vs_first else { return known(None, digits) };
    let range = summary.vs_first_range.filter(|range| range.max > range.min);
    let range = range.map(|range| format!(" ({}–{})", digits(range.min), digits(range.max)));
    format!("{}×{}", digits(ratio), range.unwrap_or_default())
}

/// Idle-while-runnable with its part of all CPU time.
pub fn idle_while_runnable(summary: &Summary) -> String {
    let both = summary.idle_while_runnable_s.zip(summary.idle_while_runnable_share);
    known(both, |(s, share)| format!("{} ({})", time(s.median), percent(share.median)))
}

fn behaviour(results: &Results, style: Style) -> String {
    let counted = results.summary.iter().any(|summary| summary.locks.is_some());
    let mut headings = vec![
        "policy",
        "switches",
        "involuntary",
        "mm switches",
        "migrations",
        "wait p99",
        "worst wait",
    ];
    if counted {
        headings.push("locks");
    }
    let rows: Vec<Vec<String>> = results
        .summary
        .iter()
        .map(|summary| {
            let median = |spread: Option<Spread>| known(spread, |spread| count(spread.median));
            let mut row = vec![
                summary.policy.clone(),
                median(summary.context_switches),
                median(summary.involuntary_switches),
                median(summary.address_space_switches),
                median(summary.migrations),
                known(summary.wait_p99_s, |spread| time(spread.median)),
                known(summary.wait_max_s, |spread| time(spread.max)),
            ];
            if counted {
                row.push(median(summary.locks));
            }
            row
        })
        .collect();
    table(&headings, &rows, Align::Right, style)
}

/// Whether any run tells what TLBs and caches missed.
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

/// A row for each program under each policy, of the first run; nothing where there is one program.
fn programs(results: &Results, style: Style) -> String {
    let mut rows = Vec::new();
    for run in results.runs.iter().filter(|run| (run.run, run.boot) == (0, 0)) {
        for (name, program) in run.programs.iter().flatten() {
            let memory = &program.memory;
            let tlb = [
                memory.dtlb_user_misses,
                memory.dtlb_kernel_misses,
                memory.itlb_user_misses,
                memory.itlb_kernel_misses,
            ];
            rows.push(vec![
                run.policy.clone(),
                name.clone(),
                count(program.threads as f64),
                count(tlb.iter().flatten().sum::<u64>() as f64),
                known(memory.cache_misses, |n| count(n as f64)),
                time(program.process_s),
                known(program.elapsed_s, time),
            ]);
        }
    }
    let headings =
        ["policy", "program", "threads", "TLB misses", "cache misses", "process time", "elapsed"];
    match rows.len() > results.summary.len() {
        true => table(&headings, &rows, Align::Right, style) + "\n",
        false => String::new(),
    }
}

fn shortened(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_string(),
    }
}
