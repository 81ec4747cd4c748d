// SPDX-License-Identifier: GPL-2.0-only
//! What a user looks at, and the keys that change it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::figures::{Figures, UseFigures};

/// The table that is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tab {
    /// CPUs.
    #[default]
    Cpus,
    /// Cgroups.
    Cgroups,
    /// Programs.
    Programs,
    /// What was decided lately.
    Lately,
}

impl Tab {
    /// In the order of the Tab key.
    pub const ALL: [Tab; 4] = [Tab::Cpus, Tab::Cgroups, Tab::Programs, Tab::Lately];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Tab::Cpus => "CPUs",
            Tab::Cgroups => "cgroups",
            Tab::Programs => "programs",
            Tab::Lately => "lately",
        }
    }
}

/// What cgroups and programs are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// CPU time.
    #[default]
    Cpu,
    /// The 99th percentile of waits.
    Wait,
    /// The name.
    Name,
}

/// What a user looks at.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The table.
    pub tab: Tab,
    /// Its order.
    pub sort: Sort,
    /// The first row that is shown.
    pub from: usize,
    /// The figures stay as they are.
    pub paused: bool,
}

impl View {
    /// Follows a key. `rows`: those of the table; `page`: those that fit. Returns whether the user ends it.
    pub fn follow(&mut self, key: KeyEvent, rows: usize, page: usize) -> bool {
        if key.kind == KeyEventKind::Release {
            return false;
        }
        let most = rows.saturating_sub(page);
        let at = Tab::ALL.iter().position(|tab| *tab == self.tab).unwrap_or(0);
        let all = Tab::ALL.len();
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Tab | KeyCode::Right => self.turn_to(Tab::ALL[(at + 1) % all]),
            KeyCode::BackTab | KeyCode::Left => self.turn_to(Tab::ALL[(at + all - 1) % all]),
            KeyCode::Char('s') => {
                self.sort = match self.sort {
                    Sort::Cpu => Sort::Wait,
                    Sort::Wait => Sort::Name,
                    Sort::Name => Sort::Cpu,
                };
                self.from = 0;
            }
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Down => self.from += 1,
            KeyCode::Up => self.from = self.from.saturating_sub(1),
            KeyCode::PageDown => self.from += page,
            KeyCode::PageUp => self.from = self.from.saturating_sub(page),
            KeyCode::Home => self.from = 0,
            KeyCode::End => self.from = most,
            _ => {}
        }
        self.from = self.from.min(most);
        false
    }

    fn turn_to(&mut self, tab: Tab) {
        (self.tab, self.from) = (tab, 0);
    }

    /// Uses in the order that the user wants.
    pub fn sorted<'f>(&self, uses: &'f [UseFigures]) -> Vec<&'f UseFigures> {
        let mut sorted: Vec<&UseFigures> = uses.iter().collect();
        match self.sort {
            Sort::Cpu => {}
            Sort::Wait => {
                let wait = |of: &UseFigures| of.wait_p99_s.unwrap_or(0.0);
                sorted.sort_by(|a, b| wait(b).total_cmp(&wait(a)));
            }
            Sort::Name => sorted.sort_by(|a, b| a.name.cmp(&b.name)),
        }
        sorted
    }

    /// How many rows its table has.
    pub fn rows(&self, figures: &Figures, lately: &[String]) -> usize {
        match self.tab {
            Tab::Cpus => figures.cpus.len(),
            Tab::Cgroups => figures.cgroups.len(),
            Tab::Programs => figures.programs.len(),
            Tab::Lately => lately.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(view: &mut View, code: KeyCode) -> bool {
        view.follow(KeyEvent::new(code, KeyModifiers::NONE), 100, 30)
    }

    #[test]
    fn scrolling_ends_with_the_table() {
        let mut view = View::default();
        press(&mut view, KeyCode::Up);
        assert_eq!(view.from, 0);
        (0..5).for_each(|_| assert!(!press(&mut view, KeyCode::PageDown)));
        assert_eq!(view.from, 70);
        press(&mut view, KeyCode::Home);
        press(&mut view, KeyCode::End);
        assert_eq!(view.from, 70);
        press(&mut view, KeyCode::Tab);
        assert_eq!((view.tab, view.from), (Tab::Cgroups, 0));
    }

    #[test]
    fn q_esc_and_ctrl_c_end_it_and_a_plain_c_does_not() {
        let mut view = View::default();
        assert!(press(&mut view, KeyCode::Char('q')) && press(&mut view, KeyCode::Esc));
        assert!(!press(&mut view, KeyCode::Char('c')));
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(view.follow(ctrl_c, 1, 1));
    }

    #[test]
    fn tables_turn_in_both_directions_and_have_three_orders() {
        let mut view = View::default();
        press(&mut view, KeyCode::BackTab);
        assert_eq!(view.tab, Tab::Lately);
        press(&mut view, KeyCode::Right);
        assert_eq!(view.tab, Tab::Cpus);
        let of = |name: &str, wait_p99_s| UseFigures {
            name: name.into(),
            wait_p99_s,
            ..UseFigures::default()
        };
        let uses = [of("b", None), of("a", Some(1.0)), of("c", Some(2.0))];
        let names =
            |view: &View| view.sorted(&uses).iter().map(|of| of.name.clone()).collect::<String>();
        assert_eq!(names(&view), "bac");
        press(&mut view, KeyCode::Char('s'));
        assert_eq!(names(&view), "cab");
        press(&mut view, KeyCode::Char('s'));
        assert_eq!(names(&view), "abc");
    }
}
