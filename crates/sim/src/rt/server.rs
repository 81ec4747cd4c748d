// SPDX-License-Identifier: GPL-2.0-only
//! The share of the class below real-time tasks: 50 ms of each second on each CPU.
//!
//! Today's kernels have a server with a deadline. It runs for the class below after that was kept waiting for so long
//! [fair_server_init, dl_server_timer]. sched_ext has one since 7.0; from 6.12 to 6.19 it gets nothing. Before 6.12
//! real-time tasks were stopped for as long (`sched_rt_runtime_us`). Both give the same shares here. Ticks do the
//! checks.

/// How long the class below may be kept waiting, ns.
const KEPT_MAX_NS: u64 = 950_000_000;
/// Its share after that, ns.
const SERVED_NS: u64 = 50_000_000;

/// The server of a CPU.
#[derive(Default)]
pub(super) struct Server {
    /// How long real-time tasks have run here while tasks of the class below waited, since those last got their share;
    /// and how long the class below has run since then.
    kept_ns: u64,
    ran_ns: u64,
    /// Since when a task of the class below runs.
    since_ns: Option<u64>,
    serves: bool,
}

impl Server {
    /// Whether the class below goes first now.
    pub fn serves(&self) -> bool {
        self.serves
    }

    /// A real-time task ran for `ns`; `kept` is whether tasks of the class below waited.
    pub fn kept_waiting(&mut self, ns: u64, kept: bool) {
        match kept {
            true => self.kept_ns += ns,
            false => self.restart(),
        }
    }

    /// A task of the class below runs from now on.
    pub fn runs_from(&mut self, now_ns: u64) {
        self.since_ns = Some(now_ns);
    }

    /// It has run until now. Time it gets while no real-time task wants the CPU counts as well.
    pub fn ran_until(&mut self, now_ns: u64) {
        let since_ns = self.since_ns.take().unwrap_or(now_ns);
        self.ran_ns += now_ns.saturating_sub(since_ns);
        if !self.serves && self.ran_ns >= SERVED_NS {
            self.restart();
        }
    }

    /// The class below has no runnable task.
    pub fn has_nobody(&mut self) {
        self.restart();
    }

    /// In a tick: whether the classes change places now. `starved` is whether the class below waits behind a real-time
    /// task.
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
    fn starved_class_gets_a_twentieth() {
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
