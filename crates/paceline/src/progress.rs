// SPDX-License-Identifier: GPL-2.0-only
//! What a person sees while they wait: on standard error, where nothing else goes but errors.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use report::text::visible;

use crate::output;

/// Bars on a terminal; elsewhere a line for each phase. Nothing of it commands the terminal.
pub struct Progress {
    bars: MultiProgress,
    own: Option<ProgressBar>,
}

impl Progress {
    /// For as many steps.
    pub fn new(steps: u64) -> Self {
        let bars = MultiProgress::new();
        let own = stderr().is_terminal().then(|| bars.add(bar(steps)));
        Progress { bars, own }
    }

    /// What happens from now on.
    pub fn phase(&self, text: &str) {
        match &self.own {
            Some(bar) => bar.set_message(visible(text)),
            None => output::say(text),
        }
    }

    /// What is known already, and would be lost if the rest were cut short.
    pub fn known(&self, text: &str) {
        match &self.own {
            Some(bar) => bar.println(visible(text)),
            None => output::say(text),
        }
    }

    /// Who writes how far a ground is where its bars are not seen.
    pub fn log(&self) -> Option<fn(&str)> {
        self.own.is_none().then_some(output::say)
    }

    /// How far the present phase is; too often for a log.
    pub fn detail(&self, text: &str) {
        if let Some(bar) = &self.own {
            bar.set_message(visible(text));
        }
    }

    /// A step is done.
    pub fn step(&self) {
        if let Some(bar) = &self.own {
            bar.inc(1);
        }
    }

    /// Where a ground puts bars of its own.
    pub fn bars(&self) -> &MultiProgress {
        &self.bars
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.own {
            bar.finish_and_clear();
        }
    }
}

fn bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let style = ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos}/{len} {wide_msg}");
    bar.set_style(style.expect("the template is sound"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
