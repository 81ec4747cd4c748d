// SPDX-License-Identifier: GPL-2.0-only
//! What the service says, to the journal or to standard error, and to the service manager. A thread says it: a policy
//! may keep the reader from running, and the service itself must never wait for that.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use log::{Level, Log, Record};
use report::text::visible;
use sd_notify::NotifyState;
use systemd_journal_logger::{JournalLog, connected_to_journal};
use terminal::output;

/// Messages that wait at most; later ones are lost, and counted.
const WAITING_MAX: usize = 256;

/// A field of a line in the journal, such as `PACELINE_POLICY`.
pub type Field = (&'static str, String);

/// Says it.
pub struct Voice {
    to: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<()>>,
    lost: u64,
}

enum Message {
    Line { level: Level, text: String, fields: Vec<Field> },
    Manager(Told),
}

/// What a service manager is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It has begun, or has read its config file again.
    Ready,
    /// It reads its config file again.
    Reloading,
    /// It ends.
    Stopping,
    /// Its state, in a line.
    Status(String),
}

impl Voice {
    /// Begins.
    pub fn begin() -> std::io::Result<Self> {
        let (to, from) = sync_channel(WAITING_MAX);
        let journal = connected_to_journal().then(JournalLog::new).transpose()?;
        let journal = journal.map(|journal| journal.with_syslog_identifier("paceline".into()));
        let work = move || speak(&from, journal.as_ref());
        let thread = std::thread::Builder::new().name("voice".into()).spawn(work)?;
        Ok(Voice { to: Some(to), thread: Some(thread), lost: 0 })
    }

    /// A line of the usual course.
    pub fn say(&mut self, text: String, fields: Vec<Field>) {
        self.line(Level::Info, text, fields);
    }

    /// A line that an administrator should see.
    pub fn warn(&mut self, text: String, fields: Vec<Field>) {
        self.line(Level::Warn, text, fields);
    }

    fn line(&mut self, level: Level, text: String, fields: Vec<Field>) {
        if self.lost > 0 {
            let text =
                format!("{} lines before this one are lost: the journal was not read", self.lost);
            if self.put(Message::Line { level: Level::Warn, text, fields: Vec::new() }) {
                self.lost = 0;
            }
        }
        if !self.put(Message::Line { level, text, fields }) {
            self.lost += 1;
        }
    }

    /// Tells the service manager, if there is one.
    pub fn tell(&mut self, told: Told) {
        self.put(Message::Manager(told));
    }

    fn put(&self, message: Message) -> bool {
        self.to.as_ref().is_some_and(|to| to.try_send(message).is_ok())
    }
}

impl Drop for Voice {
    /// Waits until all is said.
    fn drop(&mut self) {
        drop(self.to.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn speak(from: &Receiver<Message>, journal: Option<&JournalLog>) {
    for message in from {
        match (message, journal) {
            (Message::Line { level, text, fields }, Some(journal)) => {
                write(journal, level, &text, &fields);
            }
            (Message::Line { text, .. }, None) => output::say(&format!("paceline: {text}")),
            (Message::Manager(told), _) => {
                // Without a manager there is nothing to tell.
                let _ = notify(&told);
            }
        }
    }
}

/// A line of the journal. Names of tasks and cgroups in it can have any bytes.
fn write(journal: &JournalLog, level: Level, text: &str, fields: &[Field]) {
    let fields: Vec<(&str, String)> =
        fields.iter().map(|(key, text)| (*key, visible(text))).collect();
    let record = Record::builder().level(level).target("paceline").key_values(&fields).build();
    journal.log(&record.to_builder().args(format_args!("{}", visible(text))).build());
}

fn notify(told: &Told) -> std::io::Result<()> {
    match told {
        Told::Ready => sd_notify::notify(&[NotifyState::Ready]),
        Told::Reloading => {
            sd_notify::notify(&[NotifyState::Reloading, NotifyState::monotonic_usec_now()?])
        }
        Told::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
        Told::Status(text) => sd_notify::notify(&[NotifyState::Status(&visible(text))]),
    }
}
