// SPDX-License-Identifier: GPL-2.0-only
//! When speeds of memory domains change, and pages move: the engine's part of `domains.rs`.

use super::{CHUNK_NS, same};
use crate::engine::Engine;
use crate::event::Due;
use crate::ids::TaskId;

impl Engine {
    /// Other tasks run than before, or memory has moved: tasks go on at their new speeds.
    pub(crate) fn rerate_domains(&mut self) {
        let Some(domains) = &mut self.k.domains else { return };
        let next = domains.speeds(&self.k.cpus, &self.k.machine.cpus);
        let now = self.k.now;
        for (cpu, speed) in next.into_iter().enumerate() {
            let Some(domains) = &mut self.k.domains else { return };
            if same(domains.speeds[cpu], speed) {
                continue;
            }
            let running = self.k.in_user(cpu);
            if running {
                self.pause(cpu, now);
            }
            if let Some(domains) = &mut self.k.domains {
                domains.speeds[cpu] = speed;
            }
            if running {
                let since_ns = self.k.cpus[cpu].since_ns;
                self.start_user(cpu, since_ns);
            }
        }
    }

    /// A task's program changes its misses from now on.
    pub(crate) fn phase_domains(&mut self, task: TaskId, mpki: f64) {
        if let Some(domains) = &mut self.k.domains
            && let Some(Some(demand)) = domains.demands.get_mut(task)
        {
            demand.mpki = mpki;
            self.rerate_domains();
        }
    }

    /// A copy of pages has made progress.
    pub(crate) fn on_memory(&mut self, t_ns: u64) {
        self.k.now = t_ns;
        if let Some(domains) = &mut self.k.domains {
            let idle = domains.orders.is_empty() && domains.new.borrow().is_empty();
            domains.carry(t_ns);
            domains.keep(t_ns, &self.k.tasks);
            if !idle {
                domains.known.clear();
                self.rerate_domains();
            }
        }
        self.k.queue.push(t_ns + CHUNK_NS, Due::Memory);
    }

    /// Brings counters up to date before they are read.
    pub(crate) fn count_domains(&mut self, t_ns: u64) {
        if self.k.domains.is_none() {
            return;
        }
        for cpu in 0..self.k.cpus.len() {
            self.rerate(cpu, t_ns);
        }
    }
}
