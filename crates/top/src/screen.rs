// SPDX-License-Identifier: GPL-2.0-only
//! The screen: what is in charge, the machine, and one table.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use crate::figures::{Figures, Place};
pub use crate::keys::{Sort, Tab, View};
use crate::text::{
    CPU_HEADINGS, USE_HEADINGS, cpu_row, in_charge, machine, place, policy, use_row,
};

/// Lines of kinds and nodes at most; a machine with more shows the first ones.
const PLACES: usize = 4;
/// Lines that the policy says of itself at most.
const SAYS: usize = 2;
/// Width of a bar.
const BAR: usize = 20;

/// What is drawn.
pub struct Screen<'f> {
    /// The figures; None: the first ones are being measured.
    pub figures: Option<&'f Figures>,
    /// What happened since it began, the newest last.
    pub lately: &'f [String],
    /// What the user looks at.
    pub view: &'f View,
    /// Whether colours are wanted.
    pub colours: bool,
}

impl Screen<'_> {
    /// Draws it. Returns how many rows of the table fit.
    pub fn draw(&self, frame: &mut Frame<'_>) -> usize {
        let Some(figures) = self.figures else {
            frame.render_widget(Paragraph::new("measuring …"), frame.area());
            return 0;
        };
        let head = self.head(figures);
        let [top, tabs, rows, keys] = Layout::vertical([
            Constraint::Length(head.len() as u16),
            Constraint::Length(1),
            Constraint::Min(2),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(head), top);
        frame.render_widget(Paragraph::new(self.tabs()), tabs);
        self.rows(frame, rows, figures);
        frame.render_widget(Paragraph::new(self.keys()).style(self.faint()), keys);
        rows.height.saturating_sub(1).into()
    }

    fn head(&self, figures: &Figures) -> Vec<Line<'static>> {
        let mut lines =
            vec![Line::styled(in_charge(figures), self.strong()), machine(figures).into()];
        if figures.places.len() > 1 {
            lines.extend(figures.places.iter().take(PLACES).map(|of| self.place(of)));
        }
        lines.extend(policy(figures).into_iter().take(SAYS).map(Line::from));
        lines
    }

    /// A kind of core on a node, with a bar.
    fn place(&self, of: &Place) -> Line<'static> {
        let full = (of.busy * BAR as f64).round() as usize;
        let bar = Span::styled("█".repeat(full), self.coloured(Color::Cyan));
        let rest = Span::styled("░".repeat(BAR.saturating_sub(full)), self.faint());
        Line::from(vec![bar, rest, format!(" {}", place(of)).into()])
    }

    fn tabs(&self) -> Line<'static> {
        let name = |tab: &Tab| {
            let style = match *tab == self.view.tab {
                true => Style::new().add_modifier(Modifier::REVERSED),
                false => self.faint(),
            };
            [Span::styled(format!(" {} ", tab.name()), style), " ".into()]
        };
        let paused = self.view.paused.then(|| Span::styled("paused", self.coloured(Color::Yellow)));
        Line::from_iter(Tab::ALL.iter().flat_map(name).chain(paused))
    }

    fn rows(&self, frame: &mut Frame<'_>, area: Rect, figures: &Figures) {
        let fit = usize::from(area.height);
        let from = self.view.from;
        let uses = match self.view.tab {
            Tab::Cpus => {
                let shown = figures.cpus.iter().skip(from).take(fit).map(|of| {
                    let [cpu, kind, node, busy, switches, moves, runs] = cpu_row(of);
                    let busy = Cell::from(busy).style(self.coloured(load(of.busy)));
                    Row::new([
                        cpu.into(),
                        kind.into(),
                        node.into(),
                        busy,
                        switches.into(),
                        moves.into(),
                        Cell::from(runs),
                    ])
                });
                let widths = [4, 4, 4, 6, 10, 16].map(Constraint::Length);
                let widths = widths.into_iter().chain([Constraint::Min(10)]);
                let head = Row::new(CPU_HEADINGS).style(self.strong());
                frame.render_widget(Table::new(shown, widths).header(head), area);
                return;
            }
            Tab::Lately => {
                let lines = self.lately.iter().rev().skip(from).take(fit).cloned().map(Line::from);
                let lines: Vec<Line<'_>> = lines.collect();
                let none =
                    lines.is_empty().then(|| Line::from("nothing happened since this began"));
                frame.render_widget(
                    Paragraph::new(lines.into_iter().chain(none).collect::<Vec<_>>()),
                    area,
                );
                return;
            }
            Tab::Cgroups => &figures.cgroups,
            Tab::Programs => &figures.programs,
        };
        let shown = self.view.sorted(uses);
        let shown = shown.into_iter().skip(from).take(fit).map(|of| Row::new(use_row(of)));
        let widths = [Constraint::Min(20)].into_iter().chain([8, 10, 9, 9].map(Constraint::Length));
        let first = self.view.tab.name().trim_end_matches('s');
        let head = Row::new([first].into_iter().chain(USE_HEADINGS)).style(self.strong());
        frame.render_widget(Table::new(shown, widths).header(head), area);
    }

    fn keys(&self) -> &'static str {
        match self.view.sort {
            _ if matches!(self.view.tab, Tab::Cpus | Tab::Lately) => {
                "Tab: next table   ↑ ↓: scroll   p: pause   q: quit"
            }
            Sort::Cpu => "Tab: next table   s: sort by waits   ↑ ↓: scroll   p: pause   q: quit",
            Sort::Wait => "Tab: next table   s: sort by name   ↑ ↓: scroll   p: pause   q: quit",
            Sort::Name => {
                "Tab: next table   s: sort by CPU time   ↑ ↓: scroll   p: pause   q: quit"
            }
        }
    }

    fn strong(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    fn faint(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn coloured(&self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }
}

/// The colour of a load.
fn load(busy: f64) -> Color {
    match busy {
        busy if busy > 0.9 => Color::Red,
        busy if busy > 0.5 => Color::Yellow,
        _ => Color::Green,
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::figures::{CpuFigures, TaskFigures, UseFigures};

    fn drawn(width: u16, height: u16, screen: &Screen<'_>) -> (Vec<String>, usize) {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let mut rows = 0;
        terminal.draw(|frame| rows = screen.draw(frame)).unwrap();
        let cells = terminal.backend().buffer().content();
        let line = |cells: &[ratatui::buffer::Cell]| {
            let text: String = cells.iter().map(|cell| cell.symbol()).collect();
            text.trim_end().to_string()
        };
        (cells.chunks(width.into()).map(line).collect(), rows)
    }

    fn figures() -> Figures {
        let task =
            TaskFigures { tid: 4711, name: "worker".into(), program: "web".into(), for_s: 0.1 };
        let cpu = |cpu: usize| CpuFigures {
            cpu,
            kind: (cpu / 4) as u16,
            busy: 0.625,
            switches_per_s: 1234.0,
            task: (cpu == 0).then(|| task.clone()),
            ..CpuFigures::default()
        };
        let of = |name: &str, cpus, wait_s| UseFigures {
            name: name.into(),
            cpus,
            waits_per_s: 100.0,
            wait_p50_s: Some(wait_s / 4.0),
            wait_p99_s: Some(wait_s),
        };
        let place = |kind| Place { kind, node: 0, cpus: 4, busy: 0.625 };
        Figures {
            span_s: 1.0,
            scheduler: "cas".into(),
            cpus: (0..8).map(cpu).collect(),
            places: [0, 1].map(place).into(),
            cgroups: vec![of("/system.slice/web.service", 3.5, 0.002), of("/batch", 1.5, 0.4)],
            ..Figures::default()
        }
    }

    #[test]
    fn a_screen_of_80_by_24_has_what_matters() {
        let (figures, mut view) = (figures(), View::default());
        let mut draw = |tab, sort| {
            (view.tab, view.sort) = (tab, sort);
            drawn(
                80,
                24,
                &Screen { figures: Some(&figures), lately: &[], view: &view, colours: true },
            )
        };
        let (lines, rows) = draw(Tab::Cpus, Sort::Cpu);
        let whole = lines.join("\n");
        assert_eq!(lines[0], "cas is in charge");
        assert_eq!(lines[1], "62 % busy, 9,872 switches/s, 0 preemptions/s, 0 migrations/s");
        assert_eq!(lines[2], "█████████████░░░░░░░ kind 0, node 0: 4 CPUs, 62 % busy");
        assert_eq!(
            lines[6],
            "0    0    0    62 %   1,234      0                worker[4711] of web"
        );
        assert_eq!(lines[7], "1    0    0    62 %   1,234      0                –");
        assert!(
            lines[23].starts_with("Tab: next table") && lines[23].ends_with("q: quit"),
            "{whole}"
        );
        assert_eq!(rows, 24 - 7, "all but head, tabs, headings and keys");
        let (lines, _) = draw(Tab::Cgroups, Sort::Cpu);
        assert!(lines[6].starts_with("/system.slice/web.service"), "{}", lines.join("\n"));
        assert!(lines[6].ends_with("3.50     100        500 µs    2.00 ms"), "{}", lines[6]);
        let (lines, _) = draw(Tab::Cgroups, Sort::Wait);
        assert!(lines[6].starts_with("/batch"), "{}", lines.join("\n"));
        let (lines, _) = draw(Tab::Lately, Sort::Cpu);
        assert_eq!(lines[5], "nothing happened since this began");
    }

    #[test]
    fn no_terminal_is_too_small_and_no_table_too_long() {
        let (figures, view) = (figures(), View { from: 7, ..View::default() });
        for (width, height) in [(1, 1), (10, 3), (20, 8), (300, 100)] {
            for figures in [None, Some(&figures)] {
                drawn(width, height, &Screen { figures, lately: &[], view: &view, colours: false });
            }
        }
    }
}
