// SPDX-License-Identifier: GPL-2.0-only
//! What a run prints while its policy is in charge.

use std::time::Duration;

use live::{Behind, CONTROL_SHARE, Knows, Load};
use policy::Sources;
use policy::table::SLOTS;
use report::text::plural;
use serde_json::{Value, json};
use terminal::{Failure, output};

use crate::placed::{self, Moves};

/// A step of a control plane that takes longer is stuck, most likely in the kernel.
const STANDS_STILL: Duration = Duration::from_secs(5);

/// Prints statistics of the machine, and the state of the control plane.
pub fn tell(
    json: bool,
    label: &str,
    passed: Duration,
    load: &Load,
    knows: Option<Knows>,
    moves: &mut Moves,
) -> Result<(), Failure> {
    let sources = knows.as_ref().map(|knows| knows.sources);
    let moved = knows.as_ref().map_or(Vec::new(), |knows| moves.since(&knows.placed));
    let troubles = knows.as_ref().map_or(Vec::new(), troubles);
    let says = knows.and_then(|knows| knows.says);
    if json {
        let mut all = statistics(label, passed, load, sources);
        if let Some(says) = says {
            all["control"] = json!(says);
        }
        if !moved.is_empty() {
            all["placed"] = placed::json(&moved);
        }
        troubles.into_iter().for_each(|trouble| all[trouble.key] = trouble.value);
        return output::print(&format!("{all}\n"));
    }
    let control = says.map_or_else(|| speeds_from(sources), |says| format!("; {says}"));
    let troubles: String =
        troubles.iter().map(|trouble| format!("; its control plane {}", trouble.said)).collect();
    output::say(&(line(label, passed, load) + &control + &troubles));
    if let Some(moved) = placed::line(&moved) {
        output::say(&format!("{label}: {moved}"));
    }
    Ok(())
}

/// A problem of a control plane.
struct Trouble {
    /// Key of its number in JSON.
    key: &'static str,
    value: Value,
    said: String,
}

fn troubles(knows: &Knows) -> Vec<Trouble> {
    let held_up = knows.held_up.map(|pause| Trouble {
        key: "control_held_up_s",
        value: json!(pause.as_secs_f64()),
        said: format!(
            "pauses for {:.2} s at a time, or it would take more than a {CONTROL_SHARE}th of a CPU",
            pause.as_secs_f64()
        ),
    });
    let stands = knows.stepping.filter(|took| *took > STANDS_STILL).map(|took| Trouble {
        key: "control_stands_still_s",
        value: json!(took.as_secs_f64()),
        said: format!("has stood still for {:.0} s", took.as_secs_f64()),
    });
    let refused = Some(knows.refused).filter(|count| *count > 0).map(|count| Trouble {
        key: "control_refused_tasks",
        value: json!(count),
        said: format!(
            "plans for {SLOTS} tasks at a time, and not for {} that came beyond those",
            plural(count as usize, "task")
        ),
    });
    [held_up, stands, refused].into_iter().flatten().collect()
}

fn line(label: &str, passed: Duration, load: &Load) -> String {
    let events = load.events.iter().map(|(name, count)| format!("; {name} {count} times"));
    format!(
        "{label}: {:.0} s, {:.1} % busy, {:.0} switches/s, {} runnable{}",
        passed.as_secs_f64(),
        load.busy * 100.0,
        load.switches_per_s,
        load.runnable,
        events.collect::<String>()
    )
}

/// The control plane's sources of the running tasks' speeds.
fn speeds_from(sources: Option<Sources>) -> String {
    let Some(of) = sources else { return String::new() };
    let all = [
        (of.counters, "measured"),
        (of.profile, "told"),
        (of.memory, "remembered"),
        (of.unknown, "unknown"),
    ];
    let some = all.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = some.map(|(count, how)| format!("{count} {how}")).collect();
    if parts.is_empty() { String::new() } else { format!("; speeds: {}", parts.join(", ")) }
}

/// A line about tasks that wait behind a real-time task.
pub fn warning(label: &str, passed: Duration, behind: &Behind) -> String {
    let Behind { task, cpus, real_time, ran, passed: of } = behind;
    format!(
        "{label}: {:.0} s, {}[{}] waits for CPU {}, which real-time {}[{}] keeps: it ran {:.2} of the last {:.1} s",
        passed.as_secs_f64(),
        task.name,
        task.tid,
        listed(cpus),
        real_time.name,
        real_time.tid,
        ran.as_secs_f64(),
        of.as_secs_f64(),
    )
}

/// The same as JSON.
pub fn warning_json(label: &str, passed: Duration, behind: &Behind) -> Value {
    let Behind { task, cpus, real_time, ran, passed: of } = behind;
    json!({
        "t_s": passed.as_secs_f64(), "policy": label,
        "behind_real_time": {
            "task": task.name, "tid": task.tid, "cpus": cpus,
            "real_time": real_time.name, "real_time_tid": real_time.tid,
            "ran_s": ran.as_secs_f64(), "of_s": of.as_secs_f64(),
        },
    })
}

fn listed(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn statistics(label: &str, passed: Duration, load: &Load, sources: Option<Sources>) -> Value {
    let mut all = json!({
        "t_s": passed.as_secs_f64(), "policy": label, "busy": load.busy,
        "switches_per_s": load.switches_per_s, "runnable": load.runnable, "events": load.events,
    });
    if let Some(of) = sources {
        all["speeds_from"] = json!({
            "counters": of.counters, "profile": of.profile, "memory": of.memory,
            "unknown": of.unknown,
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_control_plane_from_its_work_is_said() {
        let said = |knows: &Knows| -> Vec<(&str, String)> {
            troubles(knows).into_iter().map(|trouble| (trouble.key, trouble.said)).collect()
        };
        let stepping = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(said(&Knows { stepping: stepping(5), ..Knows::default() }), []);
        let still = ("control_stands_still_s", "has stood still for 7 s".to_string());
        assert_eq!(said(&Knows { stepping: stepping(7), ..Knows::default() }), [still]);
        let full = "plans for 16383 tasks at a time, and not for 1 task that came beyond those";
        let full = ("control_refused_tasks", full.to_string());
        assert_eq!(said(&Knows { refused: 1, ..Knows::default() }), [full]);
        let held_up = Some(Duration::from_millis(300));
        let [(key, said)] = &said(&Knows { held_up, ..Knows::default() })[..] else {
            panic!("it is one trouble")
        };
        assert_eq!(*key, "control_held_up_s");
        assert!(said.starts_with("pauses for 0.30 s at a time"), "{said}");
    }
}
