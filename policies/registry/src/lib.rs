// SPDX-License-Identifier: GPL-2.0-only
//! Every policy that ships, as one list.
//!
//! The command, the book and the tests read it. A new policy is its own folder, and a line in [`FOLDERS`].

use std::sync::LazyLock;

use policy::Policy;

/// Policies by folder, in the order in which `paceline list` shows them.
static FOLDERS: &[&[&Policy]] =
    &[flsched::ALL, cas::ALL, uneven::ALL, dino::ALL, avx::ALL, baseline::ALL];

/// The same in a row.
pub static POLICIES: LazyLock<Vec<&'static Policy>> = LazyLock::new(|| FOLDERS.concat());
