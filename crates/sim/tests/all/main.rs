// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the simulator: policies behave in it as they declare, and it behaves as a kernel would.

mod cas;
mod cgroups_of_linux;
mod common;
mod composed;
mod determinism;
mod domains;
mod ext;
mod faults;
mod flsched;
mod frequency;
mod fuzz;
mod housekeeping;
mod large;
mod limits;
mod memory;
mod objects;
mod piles;
mod precedence;
mod promises;
mod realtime;
mod related;
mod rr;
mod rtapp;
mod sched_idle;
mod start;
mod swarm;
mod tenants;
mod uneven;
mod upstream;
mod vtime;
mod waits;
