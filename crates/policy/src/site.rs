// SPDX-License-Identifier: GPL-2.0-only
//! What a policy may ask of a machine before it is loaded there, and its answer.

/// A machine, as far as a policy may ask whether it fits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// CPUs online.
    pub cpus: usize,
    /// Kinds of core; 1 if all are alike or the kernel does not say.
    pub kinds: usize,
    /// Memory domains: memory nodes with CPUs or last-level caches, whichever are more.
    pub domains: usize,
    /// Misses of the last-level cache are counted.
    pub counts_misses: bool,
    /// The processor counts cycles at each license level.
    pub counts_licenses: bool,
    /// The TLB distinguishes entries of several address spaces; None: not known.
    pub tlb_tags: Option<bool>,
}

/// Whether a policy fits a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// None: it depends on more than the machine, or there is nothing to gain.
    pub fits: Option<bool>,
    /// The reason, in a line.
    pub why: String,
}

impl Fit {
    /// It fits.
    pub fn yes(why: impl Into<String>) -> Fit {
        Fit { fits: Some(true), why: why.into() }
    }

    /// The machine alone does not say so.
    pub fn open(why: impl Into<String>) -> Fit {
        Fit { fits: None, why: why.into() }
    }
}
