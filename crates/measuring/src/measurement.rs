// SPDX-License-Identifier: GPL-2.0-only
//! This machine, measured, and kept for a day.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use live::measure::Place;
use machine::Machine;
use report::write_whole;
use terminal::{Failure, Progress, output};

use crate::check;
use crate::describe::{DISTURBED, Described, busy, describe, holds_for};
use crate::raw::Raw;

/// The name of this machine for `--machine`.
pub const THIS: &str = "this";

/// Steps of progress: four of readings, one of the fit.
const STEPS: u64 = 5;

/// This machine, measured.
pub struct Measurement {
    raw: Raw,
    described: Described,
}

impl Measurement {
    /// Measures; that takes less than a minute.
    pub fn take() -> Result<Self, Failure> {
        Measurement::take_with(&Progress::new(STEPS))
    }

    /// The same, with this progress.
    pub fn take_with(progress: &Progress) -> Result<Self, Failure> {
        let raw = Raw::take(&check::rings(), progress)?;
        progress.phase("costs of the kernel, from what sim says of the rings");
        let described = describe(&raw, &today())?;
        progress.step();
        if let Some(line) = busy(&raw) {
            progress.known(&line);
        }
        Ok(Measurement { raw, described })
    }

    /// The machine file.
    pub fn to_toml(&self) -> String {
        self.described.description.to_toml()
    }

    /// Compares the simulator with readings that it was not fitted to.
    pub fn check(&self) -> Check {
        let rows = check::rows(&self.raw, &self.described);
        let holds = check::hold(&rows);
        Check { text: check::text(&rows), holds, farthest: check::farthest(&rows) }
    }
}

/// The simulator compared with readings.
#[derive(Debug)]
pub struct Check {
    /// A table of them.
    pub text: String,
    /// Whether each is near enough.
    pub holds: bool,
    /// The greatest relative error. None: a reading is missing.
    pub farthest: Option<f64>,
}

/// This machine: today's kept measurement, or a new one.
pub fn this() -> Result<Machine, Failure> {
    let kept = file();
    if let Some(machine) = kept.as_ref().and_then(found) {
        let file = kept.unwrap_or_default();
        output::say(&format!("this machine, as it was measured today: {}", file.display()));
        return Ok(machine);
    }
    output::say("this machine has not been measured today; that takes less than a minute");
    let measurement = Measurement::take()?;
    let text = measurement.to_toml();
    let Measurement { raw, described } = measurement;
    if let Some(why) = not_to_keep(&raw, &described.machine) {
        output::say(&format!("not kept for the next time: {why}"));
        return Ok(described.machine);
    }
    if let Some(file) = kept {
        // Without a place to keep it, it is measured again the next time.
        let folder = fs::create_dir_all(folder_of(&file));
        match folder
            .map_err(|e| format!("cannot create {}: {e}", folder_of(&file).display()))
            .and_then(|()| write_whole(&file, &text).map_err(|e| e.to_string()))
        {
            Ok(()) => output::say(&format!("machine: {}", file.display())),
            Err(error) => output::say(&format!("not kept for the next time: {error}")),
        }
    }
    Ok(described.machine)
}

/// Why these readings are not to be used again today, if so.
fn not_to_keep(raw: &Raw, machine: &Machine) -> Option<String> {
    let unknown = disturbed(machine).map(|name| format!("{name} is unknown ({DISTURBED})"));
    busy(raw).map(|_| "this machine is busy".to_string()).or(unknown)
}

/// A number that another attempt may find. Numbers that this machine never shows are not worth one.
fn disturbed(machine: &Machine) -> Option<&'static str> {
    machine.unknown.iter().find(|(_, why)| *why == DISTURBED).map(|(name, _)| *name)
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(file)
}

/// Today's measurement under this kernel, of the CPUs that this process has now.
fn found(file: &PathBuf) -> Option<Machine> {
    let text = fs::read_to_string(file).ok()?;
    let machine = Machine::from_toml(&text, &file.display().to_string()).ok()?;
    is_of(&text, &machine, &live::measure::place().ok()?).then_some(machine)
}

/// Whether the file is of these CPUs, and of the running kernel.
pub fn is_of(text: &str, machine: &Machine, place: &Place) -> bool {
    let same = machine.cpus.iter().map(|cpu| [cpu.core, cpu.llc, cpu.node, cpu.core_type]);
    let holds_for = format!("# {}", holds_for(place));
    same.eq(place.rows.iter().copied()) && text.lines().any(|line| line == holds_for)
}

/// The file for this machine: its name and the day distinguish it from other machines of a shared home.
fn file() -> Option<PathBuf> {
    let base = vm::kernel::user_cache()?;
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let host: String = host.trim().chars().map(plain).collect();
    Some(base.join("machines").join(format!("{host}-{}.toml", today())))
}

fn today() -> String {
    date(SystemTime::now())
}

/// The day in UTC, as `2026-11-21`.
fn date(at: SystemTime) -> String {
    let whole = humantime::format_rfc3339_seconds(at).to_string();
    whole.split_once('T').map_or(String::new(), |(day, _)| day.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn what_a_busy_machine_gave_is_not_kept() {
        let machine = machine::find("numa-2x4").unwrap();
        let kept = |others| not_to_keep(&Raw { others, ..Raw::default() }, &machine).is_none();
        assert!(kept(Some(0.04)) && kept(None));
        assert!(!kept(Some(0.06)));
    }

    #[test]
    fn a_machine_that_hides_something_is_kept_and_one_that_was_disturbed_is_not() {
        let mut machine = machine::find("numa-2x4").unwrap();
        machine.unknown.insert("tlb_tags", "this architecture does not tell".into());
        assert_eq!(disturbed(&machine), None);
        machine.unknown.insert("timer_ns", DISTURBED.into());
        assert_eq!(disturbed(&machine), Some("timer_ns"));
    }

    #[test]
    fn days_are_dates() {
        let after = |days: u64| date(UNIX_EPOCH + Duration::from_secs(days * 86_400));
        assert_eq!(after(0), "1970-01-01");
        assert_eq!(after(11_016), "2000-02-29");
        assert_eq!(after(20_778), "2026-11-21");
    }
}
