// SPDX-License-Identifier: GPL-2.0-only
//! A policy's two builds and the variables of its C, as `policy-build` writes them for [`built!`](crate::built).

use std::io::Read;

use flate2::read::DeflateDecoder;

/// Both builds of a policy's C.
#[derive(Clone, Copy)]
pub struct Build {
    /// The C name of its ops table without `_ops`.
    pub ops: &'static str,
    /// Its source, as a path from the root of the workspace.
    pub source: &'static str,
    /// The BPF object, for a kernel.
    pub bpf: Object,
    /// The shared object, for the simulator.
    pub native: Object,
}

/// A compiled object.
#[derive(Clone, Copy)]
pub enum Object {
    /// As it is.
    Plain(&'static [u8]),
    /// Deflated, until it is first asked for: most of it is type information. See [`unpacked`].
    Packed(fn() -> &'static [u8]),
}

impl Object {
    /// The object.
    pub fn bytes(&self) -> &'static [u8] {
        match self {
            Object::Plain(bytes) => bytes,
            Object::Packed(unpack) => unpack(),
        }
    }
}

/// The bytes that `policy-build` has deflated. Panics if they are damaged: they are part of the program.
pub fn unpacked(deflated: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    DeflateDecoder::new(deflated).read_to_end(&mut bytes).expect("the program is whole");
    bytes
}

impl Build {
    /// No build: for a policy that no ground loads.
    pub const NONE: Build =
        Build { ops: "", source: "", bpf: Object::Plain(&[]), native: Object::Plain(&[]) };
}

/// The variable behind a knob, with the knob's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its `CONFIG u64` in the policy's C. None: only the control plane reads it.
    pub symbol: Option<&'static str>,
    /// Its value if the user does not set the knob.
    pub default: u64,
    /// It may change while the policy is in charge.
    pub tunable: bool,
}

impl Variable {
    /// A variable of the control plane alone.
    pub const fn of_control_plane(default: u64) -> Variable {
        Variable { symbol: None, default, tunable: false }
    }
}

/// Names the builds that `policy_build::policy` made: `built!(mine)` is a module `mine`.
///
/// `mine::BUILD` is the policy's [`Build`]. For each `CONFIG u64 knob_slice_ns = 5000000;` in its C there is a
/// [`Variable`] `mine::SLICE_NS` with that default. A variable that no knob uses is an error.
#[macro_export]
macro_rules! built {
    ($name:ident) => {
        /// The builds and the variables of the policy's C.
        #[deny(dead_code)]
        mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".rs"));
        }
    };
}
