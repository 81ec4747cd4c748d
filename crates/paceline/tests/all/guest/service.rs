// SPDX-License-Identifier: GPL-2.0-only
//! `serve` and its clients, on a real kernel.

use crate::guest::in_guest;

#[test]
fn the_service_follows_its_ladder_and_does_what_it_is_asked() {
    in_guest(include_str!("scripts/service.sh"));
}
