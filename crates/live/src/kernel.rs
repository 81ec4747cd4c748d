// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's state files and log about sched_ext.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, bail};

pub(crate) const FOLDER: &str = "/sys/kernel/sched_ext";
/// Its file with the name of the scheduler in charge.
pub(crate) const OPS: &str = "root/ops";
const O_NONBLOCK: i32 = 0o4000;

/// `/sys/kernel/sched_ext` at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// `enabled`, `disabled`, or a state between.
    pub state: String,
    /// The name of the attached scheduler, if there is one.
    pub ops: Option<String>,
    /// It has only the tasks that asked for it.
    pub partial: bool,
    /// Tasks that were refused a switch to SCHED_EXT by the scheduler.
    pub nr_rejected: u64,
    /// How often a scheduler was enabled since boot.
    pub enable_seq: u64,
}

impl State {
    /// The state as a phrase: `lavd is enabled`.
    pub fn phrase(&self) -> String {
        format!("{} is {}", self.scheduler(), self.state)
    }

    /// Fails if a scheduler is in charge, or about to be.
    pub fn check_free(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.state == "disabled", "{} here: {STOP_IT}", self.phrase());
        Ok(())
    }

    fn scheduler(&self) -> &str {
        self.ops.as_deref().unwrap_or("another scheduler")
    }
}

/// Advice if another scheduler is in charge.
pub const STOP_IT: &str = "stop it first, for example: systemctl stop scx scx_loader";

/// The kernel's description of its own types, against which a policy's accesses are checked.
pub(crate) const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Checks that the kernel can load policies; an error says what it lacks. It does not check whether sched_ext is free.
pub fn can_load() -> anyhow::Result<State> {
    let state = state()?;
    if !Path::new(TYPES).exists() {
        bail!("{TYPES} is not there: this kernel has no type information (CONFIG_DEBUG_INFO_BTF)");
    }
    Ok(state)
}

/// Reads the state; an error says if the kernel has no sched_ext.
pub fn state() -> anyhow::Result<State> {
    let read = |name: &str| fs::read_to_string(format!("{FOLDER}/{name}"));
    let number = |name: &str| read(name).ok().and_then(|text| text.trim().parse().ok());
    let state = read("state").with_context(|| {
        format!("{FOLDER} is not there: this kernel has no sched_ext (CONFIG_SCHED_CLASS_EXT)")
    })?;
    Ok(State {
        state: state.trim().to_string(),
        ops: read(OPS).ok().map(|name| name.trim().to_string()),
        partial: number("switch_all") == Some(0),
        nr_rejected: number("nr_rejected").unwrap_or(0),
        enable_seq: number("enable_seq").unwrap_or(0),
    })
}

/// The sched_ext scheduler that has all tasks now. None: Linux's own class has them.
pub fn scheduler() -> Option<String> {
    state().ok().filter(|state| !state.partial)?.ops
}

/// A time in which Linux's own class is in charge.
pub struct OwnClass(Option<State>);

impl OwnClass {
    /// Begins it; fails if another scheduler is in charge.
    pub fn begin() -> anyhow::Result<Self> {
        // A kernel without sched_ext has no other scheduler.
        let begun = state().ok();
        begun.iter().try_for_each(|now| stayed(now, now))?;
        Ok(OwnClass(begun))
    }

    /// Ends it; fails if another scheduler was in charge meanwhile.
    pub fn end(self) -> anyhow::Result<()> {
        self.0.map_or(Ok(()), |before| stayed(&before, &state()?))
    }
}

fn stayed(before: &State, now: &State) -> anyhow::Result<()> {
    before.check_free()?;
    if now.state != "disabled" || now.enable_seq != before.enable_seq {
        bail!("{} came in charge while it ran: stop that first, and run it again", now.scheduler());
    }
    Ok(())
}

/// The kernel's log from one moment on.
pub struct Messages {
    kmsg: Option<File>,
}

impl Messages {
    /// Starts to listen; earlier messages are not returned. Without the right to read the log there are no messages.
    pub fn from_now() -> Self {
        let mut kmsg =
            OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open("/dev/kmsg").ok();
        if let Some(file) = &mut kmsg {
            // /dev/kmsg seeks to its end only; it never fails there
            let _ = file.seek(SeekFrom::End(0));
        }
        Messages { kmsg }
    }

    /// [`Messages::about_sched_ext`] of a scheduler that is no longer in charge: not that it once was.
    pub(crate) fn about_its_end(&mut self) -> Vec<String> {
        let mut said = self.about_sched_ext();
        said.retain(|line| !line.ends_with(" enabled"));
        said
    }

    /// Messages of sched_ext since the last call, without levels and time stamps.
    pub fn about_sched_ext(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        let Some(kmsg) = &mut self.kmsg else { return said };
        let mut record = [0; 8192];
        loop {
            match kmsg.read(&mut record) {
                Ok(0) => break,
                Ok(length) => {
                    let text = String::from_utf8_lossy(&record[..length]);
                    let message = text.split_once(';').map_or("", |(_, message)| message);
                    let line = message.lines().next().unwrap_or_default();
                    said.extend(line.strip_prefix("sched_ext: ").map(str::to_string));
                }
                // records overwritten before they were read: the next read continues behind them
                Err(error) if error.kind() == ErrorKind::BrokenPipe => continue,
                Err(_) => break,
            }
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_own_class_has_a_time_of_its_own() {
        let state = |state: &str, ops: Option<&str>, enable_seq| State {
            state: state.into(),
            ops: ops.map(str::to_string),
            enable_seq,
            ..State::default()
        };
        let own = state("disabled", None, 3);
        let said = |before: &State, now: &State| stayed(before, now).unwrap_err().to_string();
        assert!(stayed(&own, &own).is_ok());
        let other = state("enabled", Some("lavd"), 4);
        let wanted =
            "lavd is enabled here: stop it first, for example: systemctl stop scx scx_loader";
        assert_eq!(said(&other, &other), wanted);
        assert!(said(&own, &other).starts_with("lavd came in charge while it ran"));
        assert!(said(&own, &state("disabled", None, 4)).starts_with("another scheduler came"));
    }
}
