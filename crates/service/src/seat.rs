// SPDX-License-Identifier: GPL-2.0-only
//! A policy for this machine's kernel, from its name to the moment at which it is in charge.

use std::fmt::{self, Display};
use std::path::Path;
use std::time::{Duration, Instant};

use comparison::loading::{can_load, heed_limits, heed_numbers};
use live::{Attached, Counting, Event, Reader, Ready, Scope};
use measuring::topology_here;
use policy::{Instance, Profile, Told as Goes, Topology};
use terminal::{Failure, failed};

use crate::config::Config;
use crate::known::{Known, Told};

/// The file of measured speeds, in the folder of the service's state.
const MEMO: &str = "memo.toml";

/// A policy that is ready to be put in charge.
pub struct Prepared {
    /// The policy.
    pub instance: Instance,
    topology: Topology,
    known: Known,
    ready: Ready,
    /// How long it took.
    pub took: Duration,
}

/// A policy in charge.
pub struct Held {
    /// The policy.
    pub instance: Instance,
    /// What the kernel has of it.
    pub attached: Attached,
    /// What it knows of programs.
    pub known: Known,
    topology: Topology,
    /// When it was in charge.
    pub began: Instant,
}

/// Why a policy cannot be put in charge.
pub enum Hindrance {
    /// The machine lets no such policy be loaded now.
    Machine(Failure),
    /// It is the policy's own.
    Policy(Failure),
}

impl Display for Hindrance {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Hindrance::Machine(failure) | Hindrance::Policy(failure)) = self;
        failure.fmt(out)
    }
}

/// Checks what a policy needs on this machine, and has the kernel verify it. Whatever is in charge stays.
pub fn prepare(instance: &Instance, config: &Config, state: &Path) -> Result<Prepared, Hindrance> {
    let topology = machine(instance, config).map_err(Hindrance::Machine)?;
    verify(instance, config, topology, state).map_err(Hindrance::Policy)
}

/// The machine's topology, if the machine lets such a policy be loaded now.
fn machine(instance: &Instance, config: &Config) -> Result<Topology, Failure> {
    can_load()?;
    heed_numbers(instance)?;
    let ignore = config.ignore_cgroup_limits || config.partial;
    heed_limits(instance, false, ignore, "set ignore_cgroup_limits = true")?;
    topology(config)
}

fn verify(
    instance: &Instance,
    config: &Config,
    topology: Topology,
    state: &Path,
) -> Result<Prepared, Failure> {
    let began = Instant::now();
    let goes_by_speeds = instance.policy.told(topology.kinds()) == Some(Goes::Speeds);
    let memo = goes_by_speeds.then(|| state.join(MEMO));
    let told = Told { profile: config.profile.clone(), memo, counts_otherwise: false };
    let known = Known::new(&told, instance, &topology)?;
    let scope = if config.partial { Scope::Asking } else { Scope::All };
    let counting = Counting { event: Event::Own, reader: Reader::Either };
    let ready =
        live::prepare(instance, &topology, &known.profile(), scope, counting).map_err(failed)?;
    Ok(Prepared { instance: instance.clone(), topology, known, ready, took: began.elapsed() })
}

impl Prepared {
    /// Puts it in charge. The seat has to be free.
    pub fn take(self) -> Result<Held, Failure> {
        let Prepared { instance, topology, known, ready, .. } = self;
        let attached = ready.attach().map_err(failed)?;
        Ok(Held { instance, attached, known, topology, began: Instant::now() })
    }
}

impl Held {
    /// Where what it knows of programs comes from.
    pub fn sources(&self) -> Option<String> {
        self.known.sources(&self.instance, &self.topology, &self.attached)
    }

    /// Keeps what was learned of programs.
    pub fn keep(&mut self) {
        self.known.keep(learned(&self.attached));
    }

    /// Keeps what was learned of programs, now and then.
    pub fn keep_now_and_then(&mut self) {
        let Held { attached, known, began, .. } = self;
        known.keep_now_and_then(|| learned(attached), began.elapsed());
    }

    /// Puts Linux's own class in charge, and then keeps what was learned.
    pub fn leave(mut self) -> Result<(), Failure> {
        let left = self.attached.leave_seat();
        self.keep();
        left.map_err(failed)
    }
}

fn learned(attached: &Attached) -> Profile {
    attached.knows().map(|knows| knows.learned).unwrap_or_default()
}

/// This machine's topology now, with what the config file says of it.
fn topology(config: &Config) -> Result<Topology, Failure> {
    let mut topology = topology_here(config.core_types.as_deref())?;
    if let Some(clocks) = &config.clocks {
        topology.clocks = clocks.clone();
    }
    Ok(topology)
}
