// SPDX-License-Identifier: GPL-2.0-only
//! The command line from a user's view: its output, and its refusals.

#[test]
fn sessions() {
    trycmd::TestCases::new().case("tests/cli/*.trycmd");
}
