// SPDX-License-Identifier: GPL-2.0-only
//! What a sweep found, for a terminal, a page, and other programs.

use csv::Writer;
use report::figure::range;
use report::heat::heat;
use report::html;
use report::scatter::{Dot, scatter};
use report::text::{Align, digits, percent, plural, table, wrapped};
use report::{FileError, Style};
use terminal::Failure;

use crate::design::Design;
use crate::digest::Digest;
use crate::findings::{EXPLAINS, Effects, Findings, OfVariant, Winner, each};
use crate::run::Came;
use crate::statistics::Mean;
use crate::store::Store;
use crate::tune::{Answer, Tried, Tuned};

/// Most variants in a terminal's table, and in a heat map.
const VARIANTS: usize = 12;
/// Most factors and pairs of factors in a line.
const FACTORS: usize = 4;

/// A gain with its range: `1.12 (1.10–1.14)`.
pub fn gain(mean: Mean) -> String {
    let between = mean.low.zip(mean.high).map(|(low, high)| range(low, high));
    format!("{}{}", digits(mean.mean), between.unwrap_or_default())
}

/// The variants that gain most, after the one that all are compared with. Also how many are left out.
fn best(findings: &Findings) -> (Vec<&OfVariant>, usize) {
    let gain = |of: &OfVariant| of.gain.map_or(f64::NEG_INFINITY, |gain| gain.mean);
    let Some((base, others)) = findings.variants.split_first() else { return (Vec::new(), 0) };
    let mut others: Vec<&OfVariant> = others.iter().collect();
    others.sort_by(|one, other| gain(other).total_cmp(&gain(one)));
    let left_out = others.len().saturating_sub(VARIANTS);
    others.truncate(VARIANTS);
    (std::iter::once(base).chain(others).collect(), left_out)
}

fn headings(findings: &Findings) -> Vec<&'static str> {
    let mut headings = vec!["variant", "gain", "least", "wait p99"];
    let limited = findings.variants.iter().any(|of| of.keeps_limits.is_some());
    headings.extend(limited.then_some("keeps limits"));
    headings.extend(findings.variants.iter().any(|of| of.failed > 0).then_some("failed"));
    let lacks = |of: &OfVariant| of.without_gain > 0;
    headings.extend(findings.variants.iter().any(lacks).then_some("without a gain"));
    headings
}

fn row(of: &OfVariant, headings: &[&str]) -> Vec<String> {
    let unknown = || "–".to_string();
    let cell = |heading: &&str| match *heading {
        "variant" => of.label.clone(),
        "gain" => of.gain.map_or_else(unknown, gain),
        "least" => of.worst.as_ref().map_or_else(unknown, |(_, gain)| digits(*gain)),
        "wait p99" => of.wait_p99.map_or_else(unknown, |wait| format!("{}×", digits(wait))),
        "keeps limits" => of.keeps_limits.map_or_else(unknown, percent),
        "failed" => of.failed.to_string(),
        _ => of.without_gain.to_string(),
    };
    headings.iter().map(cell).collect()
}

/// `paceline: machine 60 %, pressure 20 %; machine with pressure 8 %`.
fn matters(effects: &Effects) -> String {
    let told = |name: String, part: f64| format!("{name} {}", percent(part));
    let factors = effects.factors.iter().filter(|it| it.explains >= EXPLAINS).take(FACTORS);
    let alone: Vec<String> = factors.map(|it| told(it.factor.clone(), it.explains)).collect();
    let pairs = effects.pairs.iter().take(FACTORS);
    let both: Vec<String> = pairs.map(|it| told(it.factors.join(" with "), it.explains)).collect();
    let parts = [alone.join(", "), both.join(", ")];
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|it| !it.is_empty()).collect();
    match parts.is_empty() {
        true => format!("{}: nothing beyond chance", effects.policy),
        false => format!("{}: {}", effects.policy, parts.join("; ")),
    }
}

fn won(winner: &Winner, base: &str) -> String {
    let Winner { machine, label, gain: of, by_chance, base_is_out } = winner;
    if *base_is_out {
        let why = format!("{base} breaks a limit or fails there");
        return format!("{machine}: {label}, {}; {why}", gain(*of));
    }
    match (label == base, by_chance) {
        (true, _) => format!("{machine}: none is better than {base}"),
        (_, true) if of.low.is_none() => {
            format!("{machine}: {label}, {}, with one seed: it may be chance", gain(*of))
        }
        (_, true) => format!("{machine}: {label}, {}, which may be chance", gain(*of)),
        (_, false) => format!("{machine}: {label}, {}", gain(*of)),
    }
}

/// What was run and what the figures mean.
fn heading(findings: &Findings) -> [String; 2] {
    let Findings { settings, seeds, base, objective, .. } = findings;
    [
        format!(
            "{}: {}, {} each",
            findings.title,
            plural(*settings, "setting"),
            plural(*seeds, "seed")
        ),
        format!(
            "gain: {objective} against {base}, above 1 is better; in brackets where it lies with 95 %, by seeds; \
             least: in the setting where it gains least"
        ),
    ]
}

/// For a terminal.
pub fn text(findings: &Findings, style: Style) -> String {
    let (variants, left_out) = best(findings);
    let headings = headings(findings);
    let rows: Vec<Vec<String>> = variants.iter().map(|of| row(of, &headings)).collect();
    let mut lines: Vec<String> =
        heading(findings).iter().map(|line| wrapped(line, style)).collect();
    lines.push("\n".into());
    lines.push(table(&headings, &rows, Align::Right, style));
    if left_out > 0 {
        lines.push(format!("{left_out} more gain less; --csv and --report have all\n"));
    }
    let mut list = |title: &str, all: Vec<String>| {
        if !all.is_empty() {
            lines.push(format!("\n{title}\n"));
            lines.extend(all.iter().map(|line| wrapped(&format!("- {line}"), style)));
        }
    };
    let winners = findings.winners.iter().map(|it| won(it, &findings.base)).collect();
    list("Best on each machine:", winners);
    let effects = findings.effects.iter().map(matters).collect();
    list("What explains the differences of a policy's gain:", effects);
    let failed = findings.failed.iter().take(VARIANTS);
    let failed =
        failed.map(|it| format!("{}: {}, such as: {}", it.label, plural(it.runs, "run"), it.why));
    list("Failed:", failed.collect());
    lines.concat()
}

/// A page that needs nothing else. `again` is the command that makes it.
pub fn page(findings: &Findings, again: &str) -> String {
    let headings = headings(findings);
    let [what, means] = heading(findings);
    let [what, means, again] = [&what, &means, again].map(html::escape);
    let mut body = format!("<p>{what}<br>\n{means}</p>\n<p>Again with: <code>{again}</code></p>\n");
    let mut sorted = best(findings).0;
    let rest = findings.variants.iter().filter(|of| !sorted.iter().any(|it| it.label == of.label));
    sorted.extend(rest.collect::<Vec<_>>());
    let rows: Vec<Vec<String>> = sorted.iter().map(|of| row(of, &headings)).collect();
    body += &html::table("Variants, those that gain most first", &headings, &rows);
    body += "<h2>Best on each machine</h2>\n<ul>\n";
    for winner in &findings.winners {
        body += &format!("<li>{}</li>\n", html::escape(&won(winner, &findings.base)));
    }
    body += "</ul>\n";
    body += &map(findings);
    let dot = |point: &crate::findings::Point| Dot {
        name: point.label.clone(),
        at: (point.wait_p99, point.gain),
        best: point.best,
    };
    let dots: Vec<Dot> = findings.frontier.iter().map(dot).collect();
    if dots.len() > 1 {
        let caption = "Gain and waits: no other variant gains more and waits less than a named one";
        let wait = format!("wait p99, times that of {}", findings.base);
        body += "<h2>What a gain costs in waits</h2>\n";
        body += &html::figure(caption, &scatter(caption, &wait, "gain", &dots));
    }
    body += &findings.effects.iter().map(effects).collect::<String>();
    if !findings.failed.is_empty() {
        let row = |it: &crate::findings::Lost| {
            vec![it.label.clone(), it.runs.to_string(), it.why.clone()]
        };
        let rows: Vec<Vec<String>> = findings.failed.iter().map(row).collect();
        body += &html::table("Runs that failed", &["variant", "runs", "why the first did"], &rows);
    }
    html::page(&findings.title, &body)
}

/// A heat map of gains by place.
fn map(findings: &Findings) -> String {
    let kept: Vec<String> = best(findings).0.iter().map(|of| of.label.clone()).collect();
    let columns = &findings.map.columns;
    let places: Vec<usize> =
        kept.iter().filter_map(|label| columns.iter().position(|it| it == label)).collect();
    let row = |(name, gains): &(String, Vec<Option<f64>>)| {
        (name.clone(), places.iter().map(|at| gains[*at]).collect())
    };
    let rows: Vec<(String, Vec<Option<f64>>)> = findings.map.rows.iter().map(row).collect();
    let caption = format!("Gain over {}, the place with the least gain first", findings.base);
    format!("<h2>Where</h2>\n{}", html::figure(&caption, &heat(&caption, &kept, &rows)))
}

/// A policy's factors, and pairs of them.
fn effects(of: &Effects) -> String {
    let mut body = format!("<h2>What the gain of {} depends on</h2>\n", html::escape(&of.policy));
    let mut rows = Vec::new();
    for factor in &of.factors {
        for (value, mean) in &factor.at {
            let name = format!("{} = {value}", factor.factor);
            rows.push(vec![name, gain(*mean), percent(factor.explains)]);
        }
    }
    let headings = ["value", "gain", "the factor explains"];
    body += &html::table("Mean gain at each value of each factor", &headings, &rows);
    for pair in of.pairs.iter().take(FACTORS) {
        let [one, other] = &pair.factors;
        let caption = format!(
            "{one} and {other} together explain {} of the differences beyond each alone",
            percent(pair.explains)
        );
        let rows: Vec<(String, Vec<Option<f64>>)> =
            pair.rows.iter().cloned().zip(pair.gains.iter().cloned()).collect();
        body += &html::figure(&caption, &heat(&caption, &pair.columns, &rows));
    }
    body
}

/// What a search says, in lines.
fn found(tuned: &Tuned) -> Vec<String> {
    let Tuned { policy, objective, .. } = tuned;
    let seeds = "with seeds that the search has not seen";
    let best = tuned.tried.first().map_or("", |it| it.label.as_str());
    let times = tuned.gain.map_or(String::new(), |of| format!("{} times as good", gain(of)));
    let mut lines = vec![match tuned.answer {
        Answer::Found if tuned.defaults_keep_limits => {
            format!("{best}: {times} as {policy} in {objective}, {seeds}.")
        }
        Answer::Found => format!(
            "{best} keeps the limits of {objective} with every seed, which {policy} does not; it is {times}, {seeds}."
        ),
        Answer::NoneBetter => format!("Nothing to gain: {policy} stays, no value is better."),
        Answer::ByChance => format!(
            "Nothing to gain: {policy} stays. The best of the search, {best}, is {times}, {seeds}."
        ),
        Answer::NotWithOtherSeeds => format!(
            "Nothing found: {policy} stays. The best of the search, {best}, fails or breaks a limit {seeds}."
        ),
        Answer::NotElsewhere => format!(
            "Nothing found: {policy} stays. The best of the search, {best}, is {times}, but has no gain with workloads \
             that were held out."
        ),
        Answer::NoResult => {
            format!("Nothing found: no value has a result in {objective} that keeps its limits.")
        }
    }];
    if let Some(of) = tuned.gain_elsewhere {
        lines.push(format!("With workloads that were held out, it is {} times as good.", gain(of)));
    }
    if let Some(wait) = tuned.wait_p99 {
        lines.push(format!("99 % of waits are up to {} times as long.", digits(wait)));
    }
    let failed: Vec<&Tried> = tuned.tried.iter().filter(|it| it.why.is_some()).collect();
    if let [first, ..] = failed[..] {
        let why = first.why.as_deref().unwrap_or_default();
        let failed = plural(failed.len(), "candidate");
        lines.push(format!("{failed} failed, such as {}: {why}.", first.label));
    }
    lines.push(format!(
        "{} tried in {}.",
        plural(tuned.tried.len(), "candidate"),
        plural(tuned.searched_by, "simulation")
    ));
    lines
}

/// The knobs that were searched: the defaults have no values of them.
fn knobs_of(tuned: &Tuned) -> Vec<&String> {
    tuned
        .tried
        .iter()
        .find(|it| !it.knobs.is_empty())
        .map_or(Vec::new(), |it| it.knobs.keys().collect())
}

/// A row for each candidate of a search: its knobs, its gain, and how many seeds it had.
fn candidates(tuned: &Tuned, most: usize) -> (Vec<String>, Vec<Vec<String>>) {
    let knobs = knobs_of(tuned);
    let mut headings = vec!["candidate".to_string()];
    headings.extend(knobs.iter().map(ToString::to_string));
    headings.extend(["gain", "seeds"].map(String::from));
    let row = |it: &Tried| {
        let mut row = vec![it.label.clone()];
        row.extend(knobs.iter().map(|knob| it.knobs.get(*knob).cloned().unwrap_or("–".into())));
        row.push(it.gain.map_or("–".into(), digits));
        row.push(it.seeds.to_string());
        row
    };
    (headings, tuned.tried.iter().take(most).map(row).collect())
}

/// What a search found, for a terminal.
pub fn tuned_text(tuned: &Tuned, style: Style) -> String {
    let (headings, rows) = candidates(tuned, VARIANTS);
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let lines: String = found(tuned).iter().map(|line| wrapped(line, style)).collect();
    format!("{lines}\n{}", table(&headings, &rows, Align::Right, style))
}

/// What a search found, as a page.
pub fn tuned_page(tuned: &Tuned, again: &str) -> String {
    let lines = found(tuned)
        .iter()
        .map(|line| format!("<p>{}</p>\n", html::escape(line)))
        .collect::<String>();
    let mut body = format!(
        "<div class=\"answer {}\">\n{lines}</div>\n",
        if tuned.best.is_some() { "gain" } else { "none" }
    );
    body += &format!("<p>Again with: <code>{}</code></p>\n", html::escape(again));
    for knob in knobs_of(tuned) {
        let dot = |(at, it): (usize, &Tried)| {
            let text = it.knobs.get(knob)?;
            let value = value_of(text)?;
            Some(Dot { name: it.label.clone(), at: (value, it.gain?), best: at == 0 })
        };
        let dots: Vec<Dot> = tuned.tried.iter().enumerate().filter_map(dot).collect();
        if dots.len() > 1 {
            let caption = format!("Gain in the search by {knob}; the best candidate is named");
            let axis = format!("{knob} (times in ms)");
            body += &html::figure(&caption, &scatter(&caption, &axis, "gain", &dots));
        }
    }
    let (headings, rows) = candidates(tuned, usize::MAX);
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    body += &html::table("All candidates, the best first", &headings, &rows);
    html::page(&format!("{}: {} tuned", tuned.title, tuned.policy), &body)
}

/// A knob's value as a number; times in ms.
fn value_of(text: &str) -> Option<f64> {
    let time = || humantime::parse_duration(text).ok().map(|time| time.as_secs_f64() * 1e3);
    text.parse().ok().or_else(time)
}

/// A row for each run, the units in the columns' names; empty where nothing is known.
///
/// # Errors
/// A result is missing, or the writer's error.
pub fn csv(
    design: &Design,
    store: &Store,
    program: Digest,
    path: &std::path::Path,
) -> Result<(), Failure> {
    let mut trouble = None;
    let written: Result<(), FileError> = report::write_with(path, |out| {
        let mut out = Writer::from_writer(out);
        let mut header = vec!["policy".to_string(), "variant".to_string()];
        header.extend(design.factors.iter().cloned());
        for (policy, knobs) in design.policies.iter().zip(&design.knobs) {
            header.extend(knobs.iter().map(|knob| format!("{policy}.{knob}")));
        }
        header.extend(["seed", "gain", "failed"].map(String::from));
        header.extend(FIGURES.map(|(name, _)| name.to_string()));
        out.write_record(&header)?;
        let rows = each(design, store, program, |run| {
            let mut cells = vec![design.policies[run.variant.policy].clone()];
            cells.push(run.variant.label.clone());
            cells.extend(run.setting.levels.iter().map(|level| level.text.clone()));
            for (policy, knobs) in design.knobs.iter().enumerate() {
                let own = |at: usize| {
                    let level = run.variant.levels.get(at).filter(|_| run.variant.policy == policy);
                    level.map_or(String::new(), |level| level.text.clone())
                };
                cells.extend((0..knobs.len()).map(own));
            }
            cells.push(run.seed.to_string());
            cells.push(run.gain.map_or(String::new(), |gain| gain.to_string()));
            match run.came {
                Came::Failed(why) => {
                    cells.push(why.clone());
                    cells.extend(FIGURES.map(|_| String::new()));
                }
                Came::Measured(of) => {
                    cells.push(String::new());
                    cells.extend(FIGURES.map(|(_, figure)| figure(of)));
                }
            }
            out.write_record(&cells).map_err(|error| {
                Failure::input(format!("cannot write {}: {error}", path.display()))
            })
        });
        trouble = rows.err();
        out.flush()
    });
    match trouble {
        Some(failure) => Err(failure),
        None => written.map_err(Failure::input),
    }
}

type Figure = fn(&crate::measured::Measured) -> String;

/// Columns of figures.
const FIGURES: [(&str, Figure); 13] = [
    ("elapsed_s", |of| seconds(of.elapsed_ns)),
    ("cpu_s", |of| seconds(of.cpu_ns)),
    ("idle_while_runnable_s", |of| seconds(of.idle_while_runnable_ns)),
    ("switches", |of| of.switches.to_string()),
    ("involuntary_switches", |of| of.involuntary_switches.to_string()),
    ("address_space_switches", |of| of.address_space_switches.to_string()),
    ("migrations", |of| of.migrations.to_string()),
    ("tlb_misses", |of| of.tlb_misses.map_or(String::new(), |misses| misses.to_string())),
    ("wait_p50_s", |of| seconds(of.wait.p50_ns)),
    ("wait_p95_s", |of| seconds(of.wait.p95_ns)),
    ("wait_p99_s", |of| seconds(of.wait.p99_ns)),
    ("worst_wait_s", |of| seconds(of.wait.max_ns)),
    ("work", |of| of.work().map_or(String::new(), |work| work.to_string())),
];

/// Exact: ns are whole.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact() {
        assert_eq!([0, 1, 1_500_000_000].map(seconds), ["0", "0.000000001", "1.5"]);
    }
}
