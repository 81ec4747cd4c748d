// SPDX-License-Identifier: GPL-2.0-only
//! Contents as short texts: what is the same has the same digest.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The first half of a SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 16]);

impl Digest {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Digest::half(Sha256::digest(bytes).as_slice())
    }

    /// Of a file's contents.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let (mut all, mut some) = (Sha256::new(), vec![0; 1 << 20]);
        loop {
            match file.read(&mut some)? {
                0 => return Ok(Digest::half(all.finalize().as_slice())),
                read => all.update(&some[..read]),
            }
        }
    }

    /// Of the program that runs. Results of another build are other results: policies, machines and workloads that come
    /// along are parts of the program.
    ///
    /// # Errors
    /// The program's file cannot be read.
    pub fn of_this_program() -> io::Result<Self> {
        Digest::of_file("/proc/self/exe".as_ref())
    }

    fn half(all: &[u8]) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&all[..16]);
        Digest(half)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let byte = |at: usize| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok();
        let mut bytes = [0; 16];
        for (at, to) in bytes.iter_mut().enumerate() {
            *to = byte(at).filter(|_| text.len() == 32).ok_or("it is no digest")?;
        }
        Ok(Digest(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_first_half_of_the_sha256() {
        let text: String = Digest::of(b"abc").into();
        assert_eq!(text, "ba7816bf8f01cfea414140de5dae2223");
        assert_eq!(Digest::try_from(text), Ok(Digest::of(b"abc")));
        assert!(Digest::try_from("ba78".to_string()).is_err());
        assert!(Digest::try_from("ä".repeat(16)).is_err());
    }

    #[test]
    fn a_file_has_the_digest_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        let bytes = vec![7; (1 << 20) + 1];
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(Digest::of_file(&path).unwrap(), Digest::of(&bytes));
    }
}
