// SPDX-License-Identifier: GPL-2.0-only
//! The report: one HTML page that needs nothing else.

use crate::markup::breaking;
pub use crate::markup::{download, escape, figure, table};
use crate::text::{count, known, sentence, time, unit};
use crate::{
    Clock, Results, Run, Spread, Summary, Verdict, csv, differences, fairness, figure, plot, table,
    timeline, work,
};

const STYLE: &str = include_str!("report.css");
/// A page around `body`, which is HTML already.
pub fn page(title: &str, body: &str) -> String {
    let (title, heading) = (escape(title), breaking(title));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{heading}</h1>\n{body}</main>\n\
         </body>\n</html>\n"
    )
}

/// How a report was made.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Version of Paceline.
    pub version: String,
    /// Date of the report.
    pub date: String,
    /// The command that makes the report again.
    pub command: String,
    /// A description of each policy.
    pub policies: Vec<About>,
}

/// A policy's description for the reader.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The policy, as the comparison names it.
    pub policy: String,
    /// A sentence or a paragraph.
    pub text: String,
    /// Its page in the book.
    pub page: Option<String>,
}

/// The report of one comparison: the answer, the gains and their spread, the differences, then all figures.
pub fn comparison(results: &Results, origin: &Origin) -> String {
    let setting = &results.setting;
    let names: Vec<&str> = results.summary.iter().map(|one| one.policy.as_str()).collect();
    let title = format!("{}: {}", setting.workload, names.join(", "));
    let mut body = answer(results);
    body += &format!("<p>{}</p>\n", escape(&table::heading(results)).replace('\n', "<br>\n"));
    body += &made(origin);
    body += &gains(results);
    body += &differences(results);
    body += "<h2>Figures</h2>\n";
    body += &summary(results);
    body += &done(results);
    body += &plots(results);
    body += &fairness::drawn(results);
    body += &timeline::drawn(&results.views);
    body += &policies(&origin.policies);
    body += "<h2>What these figures are</h2>\n<ul>\n";
    for line in table::footnotes(results) {
        body += &format!("<li>{}</li>\n", escape(&line));
    }
    body += "</ul>\n<p class=\"paper\">On a screen this page has every run, every task and the data, too.</p>\n";
    body += "<div class=\"screen\">\n<h2>Every run</h2>\n";
    body += &runs(results);
    body += &functions(results);
    body += &tasks(results);
    let of_first = match results.has_many_tasks() {
        true => " (tasks are of the first run of each policy; <code>--json</code> has all)",
        false => "",
    };
    body += &format!(
        "<h2>Data</h2>\n<p>{}{of_first} · {}</p>\n",
        download("paceline.json", "application/json", &results.json_for_page()),
        download("paceline.csv", "text/csv", &table_of_runs(results))
    );
    body += "</div>\n";
    page(&title, &body)
}

fn made(origin: &Origin) -> String {
    if origin.command.is_empty() {
        return String::new();
    }
    format!(
        "<p class=\"made\">{}, paceline {}. Again: <code>{}</code></p>\n",
        escape(&origin.date),
        escape(&origin.version),
        escape(&origin.command)
    )
}

/// Each policy's description, with its page in the book.
fn policies(all: &[About]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut html = String::from("<div class=\"screen\">\n<h2>The policies</h2>\n<dl>\n");
    for About { policy, text, page } in all {
        let more = page.as_deref().map_or(String::new(), |page| {
            let (page, policy) = (escape(page), escape(policy));
            format!(" <a href=\"{page}\">More about {policy}</a>")
        });
        html += &format!("<dt>{}</dt>\n<dd>{}{more}</dd>\n", breaking(policy), escape(text));
    }
    html + "</dl>\n</div>\n"
}

/// The gains and their spread: each run of each policy against the first policy's.
fn gains(results: &Results) -> String {
    let Some((first, others)) = results.summary.split_first() else { return String::new() };
    let name = results.setting.clock.elapsed_name();
    let row = |one: &Summary| (one.policy.clone(), results.ratios(&one.policy));
    let shown: Vec<_> = others.iter().map(row).filter(|(_, ratios)| !ratios.is_empty()).collect();
    if shown.is_empty() {
        return String::new();
    }
    let rows: Vec<Strip> = [row(first)].into_iter().chain(shown).collect();
    let title = format!("{name} as a multiple of {}", first.policy);
    let caption = format!("{title}: a dot for each run, a bar to their median; below 1 is better");
    let axis = format!("times {}", first.policy);
    format!(
        "<h2>How much, and how sure</h2>\n{}",
        figure(&caption, &plot::strips(&title, &axis, &rows))
    )
}

/// Each policy's differences, in words.
fn differences(results: &Results) -> String {
    let sentences = differences::sentences(results);
    if sentences.is_empty() {
        return String::new();
    }
    let mut html = String::from("<h2>What each policy did differently</h2>\n<ul>\n");
    for sentence in sentences {
        html += &format!("<li>{}</li>\n", escape(&sentence));
    }
    html + "</ul>\n"
}

/// The answer that the reader asked for; it comes first.
fn answer(results: &Results) -> String {
    let Some(answer) = &results.answer else { return String::new() };
    let kind = match answer.verdict {
        Verdict::Try | Verdict::Tie if answer.is_costly() => "costly",
        Verdict::Try | Verdict::Tie => "gain",
        Verdict::Stay => "stay",
        Verdict::None => "none",
    };
    let mut html = format!(
        "<section class=\"answer {kind}\" aria-label=\"Answer\">\n<p><strong>{}</strong></p>\n",
        escape(&sentence(&answer.headline))
    );
    for detail in &answer.details {
        html += &format!("<p>{}</p>\n", escape(&sentence(detail)));
    }
    if let Some(next) = &answer.next {
        html += &format!("<p>Next: <code>{}</code></p>\n", escape(next));
    }
    html + "</section>\n"
}

/// The table that `--csv` writes.
fn table_of_runs(results: &Results) -> String {
    let mut table = Vec::new();
    csv::runs(results, &mut table).expect("memory takes it");
    String::from_utf8(table).expect("it is made of text")
}

fn summary(results: &Results) -> String {
    let clock = results.setting.clock;
    let first = results.summary.first().map_or("", |one| one.policy.as_str());
    let against = format!("{} / {first}", clock.elapsed_name());
    let mut headings =
        vec!["policy", "runs", clock.elapsed_name(), &against, "idle while runnable"];
    let columns = figure::columns(results);
    headings.extend(columns.iter().map(|figure| figure.long));
    let row = |one: &Summary| {
        let mut row = vec![
            one.policy.clone(),
            one.runs.to_string(),
            figure::with_range(Some(one.elapsed_s), time),
            figure::against_first(one),
            figure::idle_while_runnable(one),
        ];
        row.extend(columns.iter().map(|figure| figure.with_range(one)));
        row
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for one in &results.summary {
        rows.push(row(one));
        if let Some(machine) = one.whole_machine() {
            let idle = figure::with_range(machine.idle_while_runnable_s, time);
            let mut row = vec![machine.policy.clone(), "".into(), "".into(), "".into(), idle];
            row.extend(columns.iter().map(|figure| figure.with_range(&machine)));
            rows.push(row);
        }
    }
    table("Median (least – greatest) over the runs; worst wait: of all runs", &headings, &rows)
}

fn done(results: &Results) -> String {
    let rows: Vec<Vec<String>> = work::rows(results).iter().map(work::Work::row).collect();
    match rows.is_empty() {
        true => String::new(),
        false => table(work::CAPTION, &work::headings(results), &rows),
    }
}

/// A policy and the values of its runs.
type Strip = (String, Vec<f64>);

fn plots(results: &Results) -> String {
    let rows = |value: fn(&Run) -> Option<f64>| -> Vec<Strip> {
        let of = |policy: &str| {
            let runs = results.runs.iter().filter(|run| run.policy == policy);
            runs.filter_map(value).collect()
        };
        results.summary.iter().map(|one| (one.policy.clone(), of(&one.policy))).collect()
    };
    let elapsed = elapsed_title(results.setting.clock);
    let counts = |value| ("switches".to_string(), rows(value));
    let times = |of: &str, value| {
        let mut rows = rows(value);
        let most = rows.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max);
        let (of_second, _, name) = unit(most);
        rows.iter_mut().flat_map(|(_, values)| values).for_each(|value| *value *= of_second);
        (format!("{of}{name}"), rows)
    };
    let strips = [
        (elapsed, times("", |run| Some(run.elapsed_s))),
        ("Idle while runnable", times("CPU ", |run| run.idle_while_runnable_s)),
        ("Context switches", counts(|run| run.context_switches.map(|n| n as f64))),
        ("Involuntary switches", counts(|run| run.involuntary_switches.map(|n| n as f64))),
        ("Wait of a runnable task, 99 % at most", times("", |run| run.wait_p99_s)),
    ];
    let drawn =
        strips.iter().filter(|(_, (_, rows))| rows.iter().any(|(_, values)| !values.is_empty()));
    let (telling, alike): (Vec<_>, Vec<_>) = drawn.partition(|(_, (_, rows))| differs(rows));
    let draw = |(title, (axis, rows)): &(&str, (String, Vec<Strip>))| {
        let caption = format!("{title}: a dot for each run, a bar to their median");
        figure(&caption, &plot::strips(title, axis, rows))
    };
    let telling: String = telling.into_iter().map(draw).collect();
    let mut html = format!("<div class=\"charts\">\n{telling}</div>\n");
    if !alike.is_empty() {
        let names: Vec<String> = alike.iter().map(|(title, _)| title.to_lowercase()).collect();
        let folded: String = alike.into_iter().map(draw).collect();
        html += &format!(
            "<details class=\"screen\"><summary>Charts without a difference: {}</summary>\n{folded}</details>\n",
            escape(&names.join(", "))
        );
    }
    html
}

/// Whether a policy's runs all differ from all of the first policy's.
fn differs(rows: &[Strip]) -> bool {
    let Some(first) = rows.first().and_then(|(_, values)| Spread::of(values)) else { return true };
    rows[1..].iter().filter_map(|(_, values)| Spread::of(values)).any(|own| !own.overlaps(&first))
}

fn elapsed_title(clock: Clock) -> &'static str {
    if clock.counts_work() { "Guest work (instructions of all CPUs)" } else { "Elapsed time" }
}

fn runs(results: &Results) -> String {
    let name = results.setting.clock.elapsed_name();
    let headings = [
        "policy",
        "boot",
        "run",
        name,
        "idle while runnable",
        "switches",
        "involuntary",
        "address-space switches",
        "migrations",
        "wait p99",
        "worst wait",
    ];
    let rows: Vec<Vec<String>> = results
        .runs
        .iter()
        .map(|run| {
            vec![
                run.policy.clone(),
                run.boot.to_string(),
                run.run.to_string(),
                time(run.elapsed_s),
                known(run.idle_while_runnable_s, time),
                known(run.context_switches, |n| count(n as f64)),
                known(run.involuntary_switches, |n| count(n as f64)),
                known(run.address_space_switches, |n| count(n as f64)),
                known(run.migrations, |n| count(n as f64)),
                known(run.wait_p99_s, time),
                known(run.wait_max_s, time),
            ]
        })
        .collect();
    table("Runs, in the order in which they were made", &headings, &rows)
}

fn functions(results: &Results) -> String {
    let mut rows = Vec::new();
    for one in &results.summary {
        let first = results.runs.iter().find(|run| run.policy == one.policy);
        for (name, cost) in first.iter().flat_map(|run| &run.functions) {
            rows.push(vec![
                one.policy.clone(),
                name.clone(),
                count(cost.count as f64),
                time(cost.s),
            ]);
        }
    }
    match rows.is_empty() {
        true => String::new(),
        false => format!(
            "<h2>Scheduler functions</h2>\n<details><summary>{} rows</summary>\n{}</details>\n",
            rows.len(),
            table("Of each policy's first run", &["policy", "function", "calls", "time"], &rows)
        ),
    }
}

fn tasks(results: &Results) -> String {
    let mut html = String::from("<h2>Tasks</h2>\n");
    for one in &results.summary {
        let Some(run) = results.runs.iter().find(|run| run.policy == one.policy) else { continue };
        let mut tasks: Vec<_> = run.tasks.iter().collect();
        tasks.sort_by(|a, b| b.cpu_s.total_cmp(&a.cpu_s).then(a.tid.cmp(&b.tid)));
        let rows: Vec<Vec<String>> = tasks
            .iter()
            .map(|task| {
                let switches = task.voluntary_switches + task.involuntary_switches;
                vec![
                    task.name.clone(),
                    task.tid.to_string(),
                    time(task.cpu_s),
                    time(task.wait_s),
                    time(task.wait_max_s),
                    count(switches as f64),
                    count(task.involuntary_switches as f64),
                    count(task.migrations as f64),
                ]
            })
            .collect();
        let caption = format!("{}: each task in its first run", one.policy);
        html += &format!(
            "<details><summary>{}, {} tasks</summary>\n",
            breaking(&one.policy),
            rows.len()
        );
        let columns = [
            "task",
            "thread",
            "CPU time",
            "waited",
            "worst wait",
            "switches",
            "involuntary",
            "migrations",
        ];
        html += &table(&caption, &columns, &rows);
        html += "</details>\n";
    }
    html
}
