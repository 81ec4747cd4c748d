// SPDX-License-Identifier: GPL-2.0-only
//! The figures in words: for the screen and for the printed form.

use report::text::{Align, count, digits, known, percent, plural, table, time, visible};
use service::status::CLASS;
use terminal::output;

use crate::figures::{CpuFigures, Figures, Moment, Place, UseFigures};

/// Rows of a printed table.
const PRINTED: usize = 20;

/// Headings of the table of CPUs.
pub const CPU_HEADINGS: [&str; 7] =
    ["CPU", "kind", "node", "busy", "switches/s", "from elsewhere/s", "runs"];
/// Headings behind the first one of the tables of cgroups and programs.
pub const USE_HEADINGS: [&str; 4] = ["CPUs", "waits/s", "p50", "p99"];

/// A CPU's row.
pub fn cpu_row(of: &CpuFigures) -> [String; 7] {
    let runs = of.task.as_ref().map(|task| {
        let own = format!("{}[{}]", visible(&task.name), task.tid);
        match task.name == task.program {
            true => own,
            false => format!("{own} of {}", visible(&task.program)),
        }
    });
    [
        of.cpu.to_string(),
        of.kind.to_string(),
        of.node.to_string(),
        percent_of(of.busy),
        count(of.switches_per_s),
        count(of.migrations_per_s),
        known(runs, |runs| runs),
    ]
}

/// A cgroup's or a program's row.
pub fn use_row(of: &UseFigures) -> [String; 5] {
    [
        visible(&of.name),
        digits(of.cpus),
        count(of.waits_per_s),
        known(of.wait_p50_s, time),
        known(of.wait_p99_s, time),
    ]
}

/// Whole percent: a screen changes too often for more.
pub fn percent_of(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// What is in charge.
pub fn in_charge(figures: &Figures) -> String {
    let scheduler = visible(&figures.scheduler);
    let name = if figures.scheduler == CLASS { "Linux's own class".into() } else { scheduler };
    match &figures.service {
        Some(status) if status.stands_aside_for.is_none() => {
            let name = if status.in_charge == CLASS { name } else { visible(&status.in_charge) };
            let for_s = std::time::Duration::from_secs(status.for_s);
            let partial = if status.partial { ", of tasks that ask for it" } else { "" };
            format!("{name} is in charge for {}{partial}", humantime::format_duration(for_s))
        }
        _ => format!("{name} is in charge"),
    }
}

/// The machine in a line.
pub fn machine(figures: &Figures) -> String {
    let mut parts = vec![
        format!("{} busy", percent_of(figures.busy())),
        format!("{} switches/s", count(figures.sum(|cpu| cpu.switches_per_s))),
        format!("{} preemptions/s", count(figures.sum(|cpu| cpu.preemptions_per_s))),
        format!("{} migrations/s", count(figures.sum(|cpu| cpu.migrations_per_s))),
    ];
    let watts = figures.power_w.as_ref().and_then(live::of_processors);
    parts.extend(watts.map(|watts| format!("{} W", digits(watts))));
    parts.join(", ")
}

/// CPUs of one kind on one node.
pub fn place(of: &Place) -> String {
    let Place { kind, node, cpus, busy } = of;
    format!("kind {kind}, node {node}: {}, {} busy", plural(*cpus, "CPU"), percent_of(*busy))
}

/// What the policy says of its work: its sources, its control plane's line, and its counters.
pub fn policy(figures: &Figures) -> Vec<String> {
    let status = figures.service.as_ref();
    let lines = status.into_iter().flat_map(|status| status.sources.iter().chain(&status.says));
    let mut lines: Vec<String> = lines.map(|line| visible(line)).collect();
    if !figures.counts_per_s.is_empty() {
        let count = |(name, per_s): (&String, &f64)| match name.strip_suffix("_ns") {
            Some(name) => format!("{} {} of a second", visible(name), percent(per_s / 1e9)),
            None => format!("{} {}/s", visible(name), count(*per_s)),
        };
        let counts: Vec<String> = figures.counts_per_s.iter().map(count).collect();
        lines.push(format!("each second: {}", counts.join(", ")));
    }
    lines
}

/// What has happened to what is in charge between two moments, in a line each.
pub fn news(before: &Moment, now: &Moment) -> Vec<String> {
    let (was, is) = (visible(&before.scheduler), visible(&now.scheduler));
    let other = (was != is).then(|| format!("{is} is in charge, after {was}"));
    let (Some(before), Some(now)) = (&before.status, &now.status) else {
        let service = match (&before.status, &now.status) {
            (Some(_), None) => Some("the service has ended".to_string()),
            (None, Some(_)) => Some("the service has begun".to_string()),
            _ => None,
        };
        return service.into_iter().chain(other).collect();
    };
    let mut lines = Vec::new();
    for (name, fault) in &now.faults {
        if before.faults.get(name).is_none_or(|was| was.count < fault.count) {
            let why = visible(&fault.why);
            lines.push(format!("{} failed, for the {}. time: {why}", visible(name), fault.count));
        }
    }
    if now.in_charge != before.in_charge || now.loads != before.loads {
        let after = visible(&before.in_charge);
        let window = now.last_switch.as_ref().and_then(|last| last.window_s);
        let window = window.map_or(String::new(), |window_s| format!(" within {}", time(window_s)));
        lines.push(format!("{} is in charge, after {after}{window}", visible(&now.in_charge)));
    }
    lines
}

/// All of it as text, for a reader without a screen.
pub fn printed(figures: &Figures) -> String {
    let style = output::style();
    let mut text = format!("{}\n{}\n", in_charge(figures), machine(figures));
    if figures.places.len() > 1 {
        text.extend(figures.places.iter().map(|of| place(of) + "\n"));
    }
    text.extend(policy(figures).into_iter().map(|line| line + "\n"));
    let mut add = |headings: &[&str], rows: Vec<Vec<String>>| {
        let all = rows.len();
        let rows: Vec<Vec<String>> = rows.into_iter().take(PRINTED).collect();
        text += &format!("\n{}\n", table(headings, &rows, Align::Left, style).trim_end());
        if all > PRINTED {
            text += &format!("and {} more\n", all - PRINTED);
        }
    };
    add(&CPU_HEADINGS, figures.cpus.iter().map(|of| cpu_row(of).into()).collect());
    for (name, uses) in [("cgroup", &figures.cgroups), ("program", &figures.programs)] {
        let headings: Vec<&str> = [name].into_iter().chain(USE_HEADINGS).collect();
        add(&headings, uses.iter().map(|of| use_row(of).into()).collect());
    }
    text
}

#[cfg(test)]
mod tests {
    use service::ladder::Fault;
    use service::status::{Status, Switched};

    use super::*;
    use crate::figures::TaskFigures;

    #[test]
    fn news_are_what_changed() {
        let moment = |in_charge: &str, status: Option<Status>| Moment {
            scheduler: in_charge.into(),
            status: status.map(|status| Status { in_charge: in_charge.into(), ..status }),
            ..Moment::default()
        };
        let served =
            |in_charge, loads| moment(in_charge, Some(Status { loads, ..Status::default() }));
        let (cas, mut flsched) = (served("cas", 1), served("flsched", 2));
        let next = flsched.status.as_mut().unwrap();
        let fault = Fault { count: 1, not_before_s: 9, why: "stall\u{1b}".into() };
        next.faults.insert("cas".into(), fault);
        next.last_switch = Some(Switched { window_s: Some(0.02), ..Switched::default() });
        let said = news(&cas, &flsched);
        assert_eq!(
            said,
            [
                "cas failed, for the 1. time: stall\u{fffd}",
                "flsched is in charge, after cas within 20.0 ms"
            ]
        );
        assert!(news(&flsched, &flsched).is_empty());
        assert_eq!(news(&cas, &moment("cas", None)), ["the service has ended"]);
        let [none, lavd] = ["default", "lavd"].map(|other| moment(other, None));
        assert_eq!(news(&none, &lavd), ["lavd is in charge, after default"]);
    }

    #[test]
    fn hostile_names_control_no_terminal() {
        let task =
            TaskFigures { tid: 7, name: "\u{1b}[2J".into(), program: "a\nb".into(), for_s: 0.0 };
        let cpu = CpuFigures { task: Some(task), ..CpuFigures::default() };
        let of = UseFigures { name: "/\u{1b}]0;x".into(), ..UseFigures::default() };
        let figures = Figures { cpus: vec![cpu], cgroups: vec![of], ..Figures::default() };
        assert!(!printed(&figures).contains('\u{1b}'));
    }
}
