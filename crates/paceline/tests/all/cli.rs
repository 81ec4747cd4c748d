// SPDX-License-Identifier: GPL-2.0-only
//! The command line as a person meets it: what it prints, and how it refuses.

#[test]
fn sessions() {
    trycmd::TestCases::new().case("tests/cli/*.trycmd");
}
