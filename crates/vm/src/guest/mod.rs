// SPDX-License-Identifier: GPL-2.0-only
//! The agent: process 1 of the guest. Runs the job under each policy in turn and reports.

mod execute;
mod machine;
mod measure;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
pub use execute::worker_command;
use live::{Broken, Standing};
pub(crate) use machine::PATH;
use policy::{Instance, Policy};

use crate::job::{BEAT, JOB, Job, JobPolicy, MESSAGES, Message, RECORDS};
use crate::probe;

/// Runs the job and powers the guest off. Call it if the first argument is `guest`. The second is the number of the
/// boot, or says that this is the worker of a workload file, or counts what the verifier walks.
pub fn main(registry: &[&'static Policy]) -> ! {
    if std::env::args().nth(2).as_deref() == Some(execute::WORKER) {
        execute::worker();
    }
    if std::env::args().nth(2).as_deref() == Some(execute::VERIFIED) {
        execute::verified(registry);
    }
    if std::process::id() != 1 {
        eprintln!("paceline guest: only for the first process of a guest");
        std::process::exit(2);
    }
    let boot = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(0);
    let standing = match machine::prepare() {
        Ok(standing) => standing,
        Err(error) => {
            println!("paceline: {error:#}");
            machine::power_off();
        }
    };
    match Host::connect() {
        Ok(mut host) => {
            let end = match work(&mut host, boot, standing, registry) {
                Ok(()) => Message::Done,
                Err(error) => Message::Failed {
                    why: format!("{error:#}").replace('\n', "; "),
                    last: error.downcast_ref::<Broken>().map_or(Vec::new(), |it| it.last.clone()),
                },
            };
            if let Err(error) = host.tell(&end) {
                println!("paceline: {error:#}");
            }
        }
        Err(error) => println!("paceline: {error:#}"),
    }
    machine::power_off()
}

/// The lines to the host.
pub(crate) struct Host {
    messages: Arc<Mutex<File>>,
    records: File,
}

impl Host {
    fn connect() -> anyhow::Result<Self> {
        Ok(Host { messages: Arc::new(Mutex::new(port(MESSAGES)?)), records: port(RECORDS)? })
    }

    pub(crate) fn tell(&mut self, message: &Message) -> anyhow::Result<()> {
        send(&self.messages, message)
    }

    /// Starts a thread that says every [`BEAT`] that the guest is alive. It is real-time, of the highest priority: no
    /// policy and no task of the workload can keep it from a CPU.
    fn beat(&self) {
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

fn work(
    host: &mut Host,
    boot: usize,
    standing: Standing,
    registry: &[&'static Policy],
) -> anyhow::Result<()> {
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let after_s = uptime.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0);
    host.tell(&Message::Up { after_s })?;
    let job: Job = serde_json::from_slice(&fs::read(JOB)?).context("the job is malformed")?;
    if job.beats {
        host.beat();
    }
    if job.probe {
        probe::check_btf(Path::new("/sys/kernel/btf/vmlinux")).context("this kernel is unsound")?;
    }
    machine::dilate(job.dilation)?;
    let mut topology = live::topology()?;
    if !job.core_types.is_empty() {
        topology.core_type = job.core_types.clone();
    }
    topology.clocks = job.clocks.clone();
    let instances = instances(&job, registry)?;
    for run in 0..job.runs {
        for index in live::rotated(run + boot, instances.len()) {
            let policy = &job.policies[index];
            let instance = instances[index].as_ref();
            let what = Run { policy, instance, run, boot, standing };
            let measured = measure::one(host, &job, &what, &topology)
                .with_context(|| format!("policy {}", policy.label))?;
            host.tell(&Message::Outcome(Box::new(measured)))?;
        }
    }
    Ok(())
}

/// One run of one policy.
pub(crate) struct Run<'a> {
    pub policy: &'a JobPolicy,
    /// None is Linux's own class.
    pub instance: Option<&'a Instance>,
    pub run: usize,
    pub boot: usize,
    /// How the workload's first process is scheduled.
    pub standing: Standing,
}

fn instances(job: &Job, registry: &[&'static Policy]) -> anyhow::Result<Vec<Option<Instance>>> {
    let instance = |wanted: &JobPolicy| {
        let Some(name) = &wanted.name else { return Ok(None) };
        let mut instance = Instance::default(policy::find(name, registry)?);
        instance.values = wanted.values.clone();
        instance.label = wanted.label.clone();
        Ok(Some(instance.dilated(job.dilation)))
    };
    job.policies.iter().map(instance).collect()
}
