// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the command: its output, files and refusals, its pages in a browser, and in `guest` the tests that need a
//! kernel.

mod browser;
mod circles;
mod cli;
mod coarse;
mod compare;
mod docs;
mod files;
mod guest;
mod import;
mod measure;
mod page;
mod recording;
mod reference;
mod sweep;
mod tidy;
