// SPDX-License-Identifier: GPL-2.0-only
//! The guest's lines to the host.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;

use crate::job::{BEAT, MESSAGES, Message, RECORDS};

/// The lines to the host.
pub(crate) struct Host {
    messages: Arc<Mutex<File>>,
    records: File,
}

impl Host {
    pub(crate) fn connect() -> anyhow::Result<Self> {
        Ok(Host { messages: Arc::new(Mutex::new(port(MESSAGES)?)), records: port(RECORDS)? })
    }

    pub(crate) fn tell(&mut self, message: &Message) -> anyhow::Result<()> {
        send(&self.messages, message)
    }

    /// Starts a thread that says every [`BEAT`] that the guest is alive. It is real-time, of the highest priority: no
    /// policy and no task of the workload can keep it from a CPU.
    pub(crate) fn beat(&self) {
        let messages = Arc::clone(&self.messages);
        std::thread::spawn(move || {
            // root of a guest may
            let _ = live::outrank_real_time();
            while send(&messages, &Message::Alive).is_ok() {
                std::thread::sleep(BEAT);
            }
        });
    }

    pub(crate) fn send_records(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.records.write_all(bytes).context("the host takes no records")
    }
}

fn send(messages: &Mutex<File>, message: &Message) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
    messages.write_all(&line).context("the host does not listen")
}

/// Opens a virtio-serial port by its name.
fn port(name: &str) -> anyhow::Result<File> {
    let ports = fs::read_dir("/sys/class/virtio-ports").context("no virtio-serial port")?;
    let port = ports.flatten().find(|port| {
        fs::read_to_string(port.path().join("name")).unwrap_or_default().trim() == name
    });
    let port = port.with_context(|| format!("the host's port {name} is missing"))?;
    let device = Path::new("/dev").join(port.file_name());
    let file = OpenOptions::new().write(true).open(&device);
    file.with_context(|| device.display().to_string())
}
