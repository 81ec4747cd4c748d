// SPDX-License-Identifier: GPL-2.0-only
//! `serve` and its clients, on a real kernel.

use crate::guest::{in_guest, in_guest_of};

#[test]
fn the_service_follows_its_ladder_and_does_what_it_is_asked() {
    in_guest(include_str!("scripts/service.sh"));
}

#[test]
#[ignore = "night: it takes ten minutes; single switches are in the test of the service"]
fn switches_under_load_hold_up_no_task() {
    in_guest_of(8, &format!("FAILURES=20\n{}", include_str!("scripts/switches.sh")));
}
