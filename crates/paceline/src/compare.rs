// SPDX-License-Identifier: GPL-2.0-only
//! `paceline compare`: one workload under several policies, side by side.

use std::path::PathBuf;

use report::Results;
use terminal::files::check_writable;
use terminal::{Failure, Progress, interrupt, output};

use crate::cli::Compare;
use crate::export::Named;
use crate::present::hand_over;
use crate::{doubt, export, nearness, request, verdict};

/// Runs the comparison and shows it.
pub fn run(arguments: &Compare) -> Result<(), Failure> {
    // Checked before this machine is measured.
    if let Some(report) = &arguments.report {
        check_writable(report, "--report")?;
    }
    let plan = request::plan(arguments)?;
    let report: Vec<_> = arguments.report.iter().map(|path| ("--report", path.clone())).collect();
    export::check(&arguments.exports, &plan.contenders, &report, &read(arguments))?;
    let _scratch = match plan.ground.handles_signals() {
        true => None,
        false => Some(interrupt::guard()?),
    };
    let progress = Progress::new(plan.steps());
    progress.phase(&format!("{} under {}", plan.job.name(), plan.labels()));
    let measured = plan.run(&progress)?;
    drop(progress);
    let mut setting = plan.setting();
    setting.kernel.clone_from(&measured.kernel);
    let mut results = Results::new(setting, &measured.outcomes, plan.locks);
    results.notes.clone_from(&measured.notes);
    nearness::add(&mut results, &plan);
    doubt::tell(&mut results, &measured.outcomes, &*plan.ground);
    verdict::add(&mut results, &plan);
    let report = arguments.report.as_deref();
    let shown = hand_over(&results, &measured, &arguments.exports, report, &arguments.form);
    output::end(shown, measured.cut.map_or(Ok(()), Err))
}

/// Files that the comparison reads.
fn read(arguments: &Compare) -> Vec<Named> {
    let machine = arguments.machine.machine.iter().chain(&arguments.clocks).map(PathBuf::from);
    let machine = machine.map(|path| ("the machine's file", path));
    let workload = arguments.workload.iter().map(|path| ("the workload", path.clone()));
    let profile = arguments.profile.iter().map(|path| ("the profile", path.clone()));
    let kernel = arguments.kernel.iter().map(|path| ("the kernel", path.clone()));
    machine.chain(workload).chain(profile).chain(kernel).collect()
}
