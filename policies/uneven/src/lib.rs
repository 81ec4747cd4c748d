// SPDX-License-Identifier: GPL-2.0-only
//! Fairness on uneven cores.

mod policies;

pub use policies::MAX_FAIR;
