// SPDX-License-Identifier: GPL-2.0-only
//! What a policy keeps of what users and administrators ask the kernel for.

use serde::Serialize;

/// How far something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    /// As the kernel's own class keeps it.
    Yes,
    /// In part, or with some knobs.
    Partly,
    /// It does nothing.
    No,
}

impl Extent {
    /// One word.
    pub fn word(self) -> &'static str {
        match self {
            Extent::Yes => "yes",
            Extent::Partly => "partly",
            Extent::No => "no",
        }
    }
}

/// What a policy does with one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// How far.
    pub kept: Extent,
    /// How, in a phrase.
    pub how: &'static str,
}

impl Kept {
    /// It is kept.
    pub const fn yes(how: &'static str) -> Self {
        Kept { kept: Extent::Yes, how }
    }

    /// It is kept in part.
    pub const fn partly(how: &'static str) -> Self {
        Kept { kept: Extent::Partly, how }
    }

    /// It is not.
    pub const fn no(how: &'static str) -> Self {
        Kept { kept: Extent::No, how }
    }
}

/// What a policy keeps. `paceline list POLICY` shows it, and its README has the same lines.
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
    /// CPUs that tasks are bound to.
    pub affinity: Kept,
}

impl Keeps {
    /// Nothing but the kernel's own affinity: to name the rest beside it.
    pub const NOTHING: Keeps = Keeps {
        nice: Kept::no("all tasks have the same turns"),
        sched_idle: Kept::no("SCHED_IDLE tasks have the same turns as others"),
        sched_batch: Kept::yes("no wakeup preempts"),
        cpu_weight: Kept::no("cgroups' weights do nothing"),
        cpu_max: Kept::no("cgroups' limits do nothing"),
        affinity: Kept::yes("no task runs outside its CPUs"),
    };

    /// Each with the name that users know it by.
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
