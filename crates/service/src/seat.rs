// SPDX-License-Identifier: GPL-2.0-only
//! A policy for this machine's kernel, from its name to the moment at which it is in charge.

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
    /// Where that comes from.
    pub sources: Option<String>,
    began: Instant,
}

/// Checks what a policy needs on this machine, and has the kernel verify it. Whatever is in charge stays.
pub fn prepare(instance: &Instance, config: &Config, state: &Path) -> Result<Prepared, Failure> {
    let began = Instant::now();
    can_load()?;
    heed_numbers(instance)?;
    heed_limits(instance, false, config.ignore_cgroup_limits || config.partial)?;
    let topology = topology(config)?;
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
        let sources = known.sources(&instance, &topology, &attached);
        Ok(Held { instance, attached, known, sources, began: Instant::now() })
    }
}

impl Held {
    /// Keeps what was learned of programs, now and then.
    pub fn keep_now_and_then(&mut self) {
        let Held { attached, known, began, .. } = self;
        known.keep_now_and_then(|| learned(attached), began.elapsed());
    }

    /// Puts Linux's own class in charge, and then keeps what was learned.
    pub fn leave(mut self) -> Result<(), Failure> {
        let learned = learned(&self.attached);
        let detached = self.attached.detach();
        self.known.keep(learned);
        detached.map_err(failed)
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
