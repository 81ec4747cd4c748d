// SPDX-License-Identifier: GPL-2.0-only
//! Which requests of users and administrators to the kernel a policy honours.

use serde::Serialize;

/// How far a request is honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    /// As the kernel's own class honours it.
    Yes,
    /// In part, or with some knobs.
    Partly,
    /// Not at all.
    No,
}

impl Extent {
    /// The extent in one word.
    pub fn word(self) -> &'static str {
        match self {
            Extent::Yes => "yes",
            Extent::Partly => "partly",
            Extent::No => "no",
        }
    }
}

/// How a policy treats one kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// How far it is honoured.
    pub kept: Extent,
    /// How it is honoured, in a phrase.
    pub how: &'static str,
}

impl Kept {
    /// It is honoured.
    pub const fn yes(how: &'static str) -> Self {
        Kept { kept: Extent::Yes, how }
    }

    /// It is honoured in part.
    pub const fn partly(how: &'static str) -> Self {
        Kept { kept: Extent::Partly, how }
    }

    /// It is not honoured.
    pub const fn no(how: &'static str) -> Self {
        Kept { kept: Extent::No, how }
    }
}

/// The requests that a policy honours. `paceline list POLICY` shows them, and its README has the same lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Keeps {
    /// Nice values.
    pub nice: Kept,
    /// Tasks of the policy SCHED_IDLE.
    pub sched_idle: Kept,
    /// Tasks of the policy SCHED_BATCH.
    pub sched_batch: Kept,
    /// `cpu.weight` of cgroups. The kernel never puts it into a task's own weight.
    pub cpu_weight: Kept,
    /// `cpu.max` of cgroups.
    pub cpu_max: Kept,
    /// Affinity: the CPUs that tasks are pinned to.
    pub affinity: Kept,
}

impl Keeps {
    /// Only the kernel's own affinity is honoured. A policy names the rest beside it.
    pub const NOTHING: Keeps = Keeps {
        nice: Kept::no("all tasks have the same turns"),
        sched_idle: Kept::no("SCHED_IDLE tasks have the same turns as others"),
        sched_batch: Kept::yes("no wakeup preempts"),
        cpu_weight: Kept::no("cgroups' weights do nothing"),
        cpu_max: Kept::no("cgroups' limits do nothing"),
        affinity: Kept::yes("no task runs outside its CPUs"),
    };

    /// What a policy by virtual time keeps (`policies/common/fair.h`).
    pub const BY_VIRTUAL_TIME: Keeps = Keeps {
        nice: Kept::yes(
            "CPU time by weight; a task that has waited for 5 s has a turn before others",
        ),
        sched_idle: Kept::yes(
            "runs where no other task wants the CPU, and else for a turn about every 2 s",
        ),
        sched_batch: Kept::yes("no wakeup preempts, but of SCHED_IDLE tasks"),
        cpu_max: Kept::yes("tasks wait for the next period, within a tick for each CPU"),
        ..Keeps::NOTHING
    };

    /// Each with its name for users.
    pub fn rows(&self) -> [(&'static str, Kept); 6] {
        [
            ("nice", self.nice),
            ("SCHED_IDLE", self.sched_idle),
            ("SCHED_BATCH", self.sched_batch),
            ("cpu.weight", self.cpu_weight),
            ("cpu.max", self.cpu_max),
            ("affinity", self.affinity),
        ]
    }
}
