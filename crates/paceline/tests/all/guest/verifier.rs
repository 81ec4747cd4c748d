// SPDX-License-Identifier: GPL-2.0-only
//! How much work each program of each policy is for the kernel's verifier, on the oldest and the newest kernel.

use crate::guest::{in_guest, in_guest_with, oldest};

/// Policies of an object of their own.
const POLICIES: &str = "flsched cas o1 min-fair dino avx-fair rr fifo";

/// The most instructions that the verifier may walk in a program, by policy and program: a fifth more than it walked
/// on either kernel when this was written. Callbacks that are not listed may take up to 1,000.
const BUDGETS: &str = include_str!("verifier.txt");

/// Fails with each program above its budget, in the form of BUDGETS.
fn script() -> String {
    format!("BUDGETS='{BUDGETS}'\nPOLICIES='{POLICIES}'\n{}", include_str!("scripts/budgets.sh"))
}

#[test]
fn programs_stay_within_their_verifier_budgets() {
    in_guest(&script());
}

#[test]
fn programs_stay_within_their_verifier_budgets_on_the_oldest_kernel() {
    in_guest_with(oldest(2), &script());
}
