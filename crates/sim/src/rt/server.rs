// SPDX-License-Identifier: GPL-2.0-only
//! What real-time tasks leave to the class below: 50 ms of each second on each CPU.
//!
//! Today's kernels have a server with a deadline that runs for the class below once it has been kept waiting for so
//! long [fair_server_init, dl_server_timer], for sched_ext since 7.0: from 6.12 to 6.19 nothing is left to it. Before 6.12
//! real-time tasks were stopped for as long [sched_rt_runtime_us]. Both come to the same shares here. It is looked at in
//! ticks.

/// How long the class below may be kept waiting, ns.
const KEPT_MAX_NS: u64 = 950_000_000;
/// What it gets then, ns.
const SERVED_NS: u64 = 50_000_000;

/// A CPU's.
#[derive(Default)]
pub(super) struct Server {
    /// For how long real-time tasks have run here while others waited, and the others have run, since they were
    /// given their part last.
    kept_ns: u64,
    ran_ns: u64,
    /// Since when one of the class below runs.
    since_ns: Option<u64>,
    serves: bool,
}

impl Server {
    /// Whether the class below goes first now.
    pub fn serves(&self) -> bool {
        self.serves
    }

    /// A real-time task ran for so long; `kept` is whether others waited.
    pub fn kept_waiting(&mut self, ns: u64, kept: bool) {
        match kept {
            true => self.kept_ns += ns,
            false => self.restart(),
        }
    }

    /// One of the class below runs from now on.
    pub fn runs_from(&mut self, now_ns: u64) {
        self.since_ns = Some(now_ns);
    }

    /// It has run until now. What it gets while no real-time task wants the CPU counts as well.
    pub fn ran_until(&mut self, now_ns: u64) {
        let since_ns = self.since_ns.take().unwrap_or(now_ns);
        self.ran_ns += now_ns.saturating_sub(since_ns);
        if !self.serves && self.ran_ns >= SERVED_NS {
            self.restart();
        }
    }

    /// It has nobody that could run.
    pub fn has_nobody(&mut self) {
        self.restart();
    }

    /// In a tick: whether the other class is to run from now on. `starved` is whether the class below waits behind a
    /// real-time task.
    pub fn tick(&mut self, starved: bool) -> bool {
        match self.serves {
            true if self.ran_ns >= SERVED_NS => {
                self.restart();
                true
            }
            false if starved && self.kept_ns >= KEPT_MAX_NS => {
                self.restart();
                self.serves = true;
                true
            }
            _ => false,
        }
    }

    fn restart(&mut self) {
        (self.kept_ns, self.ran_ns, self.serves) = (0, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn who_is_kept_waiting_gets_a_twentieth() {
        let mut server = Server::default();
        let (mut served, mut now_ns) = (0, 0);
        for _ in 0..10_000 {
            match server.serves() {
                true => {
                    server.runs_from(now_ns);
                    now_ns += MS;
                    server.ran_until(now_ns);
                    served += 1;
                }
                false => {
                    now_ns += MS;
                    server.kept_waiting(MS, true);
                }
            }
            server.tick(!server.serves());
        }
        assert_eq!(served, 500);
    }

    #[test]
    fn what_it_gets_by_itself_counts() {
        let mut server = Server::default();
        server.kept_waiting(900 * MS, true);
        server.runs_from(0);
        server.ran_until(50 * MS);
        server.kept_waiting(900 * MS, true);
        assert!(!server.tick(true));
        server.kept_waiting(50 * MS, true);
        assert!(server.tick(true));
    }
}
