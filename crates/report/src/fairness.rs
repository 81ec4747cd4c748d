// SPDX-License-Identifier: GPL-2.0-only
//! How evenly tasks are served. A task's service is its time on a CPU as a part of the time in which it was runnable.

use crate::markup::figure;
use crate::plot::strips;
use crate::text::percent;
use crate::{Results, Run, TaskRun};

/// Most tasks in a row. Of more tasks, a sample at even distances is shown.
const DOTS: usize = 150;
/// A task that was runnable for a smaller part of the run does not count.
const WORTH: f64 = 0.01;

const TITLE: &str = "How evenly tasks are served, in each policy's first run";

/// The picture, if at least two tasks were runnable long enough to count.
pub fn drawn(results: &Results) -> String {
    let first = |policy: &str| results.runs.iter().find(|run| run.policy == policy);
    let of = |policy: &str| first(policy).map(served).unwrap_or_default();
    let rows: Vec<(String, Vec<(f64, &str)>)> =
        results.summary.iter().map(|one| (one.policy.clone(), of(&one.policy))).collect();
    if rows.iter().all(|(_, tasks)| tasks.len() < 2) {
        return String::new();
    }
    let dots = |tasks: &[(f64, &str)]| -> Vec<f64> {
        let step = tasks.len().div_ceil(DOTS).max(1);
        let last = tasks.last().map(|(part, _)| part * 100.0);
        tasks.iter().step_by(step).map(|(part, _)| part * 100.0).chain(last).collect()
    };
    let strip: Vec<(String, Vec<f64>)> =
        rows.iter().map(|(policy, tasks)| (policy.clone(), dots(tasks))).collect();
    let axis = "% of the time in which a task could run";
    let least: Vec<String> =
        rows.iter().filter_map(|(policy, tasks)| told(policy, tasks)).collect();
    let caption = format!(
        "{TITLE}: a dot for each task, a bar to their median. Dots far apart are tasks served unevenly. Least served: {}",
        least.join("; ")
    );
    format!("<h2>Fairness</h2>\n{}", figure(&caption, &strips(TITLE, axis, &strip)))
}

/// Each task's service and name, the least first.
fn served(run: &Run) -> Vec<(f64, &str)> {
    let could = |task: &TaskRun| task.cpu_s + task.wait_s.max(task.wait_max_s);
    let tasks = run.tasks.iter().filter(|task| could(task) >= WORTH * run.elapsed_s);
    let mut served: Vec<(f64, &str)> =
        tasks.map(|task| (task.cpu_s / could(task), task.name.as_str())).collect();
    served.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(b.1)));
    served
}

fn told(policy: &str, tasks: &[(f64, &str)]) -> Option<String> {
    let (part, name) = tasks.first()?;
    let name = if name.is_empty() { "a task" } else { name };
    Some(format!("{name} with {} under {policy}", percent(*part)))
}
