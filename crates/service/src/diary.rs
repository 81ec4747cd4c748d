// SPDX-License-Identifier: GPL-2.0-only
//! What the service keeps on disk: failures of policies, which outlast a restart, and the kernel's dumps.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use live::Exit;
use report::text::visible;
use serde::{Deserialize, Serialize};

use crate::ladder::Fault;

/// The folder.
pub const STATE: &str = "/var/lib/paceline";
/// Most of a dump that is kept, in bytes.
const DUMP_MAX: usize = 1 << 20;

/// What one life of the service leaves to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Page {
    /// Failures by policy.
    pub faults: BTreeMap<String, Fault>,
    /// The policy that was on trial: if this is still here at the next start, it did not last for its grace time.
    pub on_trial: Option<String>,
    /// The service has not ended by itself yet.
    pub runs: bool,
    /// Linux's own class was to stay in charge, by an administrator's choice.
    pub stays_on_class: bool,
    /// The boot that this was written in.
    pub boot: String,
    /// When that began, s since 1970.
    pub boot_began_s: u64,
}

/// The folder with it.
pub struct Diary {
    folder: PathBuf,
    page: Page,
    keeps: usize,
}

impl Diary {
    /// Opens the folder, and creates it if need be. Only root can read it. A page that cannot be read counts as none.
    pub fn open(folder: &Path, keeps: usize) -> io::Result<(Self, Page)> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let dumps = folder.join("dumps");
        DirBuilder::new().recursive(true).mode(0o700).create(dumps)?;
        let before = fs::read(folder.join(PAGE)).ok();
        let before =
            before.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Ok((Diary { folder: folder.to_path_buf(), page: Page::default(), keeps }, before))
    }

    /// How many dumps are kept from now on.
    pub fn keep(&mut self, dumps: usize) {
        self.keeps = dumps;
    }

    /// Writes the page if it is another one, whole, and to the disk: the machine may crash next.
    pub fn note(&mut self, page: &Page) -> io::Result<()> {
        if *page == self.page {
            return Ok(());
        }
        let place = self.folder.join(PAGE);
        let unfinished = self.folder.join("state.json.new");
        let _ = fs::remove_file(&unfinished);
        let mut file = create(&unfinished)?;
        file.write_all(&serde_json::to_vec_pretty(page).expect("it is plain data"))?;
        file.sync_all()?;
        fs::rename(&unfinished, &place)?;
        // The name has to outlast a crash, too.
        File::open(&self.folder)?.sync_all()?;
        self.page = page.clone();
        Ok(())
    }

    /// Keeps the kernel's reason and its dump, and removes the oldest dumps beyond those to be kept. `at`: a time such as
    /// `2026-12-01T02:00:00Z`. Returns the file.
    pub fn keep_dump(&self, at: &str, policy: &str, exit: &Exit) -> io::Result<Option<PathBuf>> {
        let folder = self.folder.join("dumps");
        self.trim(&folder, self.keeps.saturating_sub(1))?;
        if self.keeps == 0 {
            return Ok(None);
        }
        let name = policy.split(':').next().unwrap_or_default();
        let place = folder.join(format!("{at}-{name}.txt"));
        let mut text = format!("{policy}: {}\n\n", visible(&exit.to_string()));
        // Tasks choose their names: no line of it can control a terminal.
        text.extend(exit.dump.lines().flat_map(|line| [visible(line), "\n".into()]));
        text.truncate(text.floor_char_boundary(DUMP_MAX));
        create(&place)?.write_all(text.as_bytes())?;
        Ok(Some(place))
    }

    /// Leaves so many of the newest dumps.
    fn trim(&self, folder: &Path, leaves: usize) -> io::Result<()> {
        let mut files: Vec<PathBuf> =
            fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect::<io::Result<_>>()?;
        files.sort();
        let old = files.len().saturating_sub(leaves);
        files[..old].iter().try_for_each(fs::remove_file)
    }
}

const PAGE: &str = "state.json";

/// A new file that only root can read. Fails if there is one already, or a link.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The number of this boot.
pub fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn exit(dump: &str) -> Exit {
        Exit { kind: 1026, reason: "stall".into(), message: "a[1]".into(), dump: dump.into() }
    }

    #[test]
    fn a_page_outlasts_its_writer() {
        let folder = tempfile::tempdir().unwrap();
        let (mut diary, before) = Diary::open(folder.path(), 3).unwrap();
        assert_eq!(before, Page::default());
        let fault = Fault { count: 2, not_before_s: 99, why: "stall".into() };
        let page =
            Page { faults: [("cas".to_string(), fault)].into(), runs: true, ..Page::default() };
        diary.note(&page).unwrap();
        let (_, before) = Diary::open(folder.path(), 3).unwrap();
        assert_eq!(before, page);
        fs::write(folder.path().join(PAGE), "{\"faults\": 3").unwrap();
        let (mut diary, before) = Diary::open(folder.path(), 3).unwrap();
        assert_eq!(before, Page::default(), "a page of no use is as none");
        diary.note(&page).unwrap();
        let mode = fs::metadata(folder.path().join(PAGE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn the_newest_dumps_are_kept_and_each_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let (diary, _) = Diary::open(folder.path(), 2).unwrap();
        for second in 0..5 {
            let at = format!("2026-12-01T00:00:0{second}Z");
            diary.keep_dump(&at, "cas:slice=5ms", &exit(&"ü".repeat(DUMP_MAX))).unwrap();
        }
        let dumps = folder.path().join("dumps");
        let mut names: Vec<String> = fs::read_dir(&dumps)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["2026-12-01T00:00:03Z-cas.txt", "2026-12-01T00:00:04Z-cas.txt"]);
        let text = fs::read_to_string(dumps.join(&names[0])).unwrap();
        assert!(text.starts_with("cas:slice=5ms: stall (a[1])\n\nü") && text.len() <= DUMP_MAX);
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (mut diary, _) = Diary::open(folder.path(), 2).unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "mine").unwrap();
        std::os::unix::fs::symlink(&other, folder.path().join("dumps/now-cas.txt")).unwrap();
        assert!(diary.keep_dump("now", "cas", &exit("")).is_err());
        std::os::unix::fs::symlink(&other, folder.path().join("state.json.new")).unwrap();
        diary.note(&Page { runs: true, ..Page::default() }).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
    }

    #[test]
    fn no_dump_is_kept_where_none_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let (diary, _) = Diary::open(folder.path(), 0).unwrap();
        assert_eq!(diary.keep_dump("now", "cas", &exit("")).unwrap(), None);
    }
}
