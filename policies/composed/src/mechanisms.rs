// SPDX-License-Identifier: GPL-2.0-only
//! Which mechanisms work, and why: a pure function of the machine and of what a user wants.

/// What a user wants of a mechanism: its knob's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// On where the machine has what it is for.
    Auto,
    /// On.
    On,
    /// Off.
    Off,
}

impl Wanted {
    /// Their names, by the knob's number.
    pub const NAMES: &[&str] = &["auto", "on", "off"];

    /// The value of a knob.
    pub fn of(number: u64) -> Self {
        [Wanted::Auto, Wanted::On, Wanted::Off][number.min(2) as usize]
    }
}

/// A mechanism on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mechanism {
    /// Its knob.
    pub name: &'static str,
    /// Its bit in the task table's `working`: `WORKS_...` of knobs.h.
    pub bit: u64,
    /// Whether it works.
    pub on: bool,
    /// The reason, in a few words.
    pub why: String,
}

/// `place` and `share` on a machine with so many memory domains and kinds of cores.
pub fn mechanisms(domains: usize, kinds: usize, wanted: [Wanted; 2]) -> [Mechanism; 2] {
    let [of_place, of_share] = wanted;
    [
        decided("place", 1, of_place, domains, ["memory domain", "memory domains"]),
        decided("share", 2, of_share, kinds, ["kind of core", "kinds of core"]),
    ]
}

/// A mechanism that needs several of something.
fn decided(
    name: &'static str,
    bit: u64,
    wanted: Wanted,
    count: usize,
    [one, many]: [&str; 2],
) -> Mechanism {
    let (on, why) = match (wanted, count) {
        (Wanted::Off, _) => (false, "the knob says so".to_string()),
        (_, 0 | 1) => (false, format!("one {one}")),
        _ => (true, format!("{count} {many}")),
    };
    Mechanism { name, bit, on, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(domains: usize, kinds: usize, wanted: [Wanted; 2]) -> [bool; 2] {
        mechanisms(domains, kinds, wanted).map(|one| one.on)
    }

    #[test]
    fn a_mechanism_works_where_there_is_something_to_choose() {
        assert_eq!(on(1, 1, [Wanted::Auto; 2]), [false, false]);
        assert_eq!(on(4, 1, [Wanted::Auto; 2]), [true, false]);
        assert_eq!(on(1, 2, [Wanted::Auto; 2]), [false, true]);
        assert_eq!(on(2, 3, [Wanted::Auto; 2]), [true, true]);
    }

    #[test]
    fn a_knob_forbids_it_and_cannot_force_what_has_no_choice() {
        assert_eq!(on(4, 2, [Wanted::Off, Wanted::Auto]), [false, true]);
        assert_eq!(on(4, 2, [Wanted::Auto, Wanted::Off]), [true, false]);
        assert_eq!(on(1, 1, [Wanted::On, Wanted::On]), [false, false]);
        assert_eq!(mechanisms(4, 1, [Wanted::Off; 2])[0].why, "the knob says so");
    }
}
