// SPDX-License-Identifier: GPL-2.0-only
//! Boots the guest, watches it, and collects outcomes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use live::{Broken, die_with_parent};
use rustix::process::Signal;
use trace::{Event, Outcome};

use crate::closure::{add_libraries, add_program, add_with, behind_shim, which};
use crate::folders::{PATH, PROGRAMS};
use crate::image::Image;
use crate::job::{JOB, Job, JobPolicy, JobScheduler, JobWorkload, Measured, Message};
use crate::kept::Kept;
use crate::lookup::{missing, refused_or_told};
use crate::qemu::{self, Files, Threads};
use crate::traced::Traced;
use crate::{BadInput, Clock, Kernel, PolicyRef, Request, WorkloadRef, emulator, kernel};

/// A guest that has sent nothing for this long of the host's time hangs. No task of the guest may send while a workload
/// runs, but this is far longer than any usual run under emulation.
const SILENCE_MAX: Duration = Duration::from_secs(900);

/// A guest with CPUs side by side has a thread that says every few seconds that it is alive, and that no task can keep
/// from running. If it is silent for this long of the host's time, its kernel or the emulator hangs. A boot takes some
/// ten seconds, beside others a minute.
const BEATLESS_MAX: Duration = Duration::from_secs(180);

/// A caller that asks for a longer limit than this means to wait for it.
const LIMIT_USUAL: Duration = Duration::from_secs(600);

/// The host's time as a multiple of the guest's, at most, on a clock of one instruction per ns: an emulator executes at
/// least 50 million of them a second.
const EMULATION_MAX: u32 = 20;

/// How long a guest with this request may be silent on the host's clock.
fn silence_max(request: &Request) -> Duration {
    let times = match request.clock {
        Clock::Threads => 1,
        Clock::Dilated | Clock::Icount => EMULATION_MAX,
        // each of the guest's seconds is one of every CPU's
        Clock::Parallel => EMULATION_MAX * request.shape.cpus as u32,
    };
    match request.limit > LIMIT_USUAL {
        true => request.limit.saturating_mul(times).saturating_add(SILENCE_MAX),
        false => SILENCE_MAX,
    }
}

/// Least time between lines of a log.
const QUIET_MAX: Duration = Duration::from_secs(60);

/// How much later than its message the last record may arrive.
const RECORDS_LATE_MAX: Duration = Duration::from_secs(60);

/// Runs the workload under every policy; returns outcomes by policy, boot and run. `agent` is the executable that calls
/// [`crate::guest::main`].
pub fn run(
    request: &Request,
    agent: &Path,
    progress: &MultiProgress,
) -> anyhow::Result<Vec<Outcome>> {
    Ok(run_noted(request, agent, progress)?.0)
}

/// [`run`], with notes for the reader: programs that the command may call and that are not in the guest.
pub fn run_noted(
    request: &Request,
    agent: &Path,
    progress: &MultiProgress,
) -> anyhow::Result<(Vec<Outcome>, Vec<String>)> {
    let (runs, notes) = boots(request, agent, progress, false)?;
    Ok((runs.into_iter().map(|run| run.outcome).collect(), notes))
}

/// [`run`], with the events, and the callbacks of policies that write them down. Keeps nothing.
pub fn run_traced(
    request: &Request,
    agent: &Path,
    progress: &MultiProgress,
) -> anyhow::Result<Vec<Traced>> {
    Ok(boots(request, agent, progress, true)?.0)
}

/// `events`: whether the caller wants them. There may be a million in a run, and a hundred runs.
fn boots(
    request: &Request,
    agent: &Path,
    progress: &MultiProgress,
    events: bool,
) -> anyhow::Result<(Vec<Traced>, Vec<String>)> {
    request.shape.check()?;
    let kernel = kernel::find(request.kernel.as_deref(), request.cache.as_deref(), progress)?;
    let emulator = emulator(request.emulator.as_deref(), request.clock)?;
    let scratch = tempfile::tempdir().context("no room for the guest's files")?;
    let image = scratch.path().join("image");
    let notes = pack(request, agent, &kernel, &image)?;
    let kept = match &request.keep {
        Some(keep) if !events => Some(Kept::new(keep, request, &emulator, &kernel, &image)?),
        _ => None,
    };

    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let done = Done::new(request, progress);
    let boot = |boot: usize| -> anyhow::Result<Vec<Traced>> {
        let before = kept.as_ref().map_or(Ok(None), |kept| kept.get(boot))?;
        if let Some(runs) = before {
            done.bar.inc(runs.len() as u64);
            return Ok(runs);
        }
        let (emulator, kernel, image) = (&emulator, &kernel, &image);
        let guest = Guest { request, emulator, kernel, image, boot, events, done: &done };
        let runs = guest.boot(scratch.path()).with_context(|| format!("boot {}", boot + 1))?;
        if let Some(kept) = &kept {
            kept.put(boot, &runs)?;
        }
        Ok(runs)
    };
    let boots = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= request.boots {
                break;
            }
            let result = boot(number);
            if result.is_err() {
                next.store(request.boots, Ordering::Relaxed);
            }
            results.lock().expect("no boot panics").push(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..side_by_side(request) {
            scope.spawn(boots);
        }
    });
    done.bar.finish_and_clear();
    let results: anyhow::Result<Vec<_>> =
        results.into_inner().expect("no boot panics").into_iter().collect();
    let mut runs: Vec<Traced> = results?.into_iter().flatten().collect();
    let place = |outcome: &Outcome| {
        request.policies.iter().position(|policy| policy.label() == outcome.policy)
    };
    runs.sort_by_key(|Traced { outcome, .. }| (place(outcome), outcome.boot, outcome.run));
    for Traced { outcome, .. } in &mut runs {
        outcome.run += outcome.boot * request.runs_per_boot;
    }
    Ok((runs, notes))
}

fn runs_per_boot(request: &Request) -> usize {
    request.policies.len() * request.runs_per_boot
}

/// Guests on a clock of instructions do not disturb each other; guests on the host's clock do.
fn side_by_side(request: &Request) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    if request.clock.counts_instructions() { cores.min(request.boots).max(1) } else { 1 }
}

/// How many runs are done, shown to the waiting user.
struct Done {
    bars: MultiProgress,
    bar: ProgressBar,
    say: Option<fn(&str)>,
    start: Instant,
    /// Time of the last line.
    said: Mutex<Instant>,
}

impl Done {
    fn new(request: &Request, progress: &MultiProgress) -> Self {
        let bar = progress.add(ProgressBar::new((request.boots * runs_per_boot(request)) as u64));
        bar.set_style(style());
        bar.enable_steady_tick(Duration::from_millis(200));
        let start = Instant::now();
        let bars = progress.clone();
        Done { bars, bar, say: request.say, start, said: Mutex::new(start) }
    }

    /// Counts one more finished run.
    fn one_more(&self) {
        self.bar.inc(1);
        let Some(say) = self.say else { return };
        let mut said = self.said.lock().expect("no thread panics");
        if said.elapsed() >= QUIET_MAX {
            let (runs, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
            say(&format!("guest runs {runs}/{all} after {}", minutes(self.start.elapsed())));
            *said = Instant::now();
        }
    }
}

fn style() -> ProgressStyle {
    let style =
        ProgressStyle::with_template("guest runs {pos:>3}/{len} [{bar:30}] {elapsed} {msg}");
    style.expect("the template is valid").progress_chars("=> ")
}

/// Writes the guest's root file system. Returns notes about the command for the reader.
fn pack(
    request: &Request,
    agent: &Path,
    kernel: &Kernel,
    to: &Path,
) -> anyhow::Result<Vec<String>> {
    let (mut image, mut notes) = (Image::default(), Vec::new());
    let busybox = which("busybox".as_ref())
        .map_err(|_| BadInput("busybox is missing; install busybox-static".into()))?;
    for folder in ["proc", "sys", "dev", "tmp", "run", "root"] {
        image.folder(folder);
    }
    add_program(&mut image, Path::new("/bin/sh"))?;
    image.add(Path::new("/bin"))?;
    let mut libraries_of = vec![agent.to_path_buf(), busybox.clone()];
    image.place("/init", agent);
    image.add(&busybox)?;
    let here = std::env::current_dir().context("the current folder is gone")?;
    let mut program = PathBuf::new();
    if let WorkloadRef::Command { argv, with } = &request.workload {
        let first = argv.first().ok_or_else(|| BadInput("there is no command to run".into()))?;
        program = behind_shim(which(first)?);
        add_program(&mut image, &program)?;
        for path in with {
            add_with(&mut image, path)?;
        }
        image.add(&here)?;
        let applets = applets(&busybox)?;
        let is_there = |word: &str| is_in_guest(&image, word, &applets);
        notes = refused_or_told(&missing(argv, &program, &is_there), "the guest")?;
    }
    add_libraries(&mut image, &std::mem::take(&mut libraries_of))?;
    for policy in &request.policies {
        if let PolicyRef::Program { argv, .. } = policy {
            add_program(&mut image, &program_of(argv)?)?;
            // scx's schedulers keep a socket there
            image.folder("var/run");
        }
    }
    if let Some(config) = &kernel.config {
        image.place(&format!("/boot/config-{}", kernel.release), config);
    }
    let job = job(request, kernel, &program.to_string_lossy(), &here.to_string_lossy())?;
    image.write(JOB, serde_json::to_vec(&job)?);
    let file = File::create(to).with_context(|| to.display().to_string())?;
    image.archive(BufWriter::with_capacity(1 << 20, file)).context("packing the guest's files")?;
    Ok(notes)
}

/// A scheduler's program on this machine.
fn program_of(argv: &[String]) -> Result<PathBuf, BadInput> {
    which(argv.first().map_or("", String::as_str).as_ref())
}

/// Names of busybox's applets: these programs are in the guest.
fn applets(busybox: &Path) -> anyhow::Result<BTreeSet<String>> {
    let listed = Command::new(busybox).arg("--list").output().context("busybox")?;
    Ok(String::from_utf8_lossy(&listed.stdout).lines().map(String::from).collect())
}

/// Whether the guest finds this program, or has a file at this path.
fn is_in_guest(image: &Image, word: &str, applets: &BTreeSet<String>) -> bool {
    if word.contains('/') {
        return image.leads_to(Path::new(word));
    }
    let folders = PATH.split(':').chain([PROGRAMS]).map(Path::new);
    applets.contains(word) || folders.into_iter().any(|folder| image.leads_to(&folder.join(word)))
}

fn job(request: &Request, kernel: &Kernel, program: &str, folder: &str) -> anyhow::Result<Job> {
    let dilation = match request.clock {
        Clock::Dilated => request.shape.cpus as u64,
        Clock::Parallel | Clock::Icount | Clock::Threads => 1,
    };
    let policy = |policy: &PolicyRef| {
        let mut wanted = JobPolicy::from(policy);
        if let JobScheduler::Program { argv } = &mut wanted.scheduler {
            argv[0] = program_of(argv)?.to_string_lossy().into_owned();
        }
        Ok::<_, BadInput>(wanted)
    };
    Ok(Job {
        policies: request.policies.iter().map(policy).collect::<Result<_, _>>()?,
        workload: JobWorkload::new(&request.workload, program, folder),
        runs: request.runs_per_boot,
        dilation,
        observe: request.observe,
        record: request.record,
        count_locks: request.count_locks,
        limit_s: request.limit.as_secs_f64(),
        show: request.show.is_some(),
        core_types: request.shape.core_types.clone(),
        clocks: request.shape.clocks.dilated(dilation),
        profile: request.profile.clone(),
        probe: !kernel.probed,
        beats: request.clock == Clock::Threads,
    })
}

/// One boot.
struct Guest<'a> {
    request: &'a Request,
    emulator: &'a Path,
    kernel: &'a Kernel,
    image: &'a Path,
    boot: usize,
    events: bool,
    done: &'a Done,
}

/// Ends QEMU however the boot ends.
struct Emulator(Child);

/// How long a guest that hangs has to say where its CPUs are.
const ANSWER_MAX: Duration = Duration::from_secs(30);

impl Emulator {
    /// Sends a guest that hangs an interrupt that its kernel cannot block, and waits for the answer: its kernel panics
    /// and ends the emulator.
    fn ask_where(&mut self) {
        let Some(monitor) = &mut self.0.stdin else { return };
        if writeln!(monitor, "nmi").and_then(|()| monitor.flush()).is_err() {
            return;
        }
        let asked = Instant::now();
        while asked.elapsed() < ANSWER_MAX && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // normally it has ended by itself, and there is nothing to kill
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The emulator broke the guest, which no kernel and no policy can do in these ways. Both are bugs of QEMU's with CPUs
/// side by side. First, a trap in code that the kernel was patching (jump labels, trampolines): one CPU ran it while
/// another wrote it. This is seen in 7.2, and more often with more CPUs: of guests with eight CPUs that load a policy,
/// it breaks more than half the boots. Second, CPUs that stand still and do not answer an NMI.
#[derive(Debug, thiserror::Error)]
#[error("the emulator broke the guest {BOOTS_MAX} times: {0}")]
struct EmulatorFault(String);

/// Most attempts at a boot that the emulator breaks.
const BOOTS_MAX: usize = 4;

impl Guest<'_> {
    fn boot(&self, scratch: &Path) -> anyhow::Result<Vec<Traced>> {
        let before = self.done.bar.position();
        let mut threads = Threads::OneEach;
        let mut tries = 1;
        loop {
            match self.boot_once(scratch, threads) {
                Err(error) if error.is::<EmulatorFault>() && tries < BOOTS_MAX => tries += 1,
                ended => return ended,
            }
            if self.request.or_in_turn {
                threads = Threads::One;
            }
            self.done.bar.set_position(before);
            self.done.bar.set_message("the emulator failed; booting again");
        }
    }

    fn boot_once(&self, scratch: &Path, threads: Threads) -> anyhow::Result<Vec<Traced>> {
        // a boot may send millions of records, and there may be many boots
        let own = tempfile::tempdir_in(scratch)?;
        let [messages, console, complaints, records] =
            ["messages", "console", "qemu", "records"].map(|name| own.path().join(name));
        File::create(&messages)?;
        File::create(&records)?;
        let files = Files {
            kernel: &self.kernel.image,
            image: self.image,
            messages: &messages,
            records: &records,
            console: &console,
        };
        let line: Vec<OsString> = qemu::arguments(self.request, &files, self.boot, threads);
        let mut command = Command::new(self.emulator);
        command
            .args(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(&complaints)?);
        die_with_parent(&mut command, Signal::KILL);
        let child = command.spawn().context("cannot start QEMU")?;
        let mut emulator = Emulator(child);
        let heard = self.listen(&mut emulator, &messages, &records)?;
        match heard.end {
            End::Done => {
                // a plugin writes its counts when the emulator ends by itself
                if self.request.plugin.is_some() {
                    emulator.0.wait()?;
                }
                Ok(heard.runs)
            }
            End::Failed(broken) => bail!(broken),
            End::Silent => {
                let (limit, words) = (silence_max(self.request), last_words(&console, &complaints));
                bail!(
                    "no word from the guest for {} of this machine's time: {words}",
                    minutes(limit)
                )
            }
            End::Hung => {
                emulator.ask_where();
                match hung_where(&console) {
                    Some(words) => bail!("the guest's kernel hangs: {words}"),
                    None => bail!(EmulatorFault("its CPUs stand still".to_string())),
                }
            }
            End::Gone => {
                let words = last_words(&console, &complaints);
                let side_by_side = self.request.clock == Clock::Threads;
                if side_by_side && words.contains("Oops: int3") {
                    bail!(EmulatorFault(words));
                }
                bail!("the guest died: {words}")
            }
        }
    }

    /// Shows the workload's output, with progress bars out of the way.
    fn show(&self, step: &str, line: &str) {
        let Some(show) = self.request.show else { return };
        let line = match self.request.boots {
            1 => format!("[{step}] {line}"),
            _ => format!("[boot {}, {step}] {line}", self.boot + 1),
        };
        self.done.bars.suspend(|| show(&line));
    }

    /// Reads messages until the guest is done, has ended or is silent for too long.
    fn listen(
        &self,
        emulator: &mut Emulator,
        messages: &Path,
        records: &Path,
    ) -> anyhow::Result<Heard> {
        let mut tail = Tail { file: File::open(messages)?, rest: Vec::new() };
        let mut records = File::open(records)?;
        let mut runs = Vec::new();
        let mut last = Instant::now();
        let mut alive = Instant::now();
        loop {
            let gone = emulator.0.try_wait()?.is_some();
            for message in tail.read()? {
                alive = Instant::now();
                if !matches!(message, Message::Alive) {
                    last = alive;
                }
                match message {
                    Message::Alive => {}
                    Message::Up { .. } => self.done.bar.set_message("guest is up"),
                    Message::Step { text } => self.done.bar.set_message(text),
                    Message::Outcome(measured) => {
                        runs.push(complete(*measured, &mut records, self.events)?);
                        self.done.one_more();
                    }
                    Message::Wrote { step, line } => self.show(&step, &line),
                    Message::Failed { why, last } => {
                        return Ok(Heard { runs, end: End::Failed(Broken { why, last }) });
                    }
                    Message::Done => return Ok(Heard { runs, end: End::Done }),
                }
            }
            if gone {
                return Ok(Heard { runs, end: End::Gone });
            }
            if self.request.clock == Clock::Threads && alive.elapsed() > BEATLESS_MAX {
                return Ok(Heard { runs, end: End::Hung });
            }
            if last.elapsed() > silence_max(self.request) {
                return Ok(Heard { runs, end: End::Silent });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn minutes(time: Duration) -> String {
    format!("{} min", time.as_secs() / 60)
}

/// Folds the observer's records into the outcome; keeps each event if `events`.
fn complete(
    measured: Measured,
    records: &mut impl Read,
    keep_events: bool,
) -> anyhow::Result<Traced> {
    let Measured { mut outcome, recording, record_bytes, recorded_bytes, callbacks } = measured;
    let mut events = Vec::new();
    let bytes = sent(records, record_bytes)?;
    outcome.recording = sent(records, recorded_bytes)?;
    let Some(recording) = recording else { return Ok(Traced { outcome, callbacks, events }) };
    let look = |event: &Event| events.extend(keep_events.then(|| event.clone()));
    let outcome = live::complete(outcome, &recording, &bytes, look)?;
    Ok(Traced { outcome, callbacks, events })
}

/// The next `length` bytes that the guest has sent.
fn sent(records: &mut impl Read, length: usize) -> anyhow::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    let start = Instant::now();
    // the ports are two queues: a message may overtake the last records
    while filled < length && start.elapsed() < RECORDS_LATE_MAX {
        match records.read(&mut bytes[filled..])? {
            0 => std::thread::sleep(Duration::from_millis(5)),
            some => filled += some,
        }
    }
    anyhow::ensure!(filled == length, "the guest's records ended early: is the disk full?");
    Ok(bytes)
}

struct Heard {
    runs: Vec<Traced>,
    end: End,
}

enum End {
    Done,
    Failed(Broken),
    Silent,
    Hung,
    Gone,
}

/// Whole lines of a growing file.
struct Tail {
    file: File,
    rest: Vec<u8>,
}

impl Tail {
    fn read(&mut self) -> anyhow::Result<Vec<Message>> {
        self.file.read_to_end(&mut self.rest)?;
        let mut messages = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            messages.push(serde_json::from_slice(&line).context("the guest talks nonsense")?);
        }
        Ok(messages)
    }
}

/// Why the guest ended, in the kernel's words or QEMU's.
fn last_words(console: &Path, complaints: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(console).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // The most telling word first: a guest may run on long after sched_ext reported an error.
    let telling = ["BUG:", "Oops", "Kernel panic", "Out of memory", "sched_ext:", "paceline:"];
    let found = telling.iter().find_map(|sign| lines.iter().find(|line| line.contains(sign)));
    if let Some(line) = found.or(lines.last()) {
        return line.to_string();
    }
    let text = fs::read_to_string(complaints).unwrap_or_default();
    text.lines().next().unwrap_or("it left no word").to_string()
}

/// Where the CPUs of a guest were when an NMI came, in its kernel's words. None: no CPU answered.
fn hung_where(console: &Path) -> Option<String> {
    let text = String::from_utf8_lossy(&fs::read(console).unwrap_or_default()).into_owned();
    let why = text.lines().find(|line| line.contains("Kernel panic"))?.trim();
    let at = text.lines().filter_map(|line| line.split_once("RIP: ")).map(|(_, at)| at.trim());
    Some([why].into_iter().chain(at).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use live::Recording;

    use super::*;

    #[test]
    fn a_guest_may_be_silent_for_as_long_as_its_run_may_take() {
        let silence = |clock, limit_min| {
            let work = WorkloadRef::Command { argv: Vec::new(), with: Vec::new() };
            let limit = Duration::from_secs(60 * limit_min);
            minutes(silence_max(&Request { clock, limit, ..Request::new(Vec::new(), work) }))
        };
        for clock in [Clock::Threads, Clock::Dilated, Clock::Icount] {
            assert_eq!(silence(clock, 1), "15 min");
            assert_eq!(silence(clock, 10), "15 min", "no more was asked for");
        }
        assert_eq!(silence(Clock::Threads, 60), "75 min");
        assert_eq!(silence(Clock::Icount, 60), "1215 min");
        silence(Clock::Dilated, u64::MAX / 60);
    }

    #[test]
    fn events_are_kept_if_they_are_wanted() {
        // A switch on CPU 0 from its idle task to 7, as `struct record` of observe.bpf.c has it.
        let mut record = [0; 40];
        record[..8].copy_from_slice(&5_u64.to_ne_bytes());
        record[10] = 1;
        record[16..20].copy_from_slice(&7_u32.to_ne_bytes());
        let kept = |events| {
            let recording = Recording { cpus: 1, end_ns: 10, ..Recording::default() };
            let measured = Measured {
                outcome: Outcome::default(),
                recording: Some(recording),
                record_bytes: record.len(),
                recorded_bytes: 0,
                callbacks: Vec::new(),
            };
            let run = complete(measured, &mut &record[..], events).unwrap();
            assert_eq!(run.outcome.observed.tasks[&7].cpu_ns, 5);
            run.events.len()
        };
        assert_eq!([kept(true), kept(false)], [1, 0]);
    }

    #[test]
    fn what_killed_the_guest_is_told_before_what_it_survived() {
        let folder = tempfile::tempdir().unwrap();
        let (console, none) = (folder.path().join("console"), folder.path().join("none"));
        let text = "sched_ext: BPF scheduler \"x\" disabled\nOops: int3: 0000 [#1]\nend\n";
        fs::write(&console, text).unwrap();
        assert_eq!(last_words(&console, &none), "Oops: int3: 0000 [#1]");
        fs::write(&console, "booting\nhalf a line").unwrap();
        assert_eq!(last_words(&console, &none), "half a line");
    }

    #[test]
    fn a_kernel_that_hangs_says_where() {
        let folder = tempfile::tempdir().unwrap();
        let console = folder.path().join("console");
        fs::write(&console, "rcu: INFO: rcu_preempt self-detected stall on CPU\n").unwrap();
        assert_eq!(hung_where(&console), None, "it said that before, and answers no more");
        let text = "[ 9.1] Kernel panic - not syncing: NMI\n[ 9.1] RIP: 0010:spin+0x1/0x9\nend\n";
        fs::write(&console, text).unwrap();
        let words = "[ 9.1] Kernel panic - not syncing: NMI; 0010:spin+0x1/0x9";
        assert_eq!(hung_where(&console).as_deref(), Some(words));
    }
}
