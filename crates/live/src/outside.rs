// SPDX-License-Identifier: GPL-2.0-only
//! A scheduler that is a program of its own, such as scx_bpfland: started, put in charge, watched, ended.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::{Messages, State, die_with_parent, state};

/// Longest time from its start until it is in charge. In a guest scx_lavd takes 16 s.
const LOAD_MAX: Duration = Duration::from_secs(120);
/// Longest time that it has to end by itself after each signal, and the kernel to be back on its own class.
const END_MAX: Duration = Duration::from_secs(10);
/// How often it is looked at while it loads and ends.
const LOOK: Duration = Duration::from_millis(20);
/// Lines of its output that an error carries, and the bytes at its end that are read for them.
const LAST_LINES: usize = 3;
const END_BYTES: usize = 4096;

/// A program that is in charge of this kernel's tasks until it is dropped.
pub struct Outside {
    label: String,
    child: Child,
    /// Its standard output and error.
    written: File,
    messages: Messages,
    before: State,
}

impl Outside {
    /// Starts the program and waits until the kernel says that a scheduler is in charge which was not there before.
    /// Fails if another scheduler is attached, and if the program ends first.
    pub fn start(label: &str, argv: &[String]) -> anyhow::Result<Self> {
        let before = state()?;
        before.check_free()?;
        let messages = Messages::from_now();
        let written = tempfile::tempfile().context("no room for what a scheduler writes")?;
        let (program, arguments) = argv.split_first().context("a scheduler needs a program")?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(written.try_clone()?)
            .stderr(written.try_clone()?);
        // Ctrl-C at the terminal reaches us alone, and we end it.
        command.process_group(0);
        die_with_parent(&mut command, Signal::TERM);
        let child = command.spawn().with_context(|| format!("cannot start {program}"))?;
        let mut outside = Outside { label: label.into(), child, written, messages, before };
        outside.wait_until_in_charge()?;
        Ok(outside)
    }

    fn wait_until_in_charge(&mut self) -> anyhow::Result<()> {
        let started = Instant::now();
        while !self.is_in_charge(&state()?) {
            if let Some(status) = self.child.try_wait()? {
                let words = self.words();
                bail!("{} {} before it was in charge: {words}", self.label, how(status));
            }
            if started.elapsed() > LOAD_MAX {
                let words = self.words();
                bail!("{} was not in charge after {} s: {words}", self.label, LOAD_MAX.as_secs());
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The leader of its process group.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Fails if it is no longer in charge, with its own words and the kernel's.
    pub fn verify(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let words = self.words();
            bail!("{} {} while it was in charge: {words}", self.label, how(status));
        }
        let now = state()?;
        if !self.is_in_charge(&now) {
            let words = self.words();
            bail!("the kernel stopped {}: {words}", self.label);
        }
        Ok(())
    }

    fn is_in_charge(&self, now: &State) -> bool {
        now.state == "enabled" && now.enable_seq == self.before.enable_seq + 1
    }

    /// Ends it, and waits until Linux's own class is back. Fails if it was not in charge until now.
    pub fn end(mut self) -> anyhow::Result<()> {
        self.verify()?;
        self.stop();
        let now = state()?;
        anyhow::ensure!(
            now.state == "disabled",
            "sched_ext is still {} after {} has ended",
            now.state,
            self.label
        );
        Ok(())
    }

    /// Ends the process with ever stronger signals, and waits until the kernel has let go of it.
    fn stop(&mut self) {
        for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
            // Its group may be gone already.
            let _ = kill_process_group(self.pid(), signal);
            if self.ends_within(END_MAX) {
                break;
            }
        }
        let begun = Instant::now();
        while state().is_ok_and(|now| self.has_not_let_go(&now)) && begun.elapsed() < END_MAX {
            thread::sleep(LOOK);
        }
    }

    fn has_not_let_go(&self, now: &State) -> bool {
        now.state != "disabled" && now.enable_seq == self.before.enable_seq + 1
    }

    fn ends_within(&mut self, limit: Duration) -> bool {
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(None) if begun.elapsed() < limit => thread::sleep(LOOK),
                Ok(None) => return false,
                Ok(Some(_)) | Err(_) => return true,
            }
        }
    }

    /// What it wrote last, and what the kernel said of sched_ext, in one line.
    fn words(&mut self) -> String {
        let mut end = [0; END_BYTES];
        let from = self.written.metadata().map_or(0, |file| file.len());
        let from = from.saturating_sub(END_BYTES as u64);
        let length = self.written.read_at(&mut end, from).unwrap_or(0);
        let text = String::from_utf8_lossy(&end[..length]).into_owned();
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        let said = self.messages.about_its_end();
        let own = if last.is_empty() { "it wrote nothing".into() } else { last.join("; ") };
        match said.is_empty() {
            true => own,
            false => format!("{own}; kernel: {}", said.join("; ")),
        }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.stop();
        }
    }
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".into(),
    }
}
