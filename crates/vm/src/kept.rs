// SPDX-License-Identifier: GPL-2.0-only
//! Outcomes of boots, kept in a folder: a stopped run resumes from them.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use trace::Outcome;

use crate::kernel::Kernel;
use crate::qemu::{self, Files, Threads};
use crate::request::{BadInput, Keep, Request};
use crate::traced::Traced;

/// A folder, and a key of everything that its files depend on.
pub(crate) struct Kept<'a> {
    keep: &'a Keep,
    made_of: u64,
}

/// A run; the bytes of its recording follow after the line that holds this.
#[derive(Serialize, Deserialize)]
struct Run {
    outcome: Outcome,
    recorded_bytes: usize,
}

impl<'a> Kept<'a> {
    /// Boots of exactly this request, emulator, kernel and image: all that their outcomes depend on.
    pub(crate) fn new(
        keep: &'a Keep,
        request: &Request,
        emulator: &Path,
        kernel: &Kernel,
        image: &Path,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(&keep.folder).map_err(|error| bad(&keep.folder, &error))?;
        let mut hash = Hashed(DefaultHasher::new());
        for file in [emulator, &kernel.image, image] {
            let mut file = File::open(file).with_context(|| file.display().to_string())?;
            io::copy(&mut file, &mut hash)?;
        }
        // independent of the scratch folder's name
        let [kernel, messages, records, console] = ["k", "m", "r", "c"].map(Path::new);
        let files = Files { kernel, image, messages, records, console };
        for word in qemu::arguments(request, &files, 0, Threads::OneEach) {
            if word != image.as_os_str() {
                hash.write_all(word.as_encoded_bytes())?;
            }
        }
        Ok(Kept { keep, made_of: hash.0.finish() })
    }

    fn file(&self, boot: usize) -> PathBuf {
        self.keep.folder.join(format!("{:016x}-{}.boot", self.made_of, boot + 1))
    }

    /// A boot's outcomes. None: they are not kept.
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

    /// Keeps a boot's outcomes.
    pub(crate) fn put(&self, boot: usize, runs: &[Traced]) -> anyhow::Result<()> {
        let run = |Traced { outcome, .. }: &Traced| Run {
            recorded_bytes: outcome.recording.len(),
            outcome: outcome.clone(),
        };
        let mut bytes = serde_json::to_vec(&runs.iter().map(run).collect::<Vec<_>>())?;
        bytes.push(b'\n');
        runs.iter().for_each(|run| bytes.extend(&run.outcome.recording));
        (self.keep.write)(&self.file(boot), &bytes).map_err(|error| {
            BadInput(format!("{error:#}; make room, or keep boots in another folder")).into()
        })
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
    BadInput(format!("cannot keep boots in {}: {error}; name another folder", path.display()))
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
