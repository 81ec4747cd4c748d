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

/// What a machine has for mechanisms to work on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Has {
    /// Memory domains.
    pub domains: usize,
    /// Kinds of cores.
    pub kinds: usize,
    /// License levels of cores with known clocks; 1: clocks are known, and depend on a limit of power; 0: not known.
    pub levels: usize,
    /// Whether its TLB loses all entries with the address space.
    pub untagged: bool,
}

/// The mechanisms' knobs.
pub const KNOBS: [&str; 4] = ["place", "share", "charge", "order"];

/// The mechanisms on a machine, in the order of [`KNOBS`].
pub fn mechanisms(has: Has, wanted: [Wanted; 4]) -> [Mechanism; 4] {
    let found = [place(has), share(has), charge(has), order(has)];
    std::array::from_fn(|at| {
        let (of, why) = found[at].clone();
        let (on, why) = match (wanted[at], of) {
            (Wanted::Off, _) => (false, "the knob says so".to_string()),
            (Wanted::On, Use::Little) => (true, format!("the knob says so; {why}")),
            _ => (of == Use::Much, why),
        };
        Mechanism { name: KNOBS[at], bit: 1 << at, on, why }
    })
}

/// The use of a mechanism on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// There is nothing to choose, or nothing to go by.
    None,
    /// It works, and costs more than it gains.
    Little,
    /// It gains something with some programs.
    Much,
}

fn place(has: Has) -> (Use, String) {
    several(has.domains, "memory domain", "memory domains")
}

fn share(has: Has) -> (Use, String) {
    several(has.kinds, "kind of core", "kinds of core")
}

fn several(count: usize, one: &str, many: &str) -> (Use, String) {
    match count {
        0 | 1 => (Use::None, format!("one {one}")),
        _ => (Use::Much, format!("{count} {many}")),
    }
}

fn charge(has: Has) -> (Use, String) {
    match has.levels {
        0 => (Use::None, "clocks are not known".to_string()),
        1 => (Use::Much, "cores share a limit of power".to_string()),
        levels => (Use::Much, format!("{levels} license levels")),
    }
}

fn order(has: Has) -> (Use, String) {
    match (has.untagged, has.levels) {
        (true, _) => (Use::Much, "a change of address space empties the TLB".to_string()),
        (_, 2..) => (Use::Much, "threads of a program need one license level".to_string()),
        _ => (Use::Little, "a change of address space costs little".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::Wanted::{Auto, Off, On};
    use super::*;

    fn on(has: Has, wanted: [Wanted; 4]) -> [bool; 4] {
        mechanisms(has, wanted).map(|one| one.on)
    }

    const ALL: Has = Has { domains: 4, kinds: 2, levels: 3, untagged: true };
    const NONE: Has = Has { domains: 1, kinds: 1, levels: 0, untagged: false };

    #[test]
    fn a_mechanism_works_where_it_is_of_use() {
        for (has, expected) in [
            (NONE, [false, false, false, false]),
            (Has { domains: 4, ..NONE }, [true, false, false, false]),
            (Has { kinds: 2, ..NONE }, [false, true, false, false]),
            (Has { levels: 1, ..NONE }, [false, false, true, false]),
            (Has { levels: 3, ..NONE }, [false, false, true, true]),
            (Has { untagged: true, ..NONE }, [false, false, false, true]),
            (ALL, [true; 4]),
        ] {
            assert_eq!(on(has, [Auto; 4]), expected, "{has:?}");
        }
    }

    #[test]
    fn a_knob_forbids_it_and_forces_only_what_can_work() {
        assert_eq!(on(ALL, [Off, Auto, Auto, Off]), [false, true, true, false]);
        assert_eq!(on(ALL, [Auto, Off, On, Auto]), [true, false, true, true]);
        assert_eq!(on(NONE, [On; 4]), [false, false, false, true]);
        assert_eq!(mechanisms(ALL, [Off; 4])[2].why, "the knob says so");
    }

    #[test]
    fn the_data_plane_has_the_same_numbers() {
        let knobs = include_str!("bpf/knobs.h");
        for one in mechanisms(ALL, [Auto; 4]) {
            let line = format!("WORKS_{} = {},", one.name.to_uppercase(), one.bit);
            assert!(knobs.contains(&line), "{line}");
        }
    }
}
