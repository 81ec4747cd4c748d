// SPDX-License-Identifier: GPL-2.0-only
//! Results: the JSON object, text tables, plots and the HTML report.
//!
//! [`Results`] is made from what a ground measured and does not depend on the ground. All output is taken from it: a
//! table, a plot and the JSON of one comparison cannot disagree.

mod answer;
pub mod csv;
pub mod differences;
mod fairness;
pub mod figure;
mod file;
pub mod heat;
pub mod html;
mod markup;
mod moments;
mod nodes;
pub mod plot;
mod results;
pub mod scatter;
pub mod stats;
mod table;
pub mod text;
mod timeline;
mod view;
mod work;

pub use answer::{Answer, Beside, Costs, Slowed, Verdict};
pub use file::{Draft, FileError, probe, remove_unfinished, write_whole, write_with};
pub use html::{About, Origin};
pub use results::{Clock, Function, Recording, Results, Run, Setting, Summary, TaskRun};
pub use stats::Spread;
pub use table::comparison;
pub use text::Style;
pub use view::View;
pub use work::told as progress;

#[cfg(test)]
mod tests;
