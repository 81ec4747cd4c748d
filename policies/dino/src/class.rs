// SPDX-License-Identifier: GPL-2.0-only
//! Classes: coarsely, how much a thread misses the last-level cache.

/// How a thread affects those beside it (slide 18: C1, C2, C3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// C1: it rarely misses.
    Turtle,
    /// C2: it misses, and suffers from others that do.
    Devil,
    /// C3: it misses more than anything else.
    SuperDevil,
}

impl Class {
    /// All classes, the one with most misses first, in the order of a layout.
    pub const ALL: [Class; 3] = [Class::SuperDevil, Class::Devil, Class::Turtle];
}

/// The bounds between classes, in misses of the last-level cache per 1,000 instructions. A thread
/// at a bound is of the class below it (slide 18: C1 <= 10 < C2 <= 100 < C3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cuts {
    /// Above this a thread is a devil.
    pub devil: f64,
    /// Above this it is a super-devil.
    pub super_devil: f64,
}

impl Cuts {
    /// The values of the knob `cuts=`.
    pub const PRESETS: [(&'static str, Cuts); 3] = [
        // The paper's classes as others report them; the default.
        ("2/100", Cuts { devil: 2.0, super_devil: 100.0 }),
        // Slide 18, which gives no unit: assumed to be the same.
        ("10/100", Cuts { devil: 10.0, super_devil: 100.0 }),
        // The authors' released scheduler: 15 and 500 in 10,000 instructions.
        ("1.5/50", Cuts { devil: 1.5, super_devil: 50.0 }),
    ];

    /// The class of a thread of this rate.
    pub fn class(&self, mpki: f64) -> Class {
        match mpki {
            rate if rate > self.super_devil => Class::SuperDevil,
            rate if rate > self.devil => Class::Devil,
            _ => Class::Turtle,
        }
    }
}

impl Default for Cuts {
    fn default() -> Self {
        Cuts::PRESETS[0].1
    }
}
