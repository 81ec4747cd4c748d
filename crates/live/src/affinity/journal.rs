// SPDX-License-Identifier: GPL-2.0-only
//! Threads with changed masks, and their masks before. The file is written before every change. If this process is
//! killed, the next one can restore the masks.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::mask::{Mask, Own, online};
use super::thread::{Stat, all_threads};

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    pid: u32,
    start: u64,
    boot: String,
    /// CPUs of each kind.
    kinds: Vec<String>,
}

/// An entry for every thread with a changed mask.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    tid: u32,
    start: u64,
    own: String,
    /// The mask was the whole cpuset.
    #[serde(default)]
    free: bool,
    #[serde(default)]
    word: Word,
}

/// Why a mask counts as a thread's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Word {
    /// The thread had it when it was found, or inherits it.
    #[default]
    Found,
    /// Its owner has set it since.
    Owners,
}

/// The file, open for writing.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

/// Its path: one for all users if root steers, else the user's own.
pub(crate) fn place() -> anyhow::Result<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Ok("/run/paceline/affinity".into());
    }
    let folder = std::env::var_os("XDG_RUNTIME_DIR")
        .context("masks are noted in XDG_RUNTIME_DIR, which is not set: set it, or run as root")?;
    Ok(Path::new(&folder).join("paceline/affinity"))
}

fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_string()
}

impl Journal {
    /// Begins one; there must be none. The file appears together with its first line.
    pub fn begin(path: &Path, kinds: &[Mask]) -> anyhow::Result<Self> {
        let cannot = || format!("cannot note masks in {}", path.display());
        let folder = path.parent().context("it has no folder").with_context(cannot)?;
        fs::create_dir_all(folder).with_context(cannot)?;
        let unseen = tempfile::Builder::new().append(true).tempfile_in(folder);
        let (file, unseen) = unseen.with_context(cannot)?.into_parts();
        let mut journal = Journal { path: path.into(), file };
        let pid = std::process::id();
        let start = Stat::of(pid).context("/proc does not know this process")?.start;
        let kinds = kinds.iter().map(Mask::text).collect();
        journal.line(&Holder { pid, start, boot: boot(), kinds })?;
        match fs::hard_link(&unseen, path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!("another paceline has begun to steer by affinity: end it first")
            }
            linked => linked.with_context(cannot)?,
        }
        Ok(journal)
    }

    /// Notes a thread's own mask, before it is changed for the first time.
    pub fn note(&mut self, tid: u32, start: u64, own: &Own, word: Word) -> anyhow::Result<()> {
        self.line(&Entry { tid, start, own: own.mask.text(), free: own.is_free, word })
    }

    /// Writes a line at once: a part of a line would mean that the change was never made.
    fn line(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        let written = self.file.write_all(text.as_bytes());
        written.with_context(|| format!("cannot note masks in {}", self.path.display()))
    }

    /// Restores all masks.
    pub fn end(mut self) -> anyhow::Result<usize> {
        give_back(&mut self.file, &self.path)
    }
}

/// Restores the masks that an ended process has left changed, if any; returns the number of threads. An error: the
/// process still runs.
pub fn mend() -> anyhow::Result<usize> {
    let Ok(path) = place() else { return Ok(0) };
    mend_at(&path)
}

/// One caller at a time: a second one finds what the first has left.
fn mend_at(path: &Path) -> anyhow::Result<usize> {
    let said = || path.display().to_string();
    let (mut file, holder) = loop {
        let Ok(mut file) = File::open(path) else { return Ok(0) };
        flock(&file, FlockOperation::LockExclusive).with_context(said)?;
        if is_at(&file, path) {
            let mut text = String::new();
            // A file that is not text has no first line either.
            let _ = file.read_to_string(&mut text);
            break (file, holder(&text));
        }
    };
    let holder = holder.with_context(|| {
        let path = path.display();
        format!("{path} is damaged: an earlier run may have left threads bound (`taskset -ap`); then remove it")
    })?;
    if holder.boot != boot() {
        // Masks ended with the last boot.
        fs::remove_file(path).with_context(said)?;
        return Ok(0);
    }
    if Stat::of(holder.pid).is_some_and(|stat| stat.start == holder.start) {
        bail!("another paceline (process {}) steers by affinity: end it first", holder.pid);
    }
    give_back(&mut file, path)
}

/// Whether the open file is the one at this path.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(own), Ok(there)) = (file.metadata(), fs::metadata(path)) else { return false };
    (own.dev(), own.ino()) == (there.dev(), there.ino())
}

fn holder(text: &str) -> Option<Holder> {
    serde_json::from_str(text.lines().next()?).ok()
}

/// Passes over all threads until a pass changes nothing: a thread forked meanwhile has its parent's mask.
fn give_back(file: &mut File, path: &Path) -> anyhow::Result<usize> {
    const PASSES: usize = 20;
    let said = || path.display().to_string();
    let mut text = String::new();
    file.rewind().with_context(said)?;
    file.read_to_string(&mut text).with_context(said)?;
    let kinds = holder(&text).map(|holder| holder.kinds).unwrap_or_default();
    let kinds: Vec<Mask> = kinds.iter().map(|cpus| Mask::parse(cpus)).collect();
    let own = noted(&text, &kinds);
    let mut given = 0;
    for _ in 0..PASSES {
        let changed = pass(&kinds, &Mask::new(online()?), &own)?;
        given += changed;
        if changed == 0 {
            break;
        }
    }
    if is_at(file, path) {
        fs::remove_file(path).with_context(said)?;
    }
    Ok(given)
}

/// Each thread's own mask. If a thread is noted twice, the last entry holds, as its owner changed the mask in between.
/// But a thread that was found again with a mask of ours keeps its first one.
fn noted(text: &str, kinds: &[Mask]) -> BTreeMap<(u32, u64), Own> {
    let mut noted = BTreeMap::<_, Own>::new();
    for entry in text.lines().skip(1).filter_map(|line| serde_json::from_str::<Entry>(line).ok()) {
        let thread = (entry.tid, entry.start);
        let own = Own { mask: Mask::parse(&entry.own), is_free: entry.free };
        let is_ours = |first: &Own| kinds.iter().any(|kind| kind.and(&first.mask) == own.mask);
        if entry.word == Word::Owners || !noted.get(&thread).is_some_and(is_ours) {
            noted.insert(thread, own);
        }
    }
    noted
}

fn pass(kinds: &[Mask], online: &Mask, own: &BTreeMap<(u32, u64), Own>) -> anyhow::Result<usize> {
    let mut of_process = BTreeMap::new();
    let mut of_session = BTreeMap::new();
    let mut unknown = Vec::new();
    let mut changed = 0;
    for (tid, process) in all_threads().context("masks cannot be given back yet")? {
        let Some(stat) = Stat::of(tid) else { continue };
        match own.get(&(tid, stat.start)) {
            Some(own) => {
                of_process.insert(process, own);
                of_session.insert(stat.session, own);
                changed += usize::from(restore(tid, kinds, online, own));
            }
            None if stat.may_be_steered => unknown.push((tid, process, stat)),
            None => {}
        }
    }
    // Children that began after the last look have inherited their mask.
    for (tid, process, stat) in unknown {
        let from = of_process.get(&process).or_else(|| of_process.get(&stat.parent));
        if let Some(own) = from.or_else(|| of_session.get(&stat.session)) {
            changed += usize::from(restore(tid, kinds, online, own));
        }
    }
    Ok(changed)
}

/// Restores a thread's own mask if it has one of ours; any other mask was set by its owner.
fn restore(tid: u32, kinds: &[Mask], online: &Mask, own: &Own) -> bool {
    let Some(now) = Mask::of(tid) else { return false };
    let is_ours = kinds.iter().any(|kind| now.is_like(&kind.and(&own.mask), online));
    is_ours && now != own.mask && own.give(tid).is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// One thread begins journals while another repairs, many times: a held journal is never removed.
    #[test]
    fn one_that_is_begun_is_there_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("affinity");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let mended = mend_at(&path);
                    assert!(mended.as_ref().is_ok_and(|given| *given == 0) || mended.is_err());
                }
            });
            let stays = |_| {
                let journal = Journal::begin(&path, &[]).unwrap();
                std::thread::yield_now();
                let second = Journal::begin(&path, &[]);
                let stays = is_at(&journal.file, &path) && second.is_err();
                let _ = fs::remove_file(&path);
                stays
            };
            let all_stay = (0..300).all(stays);
            over.store(true, Ordering::Relaxed);
            assert!(all_stay, "one was removed");
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a file is left");
    }

    #[test]
    fn a_journal_without_a_holder_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("affinity");
        let held = |boot: &str| {
            let holder = Holder { pid: 1, start: 0, boot: boot.into(), kinds: Vec::new() };
            serde_json::to_string(&holder).unwrap()
        };
        fs::write(&path, held("of the last boot")).unwrap();
        assert_eq!(mend_at(&path).unwrap(), 0);
        assert!(!path.exists());
        // Its masks are not known any more, and the user may have to check.
        for text in ["", "{\"pid\":1,"] {
            fs::write(&path, text).unwrap();
            let said = mend_at(&path).unwrap_err().to_string();
            assert!(said.contains("affinity is damaged") && path.exists(), "{said}");
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(mend_at(&path).unwrap(), 0, "nothing is there");
    }

    #[test]
    fn a_thread_found_again_with_a_mask_of_ours_keeps_its_first_mask() {
        let kinds = [Mask::parse("0-3"), Mask::parse("4-7")];
        let entry = |own: &str, word| {
            let entry = Entry { tid: 7, start: 1, own: own.into(), free: false, word };
            serde_json::to_string(&entry).unwrap()
        };
        let own = |entries: &[String]| {
            let text = format!("the holder\n{}\n", entries.join("\n"));
            noted(&text, &kinds)[&(7, 1)].mask.text()
        };
        let first = entry("0-6", Word::Found);
        assert_eq!(own(&[first.clone(), entry("4-6", Word::Found)]), "0-6");
        assert_eq!(own(&[first.clone(), entry("4-6", Word::Owners)]), "4-6");
        assert_eq!(own(&[first, entry("1-2", Word::Found)]), "1-2");
    }
}
