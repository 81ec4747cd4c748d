// SPDX-License-Identifier: GPL-2.0-only
//! Figures and charts that were measured, kept by what they follow from. Those of the simulator follow from the program
//! alone, so they can be measured anywhere, and once.

use std::path::Path;

use serde::{Deserialize, Serialize};
use sweep::{Digest, Entry, Store};
use terminal::Failure;

use crate::kind::Sample;
use crate::paper::Paper;
use crate::views::Chart;

/// A figure or a chart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Name {
    /// The paper's name.
    pub paper: String,
    /// Its own.
    pub name: String,
    /// With fewer boots, seeds and sizes.
    pub quick: bool,
}

impl Name {
    /// Of a paper's figure or chart.
    pub fn new(paper: &Paper, name: &str, quick: bool) -> Self {
        Name { paper: paper.name.clone(), name: name.to_string(), quick }
    }
}

/// What was measured of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Taken {
    /// The values of a figure.
    Figure(Sample),
    /// A chart.
    Chart(Chart),
}

impl Taken {
    /// Whether a file can hold it: JSON has no infinite numbers.
    pub fn is_plain(&self) -> bool {
        match self {
            Taken::Figure(of) => of.values.iter().chain(&of.ideal).all(|value| value.is_finite()),
            Taken::Chart(_) => true,
        }
    }
}

/// What a program has measured already.
#[derive(Debug)]
pub struct Kept {
    store: Store<Name, Taken>,
    program: Digest,
}

impl Entry for Taken {
    const WHAT: &str = "figures of papers";
}

impl Kept {
    /// Opens the file of figures of this program. Another build's figures are other figures.
    ///
    /// # Errors
    /// The file is in use, cannot be written, or has something else in it.
    pub fn new(file: &Path, program: Digest) -> Result<Self, Failure> {
        Ok(Kept { store: Store::open(file)?, program })
    }

    fn key(&self, of: &Name) -> Digest {
        Digest::of(&serde_json::to_vec(&(self.program, of)).expect("it is plain data"))
    }

    /// Whether it has been measured.
    pub fn has(&self, of: &Name) -> bool {
        self.store.has(self.key(of))
    }

    /// What was measured, if it was.
    ///
    /// # Errors
    /// The file has changed meanwhile.
    pub fn get(&self, of: &Name) -> Result<Option<Taken>, Failure> {
        self.store.get(self.key(of))
    }

    /// Keeps what was measured, unless it is known.
    ///
    /// # Errors
    /// The disk is full.
    pub fn put(&mut self, of: &Name, taken: Taken) -> Result<(), Failure> {
        let key = self.key(of);
        match !self.store.has(key) && taken.is_plain() {
            true => self.store.put(key, of, taken),
            false => Ok(()),
        }
    }

    /// Lets other processes write to the file.
    pub fn release(&self) {
        self.store.release();
    }

    /// A note about lines of the file that cannot be used.
    pub fn note(&self) -> Option<String> {
        self.store.note()
    }
}
