// SPDX-License-Identifier: GPL-2.0-only
//! Results in a file: a line for each, appended when its run ends.
//!
//! A line is a JSON object with a checksum as its last member. So a line that was cut, by a kill or a full disk, is
//! known, and its run is done again.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use report::text::plural;
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use terminal::Failure;

use crate::digest::Digest;
use crate::run::{Came, Run};

/// No line is longer: a longer one is no line of such a file.
const LINE_MAX: u64 = 64 << 20;
/// What stands before a line's checksum.
const SUM: &str = r#","sum":""#;

/// What is kept: plain data.
pub trait Data: Serialize + DeserializeOwned {}

impl<T: Serialize + DeserializeOwned> Data for T {}

/// What came of a run, as a file keeps it.
pub trait Entry: Data {
    /// What such a file has in it, in words.
    const WHAT: &str;
}

impl Entry for Came {
    const WHAT: &str = "results of a sweep";
}

/// Results by the digests of their runs. A run is an `R`; what came of it is a `C`, which JSON has as an object.
#[derive(Debug)]
pub struct Store<R = Run, C = Came> {
    path: PathBuf,
    file: File,
    /// Where each line begins, and its length.
    places: HashMap<Digest, (u64, u32)>,
    end: u64,
    /// Lines that cannot be used.
    damaged: usize,
    of: PhantomData<fn(R) -> C>,
}

/// A line without its checksum.
#[derive(Serialize, Deserialize)]
struct Line<R, C> {
    key: Digest,
    run: R,
    #[serde(flatten)]
    came: C,
}

impl<R: Data, C: Entry> Store<R, C> {
    /// The first line of such a file.
    fn first() -> String {
        format!(r#"{{"paceline":"{}","format":1}}"#, C::WHAT)
    }

    /// Opens a file of results, or makes one. No other sweep can use it meanwhile.
    ///
    /// # Errors
    /// It is in use, cannot be written, or has something else in it.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let mut store = Store::at(path, OpenOptions::new().read(true).append(true).create(true))?;
        flock(&store.file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| unusable(path, &"another process writes to it"))?;
        store.find_lines()?;
        // What was cut goes; the next line has to begin a line.
        store.file.set_len(store.end).map_err(|error| store.unwritable(&error))?;
        if store.end == 0 {
            store.append(&(Self::first() + "\n"))?;
        }
        Ok(store)
    }

    /// Looks into a file of results: nothing is written, and another sweep may write to it meanwhile. None: there is none.
    ///
    /// # Errors
    /// It cannot be read, or has something else in it.
    pub fn look(path: &Path) -> Result<Option<Self>, Failure> {
        if !path.exists() {
            return Ok(None);
        }
        let mut store = Store::at(path, OpenOptions::new().read(true))?;
        store.find_lines()?;
        Ok(Some(store))
    }

    /// A file whose lines are not known yet.
    fn at(path: &Path, options: &OpenOptions) -> Result<Self, Failure> {
        if path.exists() && !path.is_file() {
            return Err(unusable(path, &"it is no regular file"));
        }
        let file = options.open(path).map_err(|error| unusable(path, &error))?;
        Ok(Store {
            path: path.to_path_buf(),
            file,
            places: HashMap::new(),
            end: 0,
            damaged: 0,
            of: PhantomData,
        })
    }

    /// Finds all whole lines.
    fn find_lines(&mut self) -> Result<(), Failure> {
        let unreadable =
            |error| Failure::run(format!("cannot read {}: {error}", self.path.display()));
        let mut lines = BufReader::with_capacity(1 << 20, &self.file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut lines).take(LINE_MAX).read_until(b'\n', &mut line);
            let read = read.map_err(unreadable)?;
            let whole = line.last() == Some(&b'\n');
            if self.end == 0 {
                // A new file, or one that was cut in its first line.
                let first = Self::first();
                let is_cut = !whole && first.as_bytes().starts_with(&line);
                if !is_cut && line != (first + "\n").as_bytes() {
                    let why = format!("it has something else in it than {}", C::WHAT);
                    return Err(unusable(&self.path, &why));
                }
                if !whole {
                    break;
                }
            } else if read == 0 {
                break;
            } else if !whole {
                self.damaged += 1;
                break;
            } else {
                match parsed::<R, C>(&line) {
                    Some(Line { key, .. }) => _ = self.places.insert(key, (self.end, read as u32)),
                    None => self.damaged += 1,
                }
            }
            self.end += read as u64;
        }
        Ok(())
    }

    /// A note about lines that cannot be used, if there are any.
    pub fn note(&self) -> Option<String> {
        (self.damaged > 0).then(|| {
            let lines = plural(self.damaged, "line");
            format!("{}: {lines} cut or damaged, which count for nothing", self.path.display())
        })
    }

    /// Lets other sweeps write to it: from here on this one only reads.
    pub fn release(&self) {
        // If that fails, the file's end of life does it.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a result is known.
    pub fn has(&self, key: Digest) -> bool {
        self.places.contains_key(&key)
    }

    /// A result, if it is known.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn get(&self, key: Digest) -> Result<Option<C>, Failure> {
        let Some((at, length)) = self.places.get(&key) else { return Ok(None) };
        let mut line = vec![0; *length as usize];
        let read = (&self.file)
            .seek(SeekFrom::Start(*at))
            .and_then(|_| (&self.file).read_exact(&mut line));
        let lost = |why: &dyn std::fmt::Display| {
            Failure::run(format!(
                "{} has changed meanwhile: {why}; start again",
                self.path.display()
            ))
        };
        read.map_err(|error| lost(&error))?;
        match parsed::<R, C>(&line).filter(|line| line.key == key) {
            Some(line) => Ok(Some(line.came)),
            None => Err(lost(&"a line is another one")),
        }
    }

    /// Keeps a result.
    ///
    /// # Errors
    /// The disk is full. What was kept before stays whole.
    pub fn put(&mut self, key: Digest, run: &R, came: C) -> Result<(), Failure> {
        let line = Line { key, run, came };
        let mut text = serde_json::to_string(&line).expect("it is plain data");
        text.pop();
        let sum: String = Digest::of(text.as_bytes()).into();
        text += &format!("{SUM}{sum}\"}}\n");
        let at = self.end;
        self.append(&text)?;
        self.places.insert(key, (at, text.len() as u32));
        Ok(())
    }

    fn append(&mut self, text: &str) -> Result<(), Failure> {
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            // If even that fails, the next one finds a line that was cut.
            let _ = self.file.set_len(self.end);
            return Err(self.unwritable(&error));
        }
        self.end += text.len() as u64;
        Ok(())
    }

    fn unwritable(&self, error: &std::io::Error) -> Failure {
        let runs = plural(self.places.len(), "run");
        Failure::input(format!(
            "cannot write {}: {error}; {runs} kept, and the same command goes on when there is room",
            self.path.display()
        ))
    }
}

/// The error for a file that is not taken.
fn unusable(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::input(format!("{}: {why}; name another", path.display()))
}

/// A whole line, if its checksum is right.
fn parsed<R: Data, C: Data>(line: &[u8]) -> Option<Line<R, C>> {
    let text = std::str::from_utf8(line).ok()?.trim_end();
    let (body, sum) = text.rsplit_once(SUM)?;
    let sum = Digest::try_from(sum.strip_suffix("\"}")?.to_string()).ok()?;
    if Digest::of(body.as_bytes()) != sum {
        return None;
    }
    serde_json::from_str(&format!("{body}}}")).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::input::Input;
    use crate::measured::Measured;

    type Results = Store;

    fn run(seed: u64) -> Run {
        let input = |name: &str| Input { name: name.into(), digest: None };
        Run {
            policy: "default".into(),
            machine: input("plain-2"),
            costs: [("ipi_send_ns".to_string(), 0.1 + 0.2)].into(),
            workload: input("agree-1"),
            pressure: 1,
            seed,
            limit_ns: 1,
        }
    }

    fn came(seed: u64) -> Came {
        let elapsed_ns = u64::MAX - seed;
        Came::Measured(Box::new(Measured { elapsed_ns, ..Measured::default() }))
    }

    fn key(seed: u64) -> Digest {
        run(seed).key(Digest::of(b"program"))
    }

    fn filled(path: &Path) {
        let mut store = Results::open(path).unwrap();
        for seed in 0..3 {
            store.put(key(seed), &run(seed), came(seed)).unwrap();
        }
    }

    #[test]
    fn results_are_there_again_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.results");
        filled(&path);
        let mut store = Results::open(&path).unwrap();
        assert_eq!(store.get(key(2)).unwrap(), Some(came(2)));
        assert_eq!((store.get(key(3)).unwrap(), store.note()), (None, None));
        let failed = Came::Failed("checker quota: \"too\" much".into());
        store.put(key(3), &run(3), failed.clone()).unwrap();
        drop(store);
        assert_eq!(Results::open(&path).unwrap().get(key(3)).unwrap(), Some(failed));
    }

    /// Wherever a kill cuts the file.
    #[test]
    fn a_file_that_was_cut_keeps_every_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.results");
        filled(&path);
        let whole = fs::read(&path).unwrap();
        let ends: Vec<usize> =
            (0..whole.len()).filter(|at| whole[*at] == b'\n').map(|at| at + 1).collect();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut store = Results::open(&path).unwrap();
            let kept = ends.iter().skip(1).filter(|end| **end <= cut).count();
            let known = (0..3).filter(|seed| store.has(key(*seed))).count();
            assert_eq!(known, kept, "cut at {cut}");
            store.put(key(9), &run(9), came(9)).unwrap();
            drop(store);
            let again = Results::open(&path).unwrap();
            assert_eq!((again.note(), again.get(key(9)).unwrap()), (None, Some(came(9))));
        }
    }

    #[test]
    fn a_damaged_line_is_told_of_and_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.results");
        filled(&path);
        let text = fs::read_to_string(&path).unwrap().replacen("18446744073709551614", "1", 1);
        fs::write(&path, text).unwrap();
        let store = Results::open(&path).unwrap();
        assert_eq!([0, 1, 2].map(|seed| store.has(key(seed))), [true, false, true]);
        assert!(store.note().unwrap().contains("1 line cut or damaged"));
    }

    #[test]
    fn other_files_and_files_in_use_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("thesis.txt");
        for text in [
            "Chapter 1\n",
            "x",
            "{\n \"a\": 1 }",
            "\n",
            "\nChapter",
            "{\"paceline\":\"results of a sweep\",\"format\":2}\n",
        ] {
            fs::write(&path, text).unwrap();
            let error = Results::open(&path).unwrap_err().to_string();
            assert!(error.contains("something else in it"), "{text}: {error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        let own = folder.path().join("own.results");
        let first = Results::open(&own).unwrap();
        assert!(
            Results::open(&own).unwrap_err().to_string().contains("another process writes to it")
        );
        first.release();
        Results::open(&own).unwrap();
        assert!(Results::open(folder.path()).unwrap_err().to_string().contains("no regular file"));
    }

    #[test]
    fn a_key_changes_with_everything_that_a_result_follows_from() {
        let other = Run { costs: [].into(), ..run(1) };
        let keys = [
            key(1),
            key(2),
            other.key(Digest::of(b"program")),
            run(1).key(Digest::of(b"another program")),
            Run { pressure: 2, ..run(1) }.key(Digest::of(b"program")),
        ];
        let of_file = |name: &str, text: &[u8]| {
            let workload = Input { name: name.into(), digest: Some(Digest::of(text)) };
            Run { workload, ..run(1) }.key(Digest::of(b"program"))
        };
        assert_eq!(
            of_file("a.json", b"text"),
            of_file("b.json", b"text"),
            "a name changes nothing"
        );
        assert_ne!(of_file("a.json", b"text"), of_file("a.json", b"other"));
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key), "{at}");
        }
    }
}
