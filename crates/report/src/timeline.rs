// SPDX-License-Identifier: GPL-2.0-only
//! Pictures of one run of each policy: what ran on each CPU when, and how long waits were.
//!
//! A picture is drawn once, and the page's style sheet colours it by what the reader has chosen. A small script
//! (`report.js`) names what is under the pointer; without it nothing is lost.

use std::collections::BTreeMap;
use std::fmt::Write;

use trace::{IDLE, Lengths, Tid, Timeline};

use crate::markup::{COLORS, download, escape, figure, swatch, table};
use crate::moments::{self, Moment};
use crate::nodes;
use crate::plot::{Line, lines_named};
use crate::text::{digits, time};
use crate::view::View;

/// Names what runs under the pointer or a cursor. The pictures need it for nothing else.
const SCRIPT: &str = include_str!("report.js");
/// Rows of a picture: of a machine with more CPUs, only the first are shown.
const ROWS: usize = 64;
/// Width of the longest run and height of a row, in the picture's units.
const WIDTH: usize = 1200;
const ROW: usize = 20;
/// Height of the row of waiting tasks.
const WAITING: usize = 28;
/// Room for the CPUs' names.
const LEFT: usize = 60;
/// Parts of the time that are named below a picture.
const TICKS: usize = 4;

/// Timelines, then waits.
pub(crate) fn drawn(views: &[View]) -> String {
    if views.is_empty() {
        return String::new();
    }
    let mut html = String::from("<h2>What ran where</h2>\n");
    let shared = Shared::new(views);
    for (number, view) in views.iter().enumerate() {
        html += &timeline(number, view, &shared);
    }
    let homes =
        nodes::drawn(views.iter().map(|view| (view.policy.as_str(), &view.nodes, &view.names)));
    html + &homes + &waits(views) + &format!("<script>\n{SCRIPT}</script>\n")
}

/// Common to all policies' pictures: colours of programs, length of the time axis, and height of the axis of waiting
/// tasks.
struct Shared<'v> {
    first: &'v View,
    programs: Legend<&'v str>,
    longest_ns: f64,
    most_waiting: f64,
}

impl<'v> Shared<'v> {
    fn new(views: &'v [View]) -> Self {
        let ran = views.iter().flat_map(|view| {
            let shown = view.timeline.cpus.iter().take(ROWS).flatten();
            shown.filter(|tid| **tid != IDLE).map(|tid| view.program(*tid))
        });
        let waiting = |view: &View| {
            (0..view.columns()).map(|column| view.waited(column).0).fold(0.0, f64::max)
        };
        Shared {
            first: &views[0],
            most_waiting: views.iter().map(waiting).fold(0.0, f64::max),
            programs: Legend::new(ran, |program| match program {
                "" => "unnamed".into(),
                name => name.to_string(),
            }),
            longest_ns: views.iter().map(View::long_ns).fold(1.0, f64::max),
        }
    }

    /// CPUs that each program of a view had between two times, on average; the last entry is idle time.
    fn uses(&self, view: &View, from_ns: f64, to_ns: f64) -> Vec<f64> {
        let mut uses = vec![0.0; self.programs.names.len() + 1];
        let idle = self.programs.names.len();
        let column_ns = view.timeline.column_ns as f64;
        let (first, last) = ((from_ns / column_ns) as usize, (to_ns / column_ns).ceil() as usize);
        for cpu in &view.timeline.cpus {
            for column in first..last {
                let begin_ns = column as f64 * column_ns;
                let part = (to_ns.min(begin_ns + column_ns) - from_ns.max(begin_ns)).max(0.0);
                let what = match cpu.get(column) {
                    Some(tid) if *tid != IDLE => self.programs.rank(view.program(*tid)),
                    _ => idle,
                };
                uses[what] += part / (to_ns - from_ns);
            }
        }
        uses
    }

    /// When a policy uses its CPUs most differently from the first one.
    fn moments(&self, view: &View) -> Vec<Moment> {
        if view.policy == self.first.policy {
            return Vec::new();
        }
        let own = |from: f64, to: f64| self.uses(view, from, to);
        let first = |from: f64, to: f64| self.uses(self.first, from, to);
        let common_ns = view.long_ns().min(self.first.long_ns());
        moments::of(&self.programs.names, &own, (&self.first.policy, &first), common_ns)
    }
}

/// The meaning of the colours: the most frequent keys first, and the colour of every key.
struct Legend<K> {
    names: Vec<String>,
    of: BTreeMap<K, usize>,
}

impl<K: Ord + Copy> Legend<K> {
    fn new(seen: impl Iterator<Item = K>, name: impl Fn(K) -> String) -> Self {
        let mut often: BTreeMap<K, usize> = BTreeMap::new();
        seen.for_each(|key| *often.entry(key).or_default() += 1);
        let mut ranked: Vec<(K, usize)> = often.into_iter().collect();
        ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let shown = if ranked.len() > COLORS { COLORS - 1 } else { ranked.len() };
        let mut names: Vec<String> = ranked[..shown].iter().map(|(key, _)| name(*key)).collect();
        if ranked.len() > shown {
            names.push(format!("{} others", ranked.len() - shown));
        }
        let of = ranked.iter().enumerate().map(|(rank, (key, _))| (*key, rank.min(COLORS - 1)));
        Legend { names, of: of.collect() }
    }

    /// The colour of a key, whether or not a picture shows it.
    fn rank(&self, key: K) -> usize {
        self.of.get(&key).copied().unwrap_or(self.names.len().saturating_sub(1))
    }

    fn html(&self, by: &str, class: char) -> String {
        let mut html = format!("<ul class=\"legend by-{by}\">");
        for (rank, name) in self.names.iter().enumerate() {
            html += &swatch(&format!("{class}{rank}"), name);
        }
        html + "</ul>\n"
    }
}

fn timeline(number: usize, view: &View, shared: &Shared) -> String {
    let Timeline { column_ns, cpus, spaces, kinds, .. } = &view.timeline;
    let shown = &cpus[..cpus.len().min(ROWS)];
    let busy = || shown.iter().flatten().copied().filter(|tid| *tid != IDLE);
    let name = |tid: Tid| match view.names.get(&tid) {
        Some(name) => format!("{name} ({tid})"),
        None => tid.to_string(),
    };
    let space = |tid: Tid| spaces.get(&tid).copied().unwrap_or(0);
    let kind = |cpu: usize| kinds.get(cpu).copied().unwrap_or(0);
    let programs = &shared.programs;
    let of_space = |mm| {
        let mut own = busy().filter(|tid| space(*tid) == mm);
        own.next().map_or(String::new(), |tid| format!("that of {}", name(tid)))
    };
    let spaces_of = Legend::new(busy().map(space), of_space);
    let of_kinds = shown.iter().enumerate().flat_map(|(cpu, columns)| {
        columns.iter().filter(|tid| **tid != IDLE).map(move |_| kind(cpu))
    });
    let types = Legend::new(of_kinds, |kind| format!("type {kind}"));

    let lane = shown.len() * ROW;
    let (width, height) = (LEFT + WIDTH, lane + WAITING + 40);
    let run_s = shared.longest_ns / 1e9;
    let place =
        |column: usize| column as f64 * *column_ns as f64 / shared.longest_ns * WIDTH as f64;
    let title = format!("{}: what ran on each CPU, in its first run", view.policy);
    let mut svg = format!(
        "<svg class=\"timeline\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {width} {height}\" \
         data-left=\"{LEFT}\" data-row=\"{ROW}\" data-seconds=\"{run_s}\" data-cpus=\"{}\" \
         data-column=\"{}\" data-waiting=\"{}\">",
        escape(&title),
        shown.len(),
        *column_ns as f64 / 1e9,
        (0..view.columns())
            .map(|column| format!("{:.1}", view.waited(column).0))
            .collect::<Vec<_>>()
            .join(",")
    );
    for (cpu, columns) in shown.iter().enumerate() {
        let top = cpu * ROW;
        let _ = write!(svg, "<text x=\"0\" y=\"{}\">CPU {cpu}</text>", top + 14);
        let mut paths: BTreeMap<(usize, usize, usize), String> = BTreeMap::new();
        for (from, to, tid) in stretches(columns) {
            let key =
                (programs.of[view.program(tid)], spaces_of.of[&space(tid)], types.of[&kind(cpu)]);
            let (x, end) = (LEFT as f64 + place(from), LEFT as f64 + place(to));
            let path = paths.entry(key).or_default();
            let _ = write!(path, "M{x:.1} {}H{end:.1}v{}H{x:.1}z", top + 2, ROW - 4);
        }
        for ((task, space, kind), path) in paths {
            let _ = write!(svg, "<path class=\"t{task} s{space} k{kind}\" d=\"{path}\"/>");
        }
        let mut wasted = String::new();
        for (from, to) in idle_beside_waiting(view, columns) {
            let (x, end) = (LEFT as f64 + place(from), LEFT as f64 + place(to));
            let _ = write!(wasted, "M{x:.1} {}H{end:.1}v{}H{x:.1}z", top + 7, ROW - 14);
        }
        if !wasted.is_empty() {
            let _ = write!(svg, "<path class=\"wasted\" d=\"{wasted}\"/>");
        }
    }
    svg += &waiting_lane(view, shared, lane + 4, &place);
    let moments = shared.moments(view);
    for (number, moment) in moments.iter().enumerate() {
        let middle_ns = (moment.from_ns + moment.to_ns) / 2.0;
        let x = LEFT as f64 + middle_ns / shared.longest_ns * WIDTH as f64;
        let _ = write!(
            svg,
            "<text class=\"moment\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">▲{}</text>",
            lane + WAITING + 18,
            number + 1
        );
    }
    let bottom = height - 6;
    for tick in 0..=TICKS {
        let x = LEFT + (width - LEFT) * tick / TICKS;
        let at = time(run_s * tick as f64 / TICKS as f64);
        let (anchor, at) = match tick {
            0 => ("start", "0"),
            TICKS => ("end", &*at),
            _ => ("middle", &*at),
        };
        let _ = write!(
            svg,
            "<text x=\"{x}\" y=\"{bottom}\" text-anchor=\"{anchor}\">{}</text>",
            escape(at)
        );
    }
    svg += "</svg>";
    let mut html = String::from("<figure class=\"views\">\n<fieldset><legend>Colour by</legend>");
    for (by, label) in [("task", "program"), ("space", "address space"), ("type", "core type")] {
        let checked = if by == "task" { " checked" } else { "" };
        let _ = write!(
            html,
            "<label><input type=\"radio\" name=\"view{number}\" value=\"{by}\"{checked}> {label}</label>"
        );
    }
    html += "</fieldset>\n";
    html += &programs.html("task", 't');
    html += &spaces_of.html("space", 's');
    html += &types.html("type", 'k');
    let told: String =
        moments.iter().map(|moment| format!("<li>{}</li>", escape(&moment.told()))).collect();
    let told = match told.is_empty() {
        true => told,
        false => format!(
            "<p class=\"marks\">Most unlike {}, at the marks ▲:</p>\n<ol class=\"marks\">{told}</ol>\n",
            escape(&shared.first.policy)
        ),
    };
    let note = match cpus.len() > ROWS {
        true => format!("; the first {ROWS} of {} CPUs", cpus.len()),
        false => String::new(),
    };
    let _ = write!(
        html,
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{0}\">{svg}</div>\n<figcaption>{0}: \
         the task that had most of each {1}{note}. One time axis for all policies. A gap is an idle CPU; a thin line in it \
         says that a task waited that might have run there. The lowest row is how many tasks wait. {2}</figcaption>\n\
         {told}</figure>\n",
        escape(&title),
        escape(&time(*column_ns as f64 / 1e9)),
        download(&format!("timeline-{}.csv", view.policy), "text/csv", &csv(view))
    );
    html
}

/// From which column to which a CPU was idle while, for at least half of the time, a task waited that might have used
/// an idle CPU.
fn idle_beside_waiting(view: &View, columns: &[Tid]) -> Vec<(usize, usize)> {
    let is_wasted = |column: usize| {
        columns.get(column).is_none_or(|tid| *tid == IDLE) && view.waited(column).1 >= 0.5
    };
    let mut found: Vec<(usize, usize)> = Vec::new();
    for column in (0..view.columns()).filter(|column| is_wasted(*column)) {
        match found.last_mut() {
            Some((_, end)) if *end == column => *end += 1,
            _ => found.push((column, column + 1)),
        }
    }
    found
}

/// How many tasks waited, as an area on a scale that all policies share.
fn waiting_lane(view: &View, shared: &Shared, top: usize, place: &dyn Fn(usize) -> f64) -> String {
    let bottom = top + WAITING;
    let most = digits(shared.most_waiting);
    let mut svg = format!("<text x=\"0\" y=\"{}\">waiting</text>", top + 12);
    if shared.most_waiting == 0.0 {
        return svg;
    }
    let _ = write!(svg, "<text x=\"0\" y=\"{}\">up to {most}</text>", top + 26);
    let mut path = format!("M{LEFT} {bottom}");
    for column in 0..view.columns() {
        let high = view.waited(column).0 / shared.most_waiting * WAITING as f64;
        let (x, end) = (LEFT as f64 + place(column), LEFT as f64 + place(column + 1));
        let _ = write!(path, "L{x:.1} {0:.1}H{end:.1}", bottom as f64 - high);
    }
    let _ = write!(path, "V{bottom}z");
    let _ = write!(svg, "<path class=\"waiting\" d=\"{path}\"/>");
    svg
}

/// From which column to which one thread had a CPU, idle time left out.
fn stretches(columns: &[Tid]) -> impl Iterator<Item = (usize, usize, Tid)> {
    let mut at = 0;
    columns.chunk_by(|a, b| a == b).filter_map(move |same| {
        let from = at;
        at += same.len();
        (same[0] != IDLE).then_some((from, at, same[0]))
    })
}

fn csv(view: &View) -> String {
    let Timeline { column_ns, cpus, spaces, kinds, .. } = &view.timeline;
    let mut text = String::from("cpu,core_type,from_s,to_s,thread,name,address_space\n");
    for (cpu, columns) in cpus.iter().enumerate() {
        for (from, to, tid) in stretches(columns) {
            let seconds = |column: usize| column as f64 * *column_ns as f64 / 1e9;
            let _ = writeln!(
                text,
                "{cpu},{},{},{},{tid},\"{}\",{}",
                kinds.get(cpu).copied().unwrap_or(0),
                seconds(from),
                seconds(to),
                view.names.get(&tid).map_or("", String::as_str).replace('"', "\"\""),
                spaces.get(&tid).copied().unwrap_or(0)
            );
        }
    }
    text
}

/// Shares of all waits; the picture shows the longest wait of each share.
const SHARES: [f64; 15] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.9, 100.0];

fn waits(views: &[View]) -> String {
    let mut text = String::from("policy,percent,wait_s\n");
    let mut series = Vec::new();
    for view in views.iter().filter(|view| !view.waits.is_empty()) {
        let mut points = Vec::new();
        for share in SHARES {
            let Some(ns) = view.waits.quantile(share / 100.0) else { continue };
            let _ = writeln!(
                text,
                "\"{}\",{share},{}",
                view.policy.replace('"', "\"\""),
                ns as f64 / 1e9
            );
            points.push(((ns.max(1) as f64).log10(), share));
        }
        series.push(Line { name: view.policy.clone(), points });
    }
    if series.is_empty() {
        return String::new();
    }
    let title = "Waits of runnable tasks for a CPU";
    let svg = lines_named(title, "at most so long", "% of all waits", &series, |x| {
        time(10f64.powf(x) / 1e9)
    });
    let link = download("waits.csv", "text/csv", &text);
    format!(
        "<h2>Waits</h2>\n{}<p>{link}</p>\n{}",
        figure(&format!("{title}, in each policy's first run"), &svg),
        waits_by_program(views)
    )
}

/// Most programs in a table.
const PROGRAMS: usize = 12;

/// How long waits of each program are under each policy; empty if there is one program.
fn waits_by_program(views: &[View]) -> String {
    let first = &views[0].program_waits;
    let mut programs: Vec<(&String, u64)> = first
        .iter()
        .filter(|(name, waits)| !name.is_empty() && !waits.is_empty())
        .map(|(name, waits)| (name, waits.quantile(0.99).unwrap_or(0)))
        .collect();
    if programs.len() < 2 {
        return String::new();
    }
    programs.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let headings: Vec<&str> =
        ["program"].into_iter().chain(views.iter().map(|view| view.policy.as_str())).collect();
    let cell = |waits: Option<&Lengths>| {
        let quantile = |part| Some(time(waits?.quantile(part)? as f64 / 1e9));
        let both = quantile(0.5).zip(quantile(0.99));
        both.map_or("–".to_string(), |(middle, most)| format!("{middle} / {most}"))
    };
    let row = |(name, _): &(&String, u64)| {
        let cells = views.iter().map(|view| cell(view.program_waits.get(*name)));
        [(*name).clone()].into_iter().chain(cells).collect()
    };
    let rows: Vec<Vec<String>> = programs.iter().take(PROGRAMS).map(row).collect();
    table("Waits by program: half are at most / 99 % are at most so long", &headings, &rows)
}
