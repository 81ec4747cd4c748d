// SPDX-License-Identifier: GPL-2.0-only
//! What the screen costs on a large machine, with figures that are made up: 512 CPUs, 10,000 tasks in 1,000 cgroups.
//!
//!     cargo run --release -p top --example feed
//!
//! It draws 100 frames, and prints the CPU time of one, figures included. The meter's own reading is not in it.

use std::time::Duration;

use live::{BUCKETS, Cpu, Reading, Table, Use};
use policy::Topology;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::{TerminalOptions, Viewport, layout::Rect};
use top::figures::{Figures, Moment};
use top::screen::{Screen, Tab, View};

const CPUS: usize = 512;
const GROUPS: usize = 1000;
const TASKS: u64 = 10_000;
const FRAMES: u64 = 100;

fn moment(frame: u64) -> Moment {
    let cpu = |cpu: usize| Cpu {
        busy_ns: frame * 100_000_000 * (1 + cpu as u64 % 7) / 7,
        switches: frame * (100 + cpu as u64),
        ..Cpu::default()
    };
    let used = |group: usize| {
        let mut of = Use { run_ns: frame * 1_000_000 * (group as u64 % 91), ..Use::default() };
        for task in 0..TASKS / GROUPS as u64 {
            of.buckets[(group + task as usize) % BUCKETS] += frame;
            of.waits += frame;
        }
        (format!("/system.slice/unit-{group}.service"), of)
    };
    let cgroups = Table { of: (0..GROUPS).map(used).collect(), ..Table::default() };
    let at_ns = frame * 100_000_000;
    let cpus = (0..CPUS).map(|number| (number, cpu(number))).collect();
    let reading = Reading { at_ns, cpus, programs: cgroups.clone(), cgroups };
    Moment { reading, scheduler: "paceline".into(), ..Moment::default() }
}

fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux has it");
    let ns = text.split(' ').next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.expect("it begins with a number"))
}

fn main() {
    let moments: Vec<Moment> = (0..=FRAMES).map(moment).collect();
    let topology = Topology {
        core_type: vec![0; CPUS],
        node: (0..CPUS).map(|cpu| cpu as u16 / 64).collect(),
        ..Topology::default()
    };
    for tab in [Tab::Cpus, Tab::Cgroups] {
        let viewport = Viewport::Fixed(Rect::new(0, 0, 200, 60));
        let backend = CrosstermBackend::new(std::io::sink());
        let mut terminal = Terminal::with_options(backend, TerminalOptions { viewport })
            .expect("nothing is written");
        let view = View { tab, ..View::default() };
        let began = cpu_time();
        for pair in moments.windows(2) {
            let figures = Figures::between(&pair[0], &pair[1], &topology);
            let screen =
                Screen { figures: Some(&figures), lately: &[], view: &view, colours: true };
            terminal
                .draw(|frame| {
                    screen.draw(frame);
                })
                .expect("nothing is written");
        }
        let each = (cpu_time() - began) / FRAMES as u32;
        println!("{}: {each:?} for a frame", tab.name());
    }
}
