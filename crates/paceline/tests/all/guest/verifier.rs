// SPDX-License-Identifier: GPL-2.0-only
//! How much work each program of each policy is for the kernel's verifier, on the oldest and the newest kernel.

use policies::{BUILDS, FOLDERS};

use crate::guest::{in_guest, in_guest_with, names, oldest};

/// Fails with each program above its budget, in the form of the budgets. These are a fifth more than the verifier
/// walked on either kernel when they were written. Callbacks that are not listed may take up to 1,000.
fn script() -> String {
    let budgets: String = FOLDERS.iter().map(|folder| folder.budgets).collect();
    let (budgets, policies) = (budgets.trim_end(), names(BUILDS.iter()));
    format!("BUDGETS='{budgets}'\nPOLICIES='{policies}'\n{}", include_str!("scripts/budgets.sh"))
}

#[test]
fn programs_stay_within_their_verifier_budgets() {
    in_guest(&script());
}

#[test]
fn programs_stay_within_their_verifier_budgets_on_the_oldest_kernel() {
    in_guest_with(oldest(2), &script());
}
