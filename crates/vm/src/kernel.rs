// SPDX-License-Identifier: GPL-2.0-only
//! Gets a sched_ext kernel: named by hand, from the cache, or from Debian.
//!
//! Debian's archive is read with private apt state. It comes from the mirror that this machine's apt uses and is signed
//! by Debian's keyring; nothing is added to the system. A release's kernel package is replaced within weeks, so no
//! version is pinned. Each kernel is probed, and if it is unsound the next suite is tried.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use live::die_with_parent;
use rustix::process::Signal;

use crate::{BadInput, probe};

/// Suites to try, best first.
const SUITES: &[&str] = &["testing", "trixie-backports", "unstable"];
/// The suites that keep older kernels. Tests run a policy on an older kernel too.
const OLDER_SUITES: &[&str] = &["trixie-backports"];
/// The package that depends on the newest cloud kernel.
const PACKAGE: &str = "linux-image-cloud-amd64";
/// A kernel's package is named by this, its version, and its flavour.
const IMAGE: &str = "linux-image-";
const FLAVOUR: &str = "-cloud-amd64";
/// Most kernels that are fetched from a suite before it is given up.
const FETCHED_MAX: usize = 4;
/// The C library's message for a full disk, and so every tool's.
const FULL: &str = "No space left on device";
/// Advice to a user without any kernel.
const MEND: &str = "name one with --kernel FILE; --on sim works without";

/// A kernel that was probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The bzImage.
    pub image: PathBuf,
    /// Its configuration, where it was found.
    pub config: Option<PathBuf>,
    /// Its release, as `uname -r` prints it.
    pub release: String,
    /// Its type information was found sound; false if only the running kernel can show it.
    pub probed: bool,
}

/// The kernel named by hand, else the newest one in the cache, else one from Debian.
pub fn find(
    by_hand: Option<&Path>,
    cache: Option<&Path>,
    progress: &MultiProgress,
) -> anyhow::Result<Kernel> {
    if let Some(image) = by_hand {
        return named(image);
    }
    cached_or_fetched(Which::Newest, &folder(place(cache))?, progress)
}

/// Debian's oldest kernel with sched_ext, kept apart from the others.
pub fn oldest(cache: Option<&Path>, progress: &MultiProgress) -> anyhow::Result<Kernel> {
    cached_or_fetched(Which::Oldest, &folder(oldest_place(cache))?, progress)
}

/// Which of Debian's sound kernels to take.
#[derive(Clone, Copy)]
enum Which {
    Newest,
    Oldest,
}

impl Which {
    fn suites(self) -> &'static [&'static str] {
        match self {
            Which::Newest => SUITES,
            Which::Oldest => OLDER_SUITES,
        }
    }
}

/// The newest kernel in a folder. If there is none, fetches the first sound one of the suites into it.
fn cached_or_fetched(
    which: Which,
    folder: &Path,
    progress: &MultiProgress,
) -> anyhow::Result<Kernel> {
    cached(folder).map_or_else(|| fetch(which, folder, progress), Ok)
}

fn fetch(which: Which, folder: &Path, progress: &MultiProgress) -> anyhow::Result<Kernel> {
    let bad = |why: String| BadInput(format!("no kernel: {why}; {MEND}"));
    let mirror = mirror().map_err(|error| bad(format!("{error:#}")))?;
    let mut failures = Vec::new();
    for suite in which.suites() {
        match fetch_suite(suite, which, &mirror, folder, progress) {
            Ok(kernel) => return Ok(kernel),
            Err(error) => failures.push(format!("{suite}: {error:#}")),
        }
        if failures.last().is_some_and(|failure| failure.contains(FULL)) {
            let kept = folder.display();
            return Err(bad(format!(
                "no space left on the disk of {kept}; name another with XDG_CACHE_HOME"
            ))
            .into());
        }
    }
    // a network that is down is down for all of them
    failures.dedup_by(|later, first| alike(later) == alike(first));
    Err(bad(failures.join("; ")).into())
}

/// A failure without its suite's name.
fn alike(failure: &str) -> String {
    SUITES.iter().fold(failure.to_string(), |text, suite| text.replace(suite, "SUITE"))
}

/// The folder at a place, created if it does not exist.
fn folder(place: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let folder = place.ok_or_else(|| {
        BadInput("neither XDG_CACHE_HOME nor HOME names a folder in full; set one".into())
    })?;
    fs::create_dir_all(&folder).map_err(|error| {
        let folder = folder.display();
        BadInput(format!("cannot create {folder}: {error}; name another with XDG_CACHE_HOME"))
    })?;
    Ok(folder)
}

/// Where kernels are kept.
fn place(cache: Option<&Path>) -> Option<PathBuf> {
    let base = cache.map(Path::to_path_buf).or_else(user_cache)?;
    Some(base.join("kernels"))
}

fn oldest_place(cache: Option<&Path>) -> Option<PathBuf> {
    Some(place(cache)?.with_file_name("oldest-kernels"))
}

/// This user's cache folder: `$XDG_CACHE_HOME/paceline`, else `~/.cache/paceline`. None: neither is known. A path that
/// is not absolute counts as not set, as in the XDG Base Directory Specification.
pub fn user_cache() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(base.join("paceline"))
}

/// Name of a fetch's folder in the cache, before the number of its process.
const FETCH: &str = ".fetch-";

/// Removes what this process has half fetched into the user's cache, for an interrupted process.
pub fn forget_fetch() {
    for folder in [place(None), oldest_place(None)].into_iter().flatten() {
        remove_fetches(&folder, |process| process == std::process::id());
    }
}

/// Removes the folders of fetches by such processes. A folder that cannot be removed does no harm.
fn remove_fetches(folder: &Path, by: impl Fn(u32) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process =
            name.strip_prefix(FETCH).and_then(|rest| rest.split('-').next()?.parse().ok());
        if process.is_some_and(&by) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn named(image: &Path) -> anyhow::Result<Kernel> {
    let bad = |why: String| BadInput(format!("--kernel {}: {why}", image.display()));
    // reading a pipe would block
    if image.exists() && !image.is_file() {
        return Err(bad("it is no file".into()).into());
    }
    let release = probe::release(image).map_err(|error| bad(format!("{error:#}")))?;
    let beside = image.parent().unwrap_or(Path::new("."));
    let config = ["config".to_string(), format!("config-{release}")]
        .iter()
        .map(|name| beside.join(name))
        .find(|path| path.exists());
    let scratch = tempfile::tempdir()?;
    let mut kernel = Kernel { image: image.to_path_buf(), config, release, probed: false };
    let btf = scratch.path().join("btf");
    kernel.probed = probe_files(&kernel, &btf).map_err(|error| bad(format!("{error:#}")))?;
    Ok(kernel)
}

/// Kernels in the cache were probed before they were put there.
fn cached(folder: &Path) -> Option<Kernel> {
    let kernels = fs::read_dir(folder).ok()?.flatten().filter_map(|entry| {
        let path = entry.path();
        let (image, config) = (path.join("vmlinuz"), path.join("config"));
        let release = entry.file_name().to_str().filter(|name| !name.starts_with('.'))?.to_string();
        let when = fs::metadata(&image).ok()?.modified().ok()?;
        // A kernel that a full disk or a user has damaged is fetched again.
        let is_whole = probe::release(&image).is_ok() && config.exists();
        let probed = path.join("btf").exists();
        is_whole.then_some((when, Kernel { image, config: Some(config), release, probed }))
    });
    kernels.max_by_key(|(when, kernel)| (*when, kernel.release.clone())).map(|(_, kernel)| kernel)
}

/// Fails if the kernel is unsound; false if its files do not show whether it is.
fn probe_files(kernel: &Kernel, btf: &Path) -> anyhow::Result<bool> {
    if let Some(config) = &kernel.config {
        let text = fs::read_to_string(config).with_context(|| config.display().to_string())?;
        probe::check_config(&text)?;
    }
    let found = probe::extract_btf(&kernel.image, btf)?;
    if found {
        probe::check_btf(btf)?;
    }
    Ok(found)
}

/// This machine's apt mirror for Debian itself, not for its updates.
fn mirror() -> anyhow::Result<String> {
    let format = "$(ORIGIN) $(LABEL) $(CODENAME) $(REPO_URI)";
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", format])
        .output()
        .context("cannot run apt-get, so this is no Debian")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let uri = text.lines().find_map(|line| {
        let mut words = line.split(' ');
        let [origin, label, codename, uri] = std::array::from_fn(|_| words.next());
        (origin == Some("Debian") && label == Some("Debian") && !codename?.contains('-'))
            .then(|| uri.map(str::to_string))?
    });
    uri.context("this machine's apt knows no Debian mirror (apt-get indextargets)")
}

/// apt with its own state.
struct Apt {
    folder: tempfile::TempDir,
    bar: ProgressBar,
}

fn fetch_suite(
    suite: &str,
    which: Which,
    mirror: &str,
    cache: &Path,
    progress: &MultiProgress,
) -> anyhow::Result<Kernel> {
    let keyring = Path::new("/usr/share/keyrings/debian-archive-keyring.gpg");
    anyhow::ensure!(keyring.exists(), "{} is missing", keyring.display());
    let bar = progress.add(ProgressBar::new(100));
    bar.set_style(style());
    // a killed fetch could not clean up after itself
    remove_fetches(cache, |process| !Path::new(&format!("/proc/{process}")).exists());
    let mut folder = tempfile::Builder::new();
    let prefix = format!("{FETCH}{}-", std::process::id());
    let folder = folder.prefix(&prefix).tempdir_in(cache).context("the cache is not writable")?;
    let apt = Apt { folder, bar };
    let source = format!("deb [signed-by={}] {mirror} {suite} main\n", keyring.display());
    for folder in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(apt.path(folder))?;
    }
    fs::write(apt.path("sources.list"), source)?;
    apt.run("reading the package list", &["update"])?;
    let images = match which {
        Which::Newest => vec![apt.newest()?],
        Which::Oldest => apt.oldest_first()?,
    };
    let mut result = Err(anyhow::anyhow!("it has no cloud kernel"));
    for image in images.into_iter().take(FETCHED_MAX) {
        result = apt.fetch(image, cache);
        if result.is_ok() {
            break;
        }
    }
    apt.bar.finish_and_clear();
    result
}

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{msg:28} [{bar:30}] {percent:>3}% {elapsed}");
    style.expect("the template is valid").progress_chars("=> ")
}

impl Apt {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let folders = [
            ("Dir::Etc::sourcelist", "sources.list"),
            ("Dir::Etc::sourceparts", "none"),
            ("Dir::Etc::preferences", "none"),
            ("Dir::Etc::preferencesparts", "none"),
            ("Dir::State::lists", "lists"),
            ("Dir::Cache", "cache"),
        ];
        for (option, name) in folders {
            command.arg("-o").arg(format!("{option}={}", self.path(name).display()));
        }
        let settings = [
            "Dir::State::status=/dev/null",
            "Acquire::Languages=none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false",
            "APT::Sandbox::User=",
            "APT::Status-Fd=1",
            "APT::Update::Error-Mode=any",
        ];
        for setting in settings {
            command.args(["-o", setting]);
        }
        command.current_dir(self.folder.path()).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        die_with_parent(&mut command, Signal::KILL);
        command
    }

    /// Runs apt-get with a progress bar; an error is apt's own last line.
    fn run(&self, what: &str, arguments: &[&str]) -> anyhow::Result<()> {
        self.bar.set_message(what.to_string());
        self.bar.set_position(0);
        let (said, says) = std::io::pipe()?;
        let mut command = self.command("apt-get");
        command.args(["-q", "-y"]).args(arguments).stdout(says.try_clone()?).stderr(says);
        let mut child = command.spawn().context("cannot run apt-get")?;
        // the command holds the other end of the pipe, which would never close
        drop(command);
        let mut error = None;
        for line in BufReader::new(said).lines().map_while(Result::ok) {
            let percent = line.strip_prefix("dlstatus:").and_then(|rest| rest.split(':').nth(1));
            if let Some(percent) = percent.and_then(|text| text.parse::<f64>().ok()) {
                self.bar.set_position(percent as u64);
            } else if let Some(why) = line.strip_prefix("E: ") {
                error.get_or_insert_with(|| why.trim().to_string());
            }
        }
        if !child.wait()?.success() {
            bail!("apt-get: {}", error.as_deref().unwrap_or("failed without a word"));
        }
        Ok(())
    }

    /// The package of the newest cloud kernel.
    fn newest(&self) -> anyhow::Result<String> {
        let depends = self.field(PACKAGE, "Depends")?;
        package_names(&depends)
            .find(|name| name.starts_with(IMAGE))
            .with_context(|| format!("{PACKAGE} depends on no kernel"))
    }

    /// Packages of all cloud kernels, the oldest first.
    fn oldest_first(&self) -> anyhow::Result<Vec<String>> {
        let output = self.command("apt-cache").args(["pkgnames", IMAGE]).output()?;
        let names = String::from_utf8_lossy(&output.stdout);
        let mut images: Vec<(Vec<u64>, String)> =
            names.lines().filter_map(|name| Some((version(name)?, name.to_string()))).collect();
        images.sort();
        Ok(images.into_iter().map(|(_, name)| name).collect())
    }

    /// Fetches the kernel of a package and its configuration into the cache.
    fn fetch(&self, image: String, cache: &Path) -> anyhow::Result<Kernel> {
        let packages = self.packages(image);
        let mut download = vec!["download"];
        download.extend(packages.iter().map(String::as_str));
        self.run("fetching a kernel", &download)?;
        let kernel = self.unpack().and_then(|()| self.keep(cache));
        for left in ["root", "whole"].map(|name| self.path(name)).iter().filter(|it| it.exists()) {
            fs::remove_dir_all(left)?;
        }
        kernel
    }

    /// The packages with the kernel of a package and its configuration.
    fn packages(&self, image: String) -> Vec<String> {
        // newer kernels come as linux-binary-X and linux-base-X, older ones whole in linux-image-X
        let parts = self.field(&image, "Depends").unwrap_or_default();
        let release = image.strip_prefix(IMAGE).unwrap_or_default();
        let mut packages: Vec<String> = ["linux-binary-", "linux-base-"]
            .map(|prefix| format!("{prefix}{release}"))
            .into_iter()
            .filter(|part| package_names(&parts).any(|name| name == *part))
            .collect();
        packages.push(image);
        packages
    }

    fn field(&self, package: &str, field: &str) -> anyhow::Result<String> {
        let output = self.command("apt-cache").args(["show", package]).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(": "));
        value.map(str::to_string).with_context(|| format!("{package} is not in this suite"))
    }

    /// Unpacks the downloaded packages and removes them.
    fn unpack(&self) -> anyhow::Result<()> {
        self.bar.set_message("unpacking the kernel");
        fs::create_dir(self.path("root"))?;
        for entry in fs::read_dir(self.folder.path())?.flatten() {
            if entry.path().extension().is_some_and(|end| end == "deb") {
                let output = Command::new("dpkg-deb")
                    .arg("-x")
                    .args([entry.path(), self.path("root")])
                    .output()
                    .context("cannot run dpkg-deb")?;
                let said = String::from_utf8_lossy(&output.stderr);
                let full = said.lines().find(|line| line.contains(FULL));
                let why = full.or(said.lines().next()).unwrap_or("failed without a word");
                anyhow::ensure!(output.status.success(), "dpkg-deb: {why}");
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Probes the kernel and moves it into the cache in one step.
    fn keep(&self, cache: &Path) -> anyhow::Result<Kernel> {
        self.bar.set_message("probing the kernel");
        let image = find_file(&self.path("root"), "vmlinuz").context("no vmlinuz in it")?;
        let config = find_file(&self.path("root"), "config").context("no config in it")?;
        let whole = self.path("whole");
        fs::create_dir(&whole)?;
        fs::copy(&image, whole.join("vmlinuz"))?;
        fs::copy(&config, whole.join("config"))?;
        let release = probe::release(&image)?;
        let kernel = |folder: &Path, probed| Kernel {
            image: folder.join("vmlinuz"),
            config: Some(folder.join("config")),
            release: release.clone(),
            probed,
        };
        let probed = probe_files(&kernel(&whole, false), &whole.join("btf"))
            .with_context(|| format!("kernel {release} is unsound"))?;
        let place = cache.join(&release);
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        fs::rename(&whole, &place)?;
        Ok(kernel(&place, probed))
    }
}

/// The kernel's version in a package name, as it sorts. None: the package is no cloud kernel's.
fn version(package: &str) -> Option<Vec<u64>> {
    let release = package.strip_prefix(IMAGE)?.strip_suffix(FLAVOUR)?;
    let version = release.split(['+', '-']).next()?;
    version.split('.').map(|number| number.parse().ok()).collect()
}

/// Names in a `Depends` field, versions and alternatives apart.
fn package_names(depends: &str) -> impl Iterator<Item = String> {
    depends.split([',', '|']).filter_map(|part| part.split_whitespace().next().map(str::to_string))
}

/// The file called `name` or `name-RELEASE`.
fn find_file(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut todo = vec![folder.to_path_buf()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(folder).ok()?.flatten() {
            let path = entry.path();
            let found = entry.file_name().to_string_lossy().into_owned();
            let is_it = found == name || found.starts_with(&format!("{name}-"));
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => todo.push(path),
                Ok(kind) if kind.is_file() && is_it => return Some(path),
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_without_versions() {
        let text = "linux-base (>= 4.17~), dracut | linux-initramfs-tool, linux-binary-1 (= 1-1)";
        let names: Vec<_> = package_names(text).collect();
        assert_eq!(names, ["linux-base", "dracut", "linux-initramfs-tool", "linux-binary-1"]);
    }

    #[test]
    fn versions_sort_as_numbers() {
        let version = |name: &str| version(&format!("linux-image-{name}"));
        assert_eq!(version("6.16.3+deb13-cloud-amd64"), Some(vec![6, 16, 3]));
        assert_eq!(version("7.3-cloud-amd64"), Some(vec![7, 3]));
        assert!(version("6.16.3+deb13-cloud-amd64") < version("6.16.12+deb13-cloud-amd64"));
        for other in ["cloud-amd64", "6.16.3+deb13-amd64", "6.16.3+deb13-cloud-amd64-dbg", "-1"] {
            assert_eq!(version(other), None, "{other}");
        }
    }

    #[test]
    fn what_a_killed_fetch_left_is_removed_and_nothing_else() {
        let cache = tempfile::tempdir().unwrap();
        for name in [".fetch-1-abc", ".fetch-4000000-abc", ".fetch-x", "7.2.12"] {
            fs::create_dir_all(cache.path().join(name).join("lists")).unwrap();
        }
        // a process has a number of at most 2^22
        remove_fetches(cache.path(), |process| process == 4_000_000);
        let mut left: Vec<_> = fs::read_dir(cache.path()).unwrap().flatten().collect();
        left.sort_by_key(fs::DirEntry::file_name);
        let left: Vec<_> = left.iter().map(|entry| entry.file_name()).collect();
        assert_eq!(left, [".fetch-1-abc", ".fetch-x", "7.2.12"]);
    }

    #[test]
    fn a_file_that_is_no_kernel_is_refused_in_one_line() {
        let error = named(Path::new("/etc/passwd")).unwrap_err().to_string();
        assert!(error.starts_with("--kernel /etc/passwd: "), "{error}");
        assert!(error.contains("no x86 kernel image"), "{error}");
        let error = named(Path::new("/nowhere/vmlinuz")).unwrap_err().to_string();
        assert!(error.contains("cannot be read") && !error.contains('\n'), "{error}");
    }
}
