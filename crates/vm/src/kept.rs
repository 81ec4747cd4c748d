// SPDX-License-Identifier: GPL-2.0-only
//! What boots came to, kept in a folder: who is stopped goes on from there.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use trace::Outcome;

use crate::qemu::{self, Files, Threads};
use crate::run::Traced;
use crate::{BadInput, Kernel, Request};

/// A folder, and what its files must have been made of.
pub(crate) struct Kept<'a> {
    folder: &'a Path,
    made_of: u64,
}

/// A run; the bytes of its recording follow after the line that holds this.
#[derive(Serialize, Deserialize)]
struct Run {
    outcome: Outcome,
    recorded_bytes: usize,
}

impl<'a> Kept<'a> {
    /// In this folder, which is made where it is not there, for boots of this very request, emulator, kernel and image:
    /// all that a boot's outcomes come from.
    pub(crate) fn new(
        folder: &'a Path,
        request: &Request,
        emulator: &Path,
        kernel: &Kernel,
        image: &Path,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(folder).map_err(|error| bad(folder, &error))?;
        let mut hash = Hashed(DefaultHasher::new());
        for file in [emulator, &kernel.image, image] {
            let mut file = File::open(file).with_context(|| file.display().to_string())?;
            io::copy(&mut file, &mut hash)?;
        }
        // the same names in every session
        let [kernel, messages, records, console] = ["k", "m", "r", "c"].map(Path::new);
        let files = Files { kernel, image, messages, records, console };
        for word in qemu::arguments(request, &files, 0, Threads::OneEach) {
            if word != image.as_os_str() {
                hash.write_all(word.as_encoded_bytes())?;
            }
        }
        Ok(Kept { folder, made_of: hash.0.finish() })
    }

    fn file(&self, boot: usize) -> PathBuf {
        self.folder.join(format!("{:016x}-{}.boot", self.made_of, boot + 1))
    }

    /// What a boot came to; None: it is not there.
    pub(crate) fn get(&self, boot: usize) -> anyhow::Result<Option<Vec<Traced>>> {
        let path = self.file(boot);
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| bad(&path, &error))?,
        };
        let runs = read(BufReader::new(file)).map_err(|error| {
            BadInput(format!("{} is not what was kept there: {error}; remove it", path.display()))
        })?;
        Ok(Some(runs))
    }

    /// Keeps what a boot came to: all of it or nothing.
    pub(crate) fn put(&self, boot: usize, runs: &[Traced]) -> anyhow::Result<()> {
        let path = self.file(boot);
        let write = || {
            let mut file = BufWriter::new(NamedTempFile::new_in(self.folder)?);
            let run = |Traced { outcome, .. }: &Traced| Run {
                recorded_bytes: outcome.recording.len(),
                outcome: outcome.clone(),
            };
            serde_json::to_writer(&mut file, &runs.iter().map(run).collect::<Vec<_>>())?;
            file.write_all(b"\n")?;
            for Traced { outcome, .. } in runs {
                file.write_all(&outcome.recording)?;
            }
            let file = file.into_inner().map_err(|error| error.into_error())?;
            file.persist(&path).map_err(|error| error.error)
        };
        let _: File = write().map_err(|error: io::Error| bad(&path, &error))?;
        Ok(())
    }
}

fn read(mut from: impl BufRead) -> io::Result<Vec<Traced>> {
    let mut header = String::new();
    from.read_line(&mut header)?;
    let runs: Vec<Run> = serde_json::from_str(&header)?;
    let mut traced = Vec::with_capacity(runs.len());
    for Run { mut outcome, recorded_bytes } in runs {
        outcome.recording = vec![0; recorded_bytes];
        from.read_exact(&mut outcome.recording)?;
        traced.push(Traced { outcome, callbacks: Vec::new(), events: Vec::new() });
    }
    Ok(traced)
}

fn bad(path: &Path, error: &io::Error) -> BadInput {
    BadInput(format!(
        "cannot keep what was measured: {}: {error}; make room, or keep it in another folder",
        path.display()
    ))
}

struct Hashed(DefaultHasher);

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
