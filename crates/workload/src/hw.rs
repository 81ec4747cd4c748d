// SPDX-License-Identifier: GPL-2.0-only
//! The memory that a task touches: rt-app JSON's `"hw"`.
//!
//! ```json
//! "hw": {
//!     "stalled": 0.3,
//!     "pressure": 0.2,
//!     "memory": { "mpki": 22, "cpi": 0.8, "bytes": 1073741824 },
//!     "reach": 20,
//!     "own": { "pages": 4, "bytes": 8192 },
//!     "shared": { "pages": 30, "bytes": 65536 },
//!     "code": { "pages": 25, "bytes": 49152 },
//!     "kernel": { "pages": 1, "bytes": 4096 },
//!     "kernel_shared": { "pages": 4, "bytes": 8192 },
//!     "kernel_code": { "pages": 2, "bytes": 16384 }
//! }
//! ```
//!
//! Each set gives the bytes that are touched and the pages over which they are spread. A set that is left out is empty;
//! a set without `bytes` touches all of its pages, a set without `pages` fills them.
//!
//! - `stalled`: the part of its time on the reference CPU, from 0 to 1, in which it waits for memory. That part is no
//!   shorter on a faster core and no longer on a slower one. May stand alone; default 0. A program with different
//!   phases also has `"stalled"` among its events: it holds from there on.
//! - `memory`: its demand on memory, for machines with memory domains (`[fabric]`). May stand alone. All of its
//!   time is then taken to be alone on the machine, with its data on its own node. `mpki`: lines of the last-level
//!   cache that it misses in 1,000 instructions; a program with different phases also has `"mpki"` among its events: it
//!   holds from there on. `cpi`: cycles per instruction without misses. `bytes`: its data, which lies on the node where
//!   it ran first. `overlap`: the part of a miss's latency that it does not wait for, if not the machine's.
//! - `pressure`: how much it presses on the last-level cache while it runs, from 0 to 1. Stalls of other tasks under
//!   that cache take longer; the machine says by how much (`llc_contention`). May stand alone; default 0.
//! - `reach`: CPU time of its own work, in µs on the reference CPU with warm caches, in which the task goes through its
//!   sets once. Required if there are sets.
//! - `own`: data that no other task touches. `shared`: data that the threads of its process share if their `shared` has
//!   the same `"name"`; without a name, all threads of the process. `code`: its process's.
//! - `kernel`: the kernel's data about the task. `kernel_shared`, `kernel_code`: data and code that the system calls
//!   and switches of all tasks touch. Pages of the kernel are of the size in which it maps itself: 2 MB on x86.
//!
//! A simulated machine with `[memory]` in its file makes the task pay for the lines and entries that are gone; other
//! machines refuse such a workload. Tasks without `hw` pay the machine's flat costs.

use serde_json::{Map, Value, json};

use crate::json::{Error, Node, unknown};

/// Bytes of a page, to derive `bytes` from `pages` and the reverse.
const PAGE: u64 = 4096;

/// Bytes that are touched, and over how many pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Pages.
    pub pages: u32,
    /// Bytes in them.
    pub bytes: u64,
}

impl Touched {
    /// `bytes` bytes on as few pages as possible.
    pub fn dense(bytes: u64) -> Self {
        Touched { pages: bytes.div_ceil(PAGE) as u32, bytes }
    }
}

/// The kind of instructions of a task's work, as far as a core's clock depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vector {
    /// Scalar, 128-bit, or light 256-bit code.
    #[default]
    None,
    /// Heavy 256-bit code: `avx2`.
    Avx2,
    /// Heavy 512-bit code: `avx512`.
    Avx512,
}

impl Vector {
    const ALL: [(&'static str, Vector); 3] =
        [("none", Vector::None), ("avx2", Vector::Avx2), ("avx512", Vector::Avx512)];

    /// The license level that it needs.
    pub fn level(self) -> u8 {
        self as u8
    }

    /// Its name in a workload's file.
    pub fn name(self) -> &'static str {
        Vector::ALL[self as usize].0
    }

    pub(crate) fn parse(node: Node, key: &str) -> Result<Vector, Error> {
        let name = node.string(key)?;
        let found = Vector::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, vector)| *vector).ok_or_else(|| {
            node.error(format!("{key}: expected none, avx2 or avx512, found \"{name}\""))
        })
    }
}

/// Memory that one task touches in a round of its work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hw {
    /// Work in which it goes through its sets once, in ns.
    pub reach_ns: u64,
    /// Data that no other task touches.
    pub own: Touched,
    /// Data that other threads of its process touch too.
    pub shared: Touched,
    /// Which of the process's shared data: threads that name the same share it.
    pub shared_name: String,
    /// Code.
    pub code: Touched,
    /// The kernel's data that all tasks touch.
    pub kernel: Touched,
    /// The kernel's data that all tasks touch.
    pub kernel_shared: Touched,
    /// The kernel's code that all tasks run.
    pub kernel_code: Touched,
}

const KEYS: &str = "stalled, pressure, vector, memory, reach, own, shared, code, kernel, kernel_shared, kernel_code";

/// The demand of one task on memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Lines of the last-level cache that it misses in 1,000 instructions.
    pub mpki: f64,
    /// Cycles per instruction without misses.
    pub cpi: f64,
    /// Bytes of its data.
    pub bytes: u64,
    /// The part of a miss's latency that it does not wait for; None: the machine's.
    pub overlap: Option<f64>,
}

impl Demand {
    fn parse(node: Node) -> Result<Demand, Error> {
        let (mut mpki, mut cpi, mut bytes, mut overlap) = (None, 1.0, 0, None);
        for (key, value) in node.members("memory")? {
            match key.as_str() {
                "mpki" => mpki = Some(rate(value, "mpki", 0.0)?),
                "cpi" => cpi = rate(value, "cpi", 0.1)?,
                "bytes" => bytes = amount(value, "bytes", 1 << 40)?,
                "overlap" => overlap = Some(part(value, "overlap")?),
                _ => return Err(unknown(value, &key, "mpki, cpi, bytes, overlap")),
            }
        }
        let mpki = mpki.ok_or_else(|| node.error("memory: expected \"mpki\""))?;
        Ok(Demand { mpki, cpi, bytes, overlap })
    }

    pub(crate) fn json(&self) -> Value {
        let mut value = json!({"mpki": self.mpki, "cpi": self.cpi, "bytes": self.bytes});
        if let Some(overlap) = self.overlap {
            value["overlap"] = json!(overlap);
        }
        value
    }
}

/// A number from `least` to 1,000.
pub(crate) fn rate(node: Node, key: &str, least: f64) -> Result<f64, Error> {
    let value = node.number(key)?;
    match (least..=1000.0).contains(&value) {
        true => Ok(value),
        false => Err(node.error(format!("{key}: expected a number from {least} to 1000"))),
    }
}

/// The contents of `"hw"`.
#[derive(Default)]
pub(crate) struct Said {
    /// The memory it touches, if given.
    pub touches: Option<Hw>,
    /// The part of its time in which it is stalled.
    pub stalled: f64,
    /// How much it presses on the cache.
    pub pressure: f64,
    /// Its demand on memory, if given.
    pub memory: Option<Demand>,
    /// The kind of its instructions.
    pub vector: Vector,
}

impl Hw {
    pub(crate) fn parse(node: Node) -> Result<Said, Error> {
        let (mut hw, mut said, mut alone) = (Hw::default(), Said::default(), false);
        let mut reach = None;
        for (key, value) in node.members("hw")? {
            let set = match key.as_str() {
                "stalled" => {
                    (said.stalled, alone) = (part(value, "stalled")?, true);
                    continue;
                }
                "pressure" => {
                    (said.pressure, alone) = (part(value, "pressure")?, true);
                    continue;
                }
                "memory" => {
                    (said.memory, alone) = (Some(Demand::parse(value)?), true);
                    continue;
                }
                "vector" => {
                    (said.vector, alone) = (Vector::parse(value, "vector")?, true);
                    continue;
                }
                "reach" => {
                    reach = Some(value.micros("reach")?);
                    continue;
                }
                "shared" => {
                    (hw.shared, hw.shared_name) = touched(value, &key, true)?;
                    continue;
                }
                "own" => &mut hw.own,
                "code" => &mut hw.code,
                "kernel" => &mut hw.kernel,
                "kernel_shared" => &mut hw.kernel_shared,
                "kernel_code" => &mut hw.kernel_code,
                _ => return Err(unknown(value, &key, KEYS)),
            };
            *set = touched(value, &key, false)?.0;
        }
        if reach.is_none() && hw == Hw::default() && alone {
            return Ok(said);
        }
        hw.reach_ns = reach.filter(|ns| *ns > 0).ok_or_else(|| {
            node.error("hw: expected a \"reach\" in µs, more than 0: the work in one round")
        })?;
        Ok(Said { touches: Some(hw), ..said })
    }

    pub(crate) fn json(&self) -> Map<String, Value> {
        let mut out = Map::new();
        out.insert("reach".into(), json!(self.reach_ns as f64 / 1e3));
        let sets = [
            ("own", self.own),
            ("shared", self.shared),
            ("code", self.code),
            ("kernel", self.kernel),
            ("kernel_shared", self.kernel_shared),
            ("kernel_code", self.kernel_code),
        ];
        for (key, set) in sets.into_iter().filter(|(_, set)| *set != Touched::default()) {
            let mut value = json!({"pages": set.pages, "bytes": set.bytes});
            if key == "shared" && !self.shared_name.is_empty() {
                value["name"] = json!(self.shared_name);
            }
            out.insert(key.into(), value);
        }
        out
    }
}

/// A number from 0 to 1.
pub(crate) fn part(node: Node, key: &str) -> Result<f64, Error> {
    let value = node.number(key)?;
    match (0.0..=1.0).contains(&value) {
        true => Ok(value),
        false => Err(node.error(format!("{key}: expected a part, from 0 to 1"))),
    }
}

fn touched(node: Node, what: &str, named: bool) -> Result<(Touched, String), Error> {
    let (mut pages, mut bytes, mut name) = (None, None, String::new());
    for (key, value) in node.members(what)? {
        match key.as_str() {
            "pages" => pages = Some(amount(value, "pages", 1 << 28)?),
            "bytes" => bytes = Some(amount(value, "bytes", 1 << 40)?),
            "name" if named => name = value.string("name")?,
            _ => {
                return Err(unknown(
                    value,
                    &key,
                    if named { "pages, bytes, name" } else { "pages, bytes" },
                ));
            }
        }
    }
    let set = match (pages, bytes) {
        (Some(pages), Some(bytes)) => Touched { pages: pages as u32, bytes },
        (Some(pages), None) => Touched { pages: pages as u32, bytes: pages * PAGE },
        (None, Some(bytes)) => Touched::dense(bytes),
        (None, None) => return Err(node.error(format!("{what}: expected \"pages\" or \"bytes\""))),
    };
    Ok((set, name))
}

fn amount(node: Node, what: &str, most: u64) -> Result<u64, Error> {
    let n = node.integer(what)?;
    u64::try_from(n)
        .ok()
        .filter(|n| *n <= most)
        .ok_or_else(|| node.error(format!("{what}: expected 0 to {most}, found {n}")))
}
