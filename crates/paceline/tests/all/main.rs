// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the command: what it prints, writes and refuses, its pages in a browser, and in `guest` what takes a kernel.

mod browser;
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
mod tidy;
