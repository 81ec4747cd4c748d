// SPDX-License-Identifier: GPL-2.0-only
//! Energy that the machine's own counters have counted: of RAPL (powercap), and of hwmon (`energyN_input`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Where the kernel has them.
const SYS: &str = "/sys/class";

/// Counters are read at least so often: those of RAPL begin anew after some minutes.
const LOOK: Duration = Duration::from_secs(20);

/// The counters, read from time to time: RAPL's begin anew after some minutes at full load.
#[derive(Debug, Default)]
pub struct Energy {
    counters: Vec<Counter>,
}

/// Counters that are followed until this is dropped.
pub struct Followed {
    energy: Arc<Mutex<Energy>>,
    _end: Sender<()>,
}

impl Followed {
    /// As [`Energy::read`].
    pub fn read(&self) -> BTreeMap<String, f64> {
        self.energy.lock().unwrap_or_else(PoisonError::into_inner).read()
    }
}

#[derive(Debug)]
struct Counter {
    name: String,
    file: PathBuf,
    /// It begins anew after this, µJ. None: it does not.
    range_uj: Option<u64>,
    last_uj: u64,
    joules: f64,
}

impl Energy {
    /// Calls `act`, and returns the energy that processors took meanwhile, J; None: the machine does not count it.
    pub fn during<T>(act: impl FnOnce() -> T) -> (T, Option<f64>) {
        Self::here().counted(act)
    }

    fn counted<T>(self, act: impl FnOnce() -> T) -> (T, Option<f64>) {
        let followed = self.follow();
        let result = act();
        (result, of_processors(&followed.read()))
    }

    /// Reads the counters every 20 s as well, in a thread of its own.
    pub fn follow(self) -> Followed {
        let has_any = !self.counters.is_empty();
        let energy = Arc::new(Mutex::new(self));
        let (end, ended) = channel::<()>();
        let own = energy.clone();
        let work = move || {
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                own.lock().unwrap_or_else(PoisonError::into_inner).read();
            }
        };
        // Without a thread, what is read is right for some minutes.
        let thread = thread::Builder::new().name("energy".into());
        let _ = has_any.then(|| thread.spawn(work));
        Followed { energy, _end: end }
    }

    /// Those that this machine has, and that this process may read; none on most virtual machines.
    pub fn here() -> Self {
        Self::below(Path::new(SYS))
    }

    fn below(sys: &Path) -> Self {
        let mut counters = rapl(&sys.join("powercap"));
        if counters.is_empty() {
            counters = hwmon(&sys.join("hwmon"));
        }
        counters.sort_by(|a, b| a.name.cmp(&b.name));
        Energy { counters }
    }

    /// Energy since this was made, J, by the part of the machine. A part may hold others: `package-0` holds
    /// `package-0/core`.
    pub fn read(&mut self) -> BTreeMap<String, f64> {
        self.counters.iter_mut().for_each(Counter::look);
        self.counters.iter().map(|of| (of.name.clone(), of.joules)).collect()
    }
}

/// Energy of all processors, J, of what [`Energy::read`] returns; None: no counter is of a whole processor. RAPL calls
/// one `package-N`, and `amd_energy` `EsocketN`. Counters of memory, of graphics or of the whole board are left out:
/// few machines have them.
pub fn of_processors(energy: &BTreeMap<String, f64>) -> Option<f64> {
    let is_processor = |part: &str| match part.split_once('/') {
        None => part.starts_with("package-"),
        Some((chip, part)) => chip == "amd_energy" && part.starts_with("Esocket"),
    };
    let own: Vec<f64> =
        energy.iter().filter(|(part, _)| is_processor(part)).map(|(_, joules)| *joules).collect();
    (!own.is_empty()).then(|| own.iter().sum())
}

impl Counter {
    fn new(name: String, file: PathBuf, range_uj: Option<u64>) -> Option<Self> {
        let last_uj = number(&file)?;
        Some(Counter { name, file, range_uj, last_uj, joules: 0.0 })
    }

    fn look(&mut self) {
        let Some(now_uj) = number(&self.file) else { return };
        let more = match now_uj.checked_sub(self.last_uj) {
            Some(more) => more,
            None => {
                self.range_uj.map_or(0, |range_uj| now_uj + range_uj.saturating_sub(self.last_uj))
            }
        };
        self.joules += more as f64 / 1e6;
        self.last_uj = now_uj;
    }
}

/// Packages, and the parts within. The same packages through other registers (`intel-rapl-mmio`) are left out.
fn rapl(folder: &Path) -> Vec<Counter> {
    let all = entries(folder).filter(|path| name(path).starts_with("intel-rapl:"));
    let counter = |path: PathBuf| {
        let own = text(&path.join("name"))?;
        // intel-rapl:0:1 is within intel-rapl:0
        let of = name(&path);
        let whole = of.rsplit_once(':').filter(|(whole, _)| whole.contains(':'));
        let whole = whole.and_then(|(whole, _)| text(&folder.join(whole).join("name")));
        let name = whole.map_or(own.clone(), |whole| format!("{whole}/{own}"));
        Counter::new(name, path.join("energy_uj"), number(&path.join("max_energy_range_uj")))
    };
    all.filter_map(counter).collect()
}

fn hwmon(folder: &Path) -> Vec<Counter> {
    let of_one = |chip: PathBuf| {
        let inputs: Vec<PathBuf> = entries(&chip)
            .filter(|file| name(file).starts_with("energy") && name(file).ends_with("_input"))
            .collect();
        let chip_name = text(&chip.join("name")).unwrap_or_else(|| name(&chip));
        inputs.into_iter().filter_map(move |file| {
            let label = text(&chip.join(name(&file).replace("_input", "_label")));
            let label = label.unwrap_or_else(|| name(&file).replace("_input", ""));
            Counter::new(format!("{chip_name}/{label}"), file, None)
        })
    };
    entries(folder).flat_map(of_one).collect()
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_string())
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn packages_and_their_parts_are_counted_on_when_they_begin_anew() {
        let sys = tempfile::tempdir().unwrap();
        let range = "262143328850";
        put(
            sys.path(),
            &[
                ("powercap/intel-rapl:0/name", "package-0"),
                ("powercap/intel-rapl:0/energy_uj", "262143000000"),
                ("powercap/intel-rapl:0/max_energy_range_uj", range),
                ("powercap/intel-rapl:0:1/name", "dram"),
                ("powercap/intel-rapl:0:1/energy_uj", "5"),
                ("powercap/intel-rapl:0:1/max_energy_range_uj", range),
                ("powercap/intel-rapl-mmio:0/name", "package-0"),
                ("powercap/intel-rapl-mmio:0/energy_uj", "262143000000"),
                ("powercap/intel-rapl:1/name", "package-1"),
            ],
        );
        let mut energy = Energy::below(sys.path());
        assert_eq!(
            energy.read(),
            [("package-0".into(), 0.0), ("package-0/dram".into(), 0.0)].into()
        );
        put(
            sys.path(),
            &[
                ("powercap/intel-rapl:0/energy_uj", "671150"),
                ("powercap/intel-rapl:0:1/energy_uj", "2000005"),
            ],
        );
        assert_eq!(
            energy.read(),
            [("package-0".into(), 1.0), ("package-0/dram".into(), 2.0)].into()
        );
    }

    #[test]
    fn energy_of_a_run_is_that_of_all_processors() {
        let sys = tempfile::tempdir().unwrap();
        let uj = ["powercap/intel-rapl:0", "powercap/intel-rapl:0:0", "powercap/intel-rapl:1"];
        let at = |own: [&str; 3]| {
            let files: Vec<_> = uj.iter().map(|path| format!("{path}/energy_uj")).collect();
            put(sys.path(), &[(&files[0], own[0]), (&files[1], own[1]), (&files[2], own[2])]);
        };
        let names: Vec<_> = uj.iter().map(|path| format!("{path}/name")).collect();
        let parts = ["package-0", "core", "package-1"];
        put(sys.path(), &[0, 1, 2].map(|at| (&*names[at], parts[at])));
        at(["0", "0", "0"]);
        let energy = Energy::below(sys.path());
        let (said, energy_j) = energy.counted(|| {
            at(["2000000", "1500000", "3000000"]);
            "done"
        });
        assert_eq!((said, energy_j), ("done", Some(5.0)));
        let none = tempfile::tempdir().unwrap();
        assert_eq!(Energy::below(none.path()).counted(|| 7), (7, None));
        let board = [("psys".to_string(), 9.0), ("i915/energy1".to_string(), 1.0)].into();
        assert_eq!(of_processors(&board), None);
    }

    #[test]
    fn without_rapl_hwmon_counts() {
        let sys = tempfile::tempdir().unwrap();
        put(
            sys.path(),
            &[
                ("hwmon/hwmon3/name", "amd_energy"),
                ("hwmon/hwmon3/energy1_input", "1000000"),
                ("hwmon/hwmon3/energy1_label", "Esocket0"),
                ("hwmon/hwmon0/name", "acpitz"),
                ("hwmon/hwmon0/temp1_input", "40000"),
            ],
        );
        let mut energy = Energy::below(sys.path());
        put(sys.path(), &[("hwmon/hwmon3/energy1_input", "3500000")]);
        assert_eq!(energy.read(), [("amd_energy/Esocket0".to_string(), 2.5)].into());
        let none = tempfile::tempdir().unwrap();
        assert!(Energy::below(none.path()).read().is_empty());
    }
}
