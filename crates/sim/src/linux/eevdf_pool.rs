// SPDX-License-Identifier: GPL-2.0-only
//! The pool of CPU time of a cgroup with a limit, from which its queues take slices: `struct cfs_bandwidth`. Pure: no
//! kernel here.

use policy::Quota;

use crate::lock::LockId;

/// `sched_cfs_bandwidth_slice`: how much a queue takes at a time.
pub(crate) const SLICE_NS: u64 = 5_000_000;
/// `min_cfs_rq_runtime`: how much a queue keeps when its last task sleeps.
pub(super) const KEPT_NS: i64 = 1_000_000;
/// `cfs_bandwidth_slack_period`: queues that wait get returned time after so long.
pub(super) const SLACK_NS: u64 = 5_000_000;
/// `min_bandwidth_expiration`: they do not if the next period is this near.
pub(super) const SLACK_BEFORE_NS: u64 = 2_000_000;

/// `struct cfs_bandwidth`.
#[derive(Debug)]
pub(super) struct Pool {
    pub lock: LockId,
    quota: Option<Quota>,
    runtime_ns: u64,
    /// Nothing was taken in the last period.
    pub idle: bool,
    /// The next period's start, if its timer is armed.
    pub period_ns: Option<u64>,
    pub slack_armed: bool,
    /// How often each timer was armed, period and slack, to tell a late one from the present one.
    pub starts: [u32; 2],
    /// Queues that wait for time, by their indices, in order.
    pub throttled: Vec<usize>,
}

impl Pool {
    pub fn new(lock: LockId, quota: Option<Quota>) -> Self {
        Pool {
            lock,
            quota,
            runtime_ns: quota.map_or(0, |quota| quota.quota_ns),
            idle: false,
            period_ns: None,
            slack_armed: false,
            starts: [0, 0],
            throttled: Vec::new(),
        }
    }

    pub fn quota(&self) -> Option<Quota> {
        self.quota
    }

    pub fn set_quota(&mut self, quota: Option<Quota>) {
        self.quota = quota;
        self.refill();
    }

    /// `__refill_cfs_bandwidth_runtime`: a period begins. Time left of the last one stays, up to the burst.
    pub fn refill(&mut self) {
        let Some(Quota { quota_ns, burst_ns, .. }) = self.quota else { return };
        self.runtime_ns = (self.runtime_ns + quota_ns).min(quota_ns + burst_ns);
    }

    /// Takes up to so much out of it, and exactly so much if there is no limit.
    pub fn take(&mut self, ns: i64) -> i64 {
        let ns = ns.max(0) as u64;
        if self.quota.is_none() {
            return ns as i64;
        }
        let taken_ns = ns.min(self.runtime_ns);
        self.runtime_ns -= taken_ns;
        self.idle &= taken_ns == 0;
        taken_ns as i64
    }

    /// A queue returns time that it does not need. Returns whether others wait for that.
    pub fn put_back(&mut self, ns: i64) -> bool {
        if self.quota.is_some() {
            self.runtime_ns += ns as u64;
        }
        self.has_slack() && !self.throttled.is_empty()
    }

    /// It has more than a slice.
    pub fn has_slack(&self) -> bool {
        self.quota.is_some() && self.runtime_ns > SLICE_NS
    }

    pub fn is_empty(&self) -> bool {
        self.quota.is_some() && self.runtime_ns == 0
    }

    /// `runtime_refresh_within`: the next period begins in less than this.
    pub fn refills_within(&self, now_ns: u64, ns: u64) -> bool {
        self.period_ns.is_some_and(|at_ns| at_ns < now_ns + ns)
    }

    /// `hrtimer_forward_now`: the period has begun; when the next one does.
    pub fn forward(&mut self, now_ns: u64) -> u64 {
        let period_ns = self.quota.map_or(1, |quota| quota.period_ns.max(1));
        let due_ns = self.period_ns.unwrap_or(now_ns);
        let passed = 1 + now_ns.saturating_sub(due_ns) / period_ns;
        let next_ns = due_ns + passed * period_ns;
        self.period_ns = Some(next_ns);
        next_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn pool(burst_ns: u64) -> Pool {
        let quota = Quota { quota_ns: 10 * MS, period_ns: 100 * MS, burst_ns };
        Pool::new(LockId(0), Some(quota))
    }

    #[test]
    fn time_that_is_left_is_lost_but_for_the_burst() {
        for (burst_ns, had_ns) in [(0, 10), (4 * MS, 14), (10 * MS, 18)] {
            let mut pool = pool(burst_ns);
            assert_eq!(pool.take(2 * MS as i64), 2 * MS as i64);
            pool.refill();
            assert_eq!(pool.take(i64::MAX), had_ns * MS as i64);
            assert!(pool.is_empty());
        }
    }

    #[test]
    fn periods_begin_on_time_after_a_late_timer() {
        let mut pool = pool(0);
        pool.period_ns = Some(100 * MS);
        assert_eq!(pool.forward(103 * MS), 200 * MS);
        assert_eq!(pool.forward(412 * MS), 500 * MS);
        assert!(pool.refills_within(495 * MS, 6 * MS) && !pool.refills_within(495 * MS, 5 * MS));
    }
}
