// SPDX-License-Identifier: GPL-2.0-only
//! The agent: process 1 of the guest. Runs the job under each policy in turn and reports.

mod execute;
mod host;
mod machine;
mod measure;

use std::fs;
use std::path::Path;

use anyhow::Context;
pub use execute::worker_command;
use host::Host;
use live::{Broken, Scheduler, Standing};
use measure::Run;
use policy::{Instance, Policy, Topology};

use crate::job::{JOB, Job, JobPolicy, JobScheduler, Message};
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
    let instances = instances(&job, &topology, registry)?;
    for run in 0..job.runs {
        for index in live::rotated(run + boot, instances.len()) {
            let policy = &job.policies[index];
            let scheduler = match (&policy.scheduler, &instances[index]) {
                (JobScheduler::Program { argv }, _) => Scheduler::Program(argv),
                (_, Some(instance)) => Scheduler::Policy(instance),
                (_, None) => Scheduler::Own,
            };
            let what = Run { label: &policy.label, scheduler, run, boot, standing };
            let measured = measure::one(host, &job, &what, &topology)
                .with_context(|| format!("policy {}", policy.label))?;
            host.tell(&Message::Outcome(Box::new(measured)))?;
        }
    }
    Ok(())
}

fn instances(
    job: &Job,
    topology: &Topology,
    registry: &[&'static Policy],
) -> anyhow::Result<Vec<Option<Instance>>> {
    let instance = |wanted: &JobPolicy| {
        let JobScheduler::Policy { name, values } = &wanted.scheduler else { return Ok(None) };
        let mut instance = Instance::default(policy::find(name, registry)?);
        instance.values = values.clone();
        instance.label = wanted.label.clone();
        Ok(Some(instance.on(topology).dilated(job.dilation)))
    };
    job.policies.iter().map(instance).collect()
}
