// SPDX-License-Identifier: GPL-2.0-only
//! The loop: it looks, and shows what it sees until the user ends it.

use std::io::{IsTerminal, stdout};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use live::{Energy, Meter};
use policy::Topology;
use ratatui::DefaultTerminal;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use service::request::{RUNTIME, look};
use service::status::CLASS;
use terminal::{Failure, failed, interrupt, output};

use crate::figures::{Figures, Moment};
use crate::screen::{Screen, View};
use crate::text::{news, printed};

/// How many cgroups, and how many programs, are told apart.
const NAMES: usize = 500;
/// Looks take time of all CPUs, ahead of other tasks.
const EVERY_MIN: Duration = Duration::from_millis(10);
const EVERY_MAX: Duration = Duration::from_secs(24 * 3600);
/// What happened lately: lines at most.
const LATELY: usize = 200;

/// How it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// On a screen.
    Screen,
    /// As text.
    Text,
    /// As a line of JSON.
    Json,
}

/// Looks at this machine at intervals, until the user ends it; once, if so told.
pub fn run(every: Duration, form: Form, once: bool) -> Result<(), Failure> {
    if !(EVERY_MIN..=EVERY_MAX).contains(&every) {
        return Err(Failure::input("--every: give it 10ms to 1day"));
    }
    if form == Form::Screen && !stdout().is_terminal() {
        return Err(Failure::input("top needs a terminal; without one, say --once or --json"));
    }
    let missing = live::missing_to_load();
    if !missing.is_empty() {
        return Err(Failure::input(format!(
            "top needs {} to see all tasks: run it with sudo",
            missing.join(" and ")
        )));
    }
    // A policy may leave all others waiting. Without the right it is shown late.
    let _ = live::outrank_policies();
    let mut looker = Looker::new()?;
    match form {
        Form::Screen => on_screen(&mut looker, every),
        Form::Text | Form::Json => loop {
            sleep(every);
            let figures = looker.look()?;
            output::print(&match form {
                Form::Json => serde_json::to_string(&figures).expect("it is plain data") + "\n",
                _ => printed(&figures),
            })?;
            if once {
                return Ok(());
            }
        },
    }
}

/// Looks at this machine.
struct Looker {
    meter: Meter,
    energy: Energy,
    topology: Topology,
    last: Moment,
    lately: Vec<String>,
}

impl Looker {
    fn new() -> Result<Self, Failure> {
        let topology = live::topology().map_err(failed)?;
        let meter = Meter::attach(topology.core_type.len(), NAMES).map_err(failed)?;
        let mut looker = Looker {
            meter,
            energy: Energy::here(),
            topology,
            last: Moment::default(),
            lately: Vec::new(),
        };
        looker.last = looker.moment()?;
        Ok(looker)
    }

    fn moment(&mut self) -> Result<Moment, Failure> {
        let status = look(Path::new(RUNTIME));
        let scheduler = live::state().ok().filter(|now| now.state != "disabled");
        let scheduler = scheduler.map(|now| now.ops.unwrap_or_else(|| "another scheduler".into()));
        Ok(Moment {
            reading: self.meter.read().map_err(failed)?,
            scheduler: scheduler.unwrap_or_else(|| CLASS.into()),
            status,
            energy: self.energy.read(),
        })
    }

    fn look(&mut self) -> Result<Figures, Failure> {
        let now = self.moment()?;
        let figures = Figures::between(&self.last, &now, &self.topology);
        let at = humantime::format_rfc3339_seconds(SystemTime::now());
        let news = news(&self.last, &now);
        self.lately.extend(news.into_iter().map(|line| format!("{at} {line}")));
        let old = self.lately.len().saturating_sub(LATELY);
        self.lately.drain(..old);
        self.last = now;
        Ok(figures)
    }
}

/// Puts the terminal back, whatever ends this process.
fn on_screen(looker: &mut Looker, every: Duration) -> Result<(), Failure> {
    interrupt::register_cleanup(put_back);
    interrupt::ends()?;
    let cannot = |error: std::io::Error| Failure::run(format!("the terminal: {error}"));
    let mut terminal = ratatui::try_init().map_err(cannot)?;
    let shown = until_quit(&mut terminal, looker, every, cannot);
    put_back();
    shown
}

fn put_back() {
    ratatui::restore();
    let _ = execute!(stdout(), Show);
}

fn until_quit(
    terminal: &mut DefaultTerminal,
    looker: &mut Looker,
    every: Duration,
    cannot: impl Fn(std::io::Error) -> Failure,
) -> Result<(), Failure> {
    let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let (mut view, mut figures, mut page) = (View::default(), None, 0);
    let mut due = Instant::now() + every;
    loop {
        let screen =
            Screen { figures: figures.as_ref(), lately: &looker.lately, view: &view, colours };
        terminal.draw(|frame| page = screen.draw(frame)).map_err(&cannot)?;
        if event::poll(due.saturating_duration_since(Instant::now())).map_err(&cannot)? {
            let event = event::read().map_err(&cannot)?;
            let rows = figures.as_ref().map_or(0, |figures| view.rows(figures, &looker.lately));
            if let Event::Key(key) = event
                && view.follow(key, rows, page)
            {
                return Ok(());
            }
        }
        if Instant::now() >= due {
            due = Instant::now() + every;
            let now = looker.look()?;
            if !view.paused || figures.is_none() {
                figures = Some(now);
            }
        }
    }
}
