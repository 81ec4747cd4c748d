// SPDX-License-Identifier: GPL-2.0-only
//! How much of some CPUs other processes use, while this process and its children use the rest.

use std::fs;

use anyhow::Context;

const STAT: &str = "/proc/stat";

/// The use of CPUs at one moment, to compare with a later one.
#[derive(Clone, Debug, PartialEq)]
pub struct Others {
    cpus: Vec<usize>,
    used_s: f64,
    all_s: f64,
    own_s: f64,
}

impl Others {
    /// Reads the use of these CPUs now. This process and its children have to run on no others.
    pub fn of(cpus: &[usize]) -> anyhow::Result<Self> {
        let text = fs::read_to_string(STAT).context(STAT)?;
        // SAFETY: the call takes a value alone
        let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        let parsed = Others::parse(&text, cpus, ticks.max(1) as f64, own_s());
        parsed.with_context(|| format!("{STAT} is not as expected"))
    }

    fn parse(stat: &str, cpus: &[usize], ticks_per_s: f64, own_s: f64) -> Option<Self> {
        let (mut used, mut all) = (0, 0);
        for cpu in cpus {
            let name = format!("cpu{cpu} ");
            let line = stat.lines().find_map(|line| line.strip_prefix(&name))?;
            let numbers = line.split_whitespace().map(|number| number.parse().ok());
            let times = numbers.collect::<Option<Vec<u64>>>()?;
            // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already
            let here: u64 = times.iter().take(8).sum();
            all += here;
            used += here - times.get(3)? - times.get(4)?;
        }
        let seconds = |ticks: u64| ticks as f64 / ticks_per_s;
        Some(Others { cpus: cpus.to_vec(), used_s: seconds(used), all_s: seconds(all), own_s })
    }

    /// The part of these CPUs' time that other processes have used since, time stolen by a hypervisor included.
    pub fn until_now(&self) -> anyhow::Result<f64> {
        Ok(self.until(&Others::of(&self.cpus)?))
    }

    fn until(&self, now: &Others) -> f64 {
        let used_s = now.used_s - self.used_s - (now.own_s - self.own_s);
        (used_s / (now.all_s - self.all_s).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    }
}

/// CPU time of this process and of its children that have ended.
fn own_s() -> f64 {
    let of = |who| {
        // SAFETY: all zeroes is a valid rusage, and the call writes it whole
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(who, &raw mut usage);
            usage
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(cpu1: &str, own_s: f64) -> Others {
        let stat =
            format!("cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 900 0 0 0 0 0 0 0 0 0\ncpu1 {cpu1}\nintr 5\n");
        Others::parse(&stat, &[1], 100.0, own_s).unwrap()
    }

    #[test]
    fn others_have_what_this_process_has_not_used() {
        let before = look("10 0 0 90 0 0 0 0 0 0", 1.0);
        // 200 ticks more: 120 used, 0.7 s of them by the test itself; stolen time counts as others'.
        let after = look("70 0 20 160 10 0 0 40 0 0", 1.7);
        assert!((before.until(&after) - 0.25).abs() < 1e-9, "{}", before.until(&after));
        let alone = look("80 0 0 120 0 0 0 0 0 0", 1.8);
        assert_eq!(before.until(&alone), 0.0, "ticks are coarse");
    }

    #[test]
    fn cpus_that_are_not_there_are_an_error() {
        assert!(Others::parse("cpu0 1 2 3 4 5 6 7 8\n", &[1], 100.0, 0.0).is_none());
        assert!(Others::parse("cpu1 1 2 three 4 5\n", &[1], 100.0, 0.0).is_none());
    }

    /// This process's own use does not count as others'.
    #[test]
    fn own_work_is_counted_as_such() {
        let before = own_s();
        let begun = std::time::Instant::now();
        while own_s() - before < 0.05 {
            assert!(begun.elapsed().as_secs() < 600, "it gets no CPU time");
        }
    }
}
