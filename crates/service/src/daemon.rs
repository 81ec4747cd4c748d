// SPDX-License-Identifier: GPL-2.0-only
//! The service's loop: it watches the policy in charge, follows the ladder, and answers requests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use comparison::contender::instance;
use comparison::loading::{can_load, outrank_policies};
use live::{Exit, Lookout};
use policy::Instance;
use sd_notify::NotifyState;
use terminal::{Failure, interrupt, output};

use crate::clock::Clock;
use crate::config::{AfterCrash, Config};
use crate::diary::{Diary, Page, STATE, boot};
use crate::ladder::{Ladder, Place};
use crate::metrics::begin;
use crate::power::PowerProfile;
use crate::request::{Answer, Asked, Claim, RUNTIME, Request, Shown, listen};
use crate::scrape::Scraped;
use crate::scx_stats::{SOCKET, ScxStats};
use crate::seat::{Held, Hindrance, Prepared, prepare};
use crate::status::{CLASS, Status, Switched};
use crate::voice::{Field, Told, Voice};

/// How often the kernel is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// The kernel's reason is complete this long after it has ejected the policy.
const REASON_TAKES: Duration = Duration::from_secs(2);
/// Longest time of an ejection: it waits for every task.
const EJECTION_TAKES: Duration = Duration::from_secs(120);
/// Longest turn of the loop: a policy is loaded in it, and waits for the end of another one.
const LOOP_TAKES: Duration = Duration::from_secs(180);
/// How long a new policy waits for the end of the one before it.
const SEAT_TAKES: Duration = Duration::from_secs(20);
/// How often it looks for tasks that wait behind a real-time task.
const LOOK_BEHIND: Duration = Duration::from_secs(10);
/// One part in this many of its time goes into that search.
const LOOK_BEHIND_SHARE: u32 = 200;

/// Runs the service until SIGTERM or Ctrl-C. SIGHUP has it read its config file again.
pub fn serve(path: &Path) -> Result<(), Failure> {
    let config = Config::read(path)?;
    let state = can_load()?;
    let [stop, reload] = interrupt::in_service()?;
    let cannot = |what: &str, error: std::io::Error| Failure::input(format!("{what}: {error}"));
    let claim = Claim::new(Path::new(RUNTIME)).map_err(|error| cannot(RUNTIME, error))?;
    state.check_free().map_err(Failure::input)?;
    let (diary, before) =
        Diary::open(Path::new(STATE), config.dumps).map_err(|error| cannot(STATE, error))?;
    let voice = Voice::begin().map_err(|error| cannot("the journal", error))?;
    output::wait_for_nobody();
    outrank_policies();
    let (to, asked) = channel();
    let shown = Shown::default();
    let _sockets = listen(claim, to, shown.clone()).map_err(|error| cannot(RUNTIME, error))?;
    let beat = pulse().map_err(|error| cannot("a thread", error))?;
    let mut daemon = Daemon::new(path, config, &before, voice, diary, shown, beat);
    daemon.run(&asked, &stop, &reload)
}

/// Tells the service manager's watchdog that the service is alive, as long as its loop is: a switch, and the end of an
/// ejected policy, may take longer than the watchdog waits. Returns what the loop counts up.
fn pulse() -> std::io::Result<Arc<AtomicU64>> {
    let beat = Arc::<AtomicU64>::default();
    let Some(within) = sd_notify::watchdog_enabled() else { return Ok(beat) };
    let seen = beat.clone();
    let work = move || {
        // It must not starve under a policy either.
        let _ = live::outrank_policies();
        let (mut last, mut since) = (0, Instant::now());
        loop {
            let now = seen.load(Ordering::Relaxed);
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if since.elapsed() < LOOP_TAKES {
                let _ = sd_notify::notify(&[NotifyState::Watchdog]);
            }
            thread::sleep(within / 4);
        }
    };
    thread::Builder::new().name("pulse".into()).spawn(work)?;
    Ok(beat)
}

struct Daemon {
    path: PathBuf,
    config: Config,
    ladder: Ladder,
    held: Option<Held>,
    sources: Option<String>,
    /// A policy that the kernel has ejected and not removed yet, and since when.
    leaving: Option<(Held, Instant)>,
    voice: Voice,
    diary: Diary,
    shown: Shown,
    loads: u64,
    ejections: u64,
    last_switch: Option<Switched>,
    stands_aside_for: Option<String>,
    scraped: Option<Scraped>,
    /// Metrics are told as the config file says.
    measures_all: bool,
    scx_stats: Option<ScxStats>,
    power: Option<PowerProfile>,
    /// The power profile that is followed now.
    power_profile: Option<String>,
    lookout: Lookout,
    look_behind: Instant,
    beat: Arc<AtomicU64>,
    boot: String,
    clock: Clock,
    /// Warnings that were given, and are not given again.
    said: BTreeSet<String>,
}

impl Daemon {
    fn new(
        path: &Path,
        config: Config,
        before: &Page,
        voice: Voice,
        diary: Diary,
        shown: Shown,
        beat: Arc<AtomicU64>,
    ) -> Self {
        let boot = boot();
        let clock = Clock::new((before.boot == boot).then_some(before.boot_began_s));
        let now_s = clock.now_s();
        let mut ladder = Ladder::new(config.rungs(), config.times, before.faults.clone(), now_s);
        ladder.forget_old(now_s);
        let mut daemon = Daemon {
            path: path.to_path_buf(),
            config,
            ladder,
            held: None,
            sources: None,
            leaving: None,
            voice,
            diary,
            shown,
            loads: 0,
            ejections: 0,
            last_switch: None,
            stands_aside_for: None,
            scraped: None,
            measures_all: true,
            scx_stats: None,
            power: None,
            power_profile: None,
            lookout: Lookout::new(),
            look_behind: Instant::now() + LOOK_BEHIND,
            beat,
            boot,
            clock,
            said: BTreeSet::new(),
        };
        daemon.after(before);
        daemon.measure();
        daemon.look_at_power_profile();
        daemon
    }

    /// Begins to tell metrics as the config file says, or ends it.
    fn measure(&mut self) {
        // The old one has the socket.
        self.scraped = None;
        let Some(metrics) = &self.config.metrics else { return };
        let core_types = self.config.core_types.as_deref();
        let (scraped, warnings) = begin(metrics, core_types, self.shown.clone());
        self.scraped = Some(scraped);
        self.measures_all = warnings.is_empty();
        for warning in warnings {
            self.voice.warn(warning, vec![("PACELINE_EVENT", "metrics".into())]);
        }
    }

    /// Tools of scx find this policy's figures where they look for the scheduler in charge.
    fn answer_scx_tools(&mut self) {
        let wanted = self.config.scx_stats && self.held.is_some();
        if wanted == self.scx_stats.is_some() {
            return;
        }
        self.scx_stats = None;
        if wanted {
            match ScxStats::listen(Path::new(SOCKET), self.shown.clone()) {
                Ok(stats) => self.scx_stats = Some(stats),
                Err(error) => {
                    self.warn_once(format!("{SOCKET}: {error}: tools of scx have no answer"));
                }
            }
        }
    }

    fn warn_once(&mut self, text: String) {
        if self.said.insert(text.clone()) {
            self.voice.warn(text, Vec::new());
        }
    }

    /// The machine's power profile now, which is followed from the first such question on; None as well if it is not
    /// wanted.
    fn power_profile_now(&mut self, wanted: bool) -> Option<String> {
        if wanted && self.power.is_none() {
            match PowerProfile::follow() {
                Ok(power) => self.power = Some(power),
                Err(error) => self.warn_once(format!("a thread: {error}")),
            }
        }
        self.power.as_ref().filter(|_| wanted).and_then(PowerProfile::now)
    }

    fn look_at_power_profile(&mut self) {
        let profile = self.power_profile_now(!self.config.power_profiles.is_empty());
        if profile != self.power_profile {
            self.follow_power_profile(profile);
        }
    }

    /// Prefers what the config file has for a power profile.
    fn follow_power_profile(&mut self, profile: Option<String>) {
        let preferred = self.config.preferred(profile.as_deref()).cloned();
        if profile != self.power_profile && !self.config.power_profiles.is_empty() {
            let text = match (&profile, &preferred) {
                (None, _) => "the machine has no power profile any more".to_string(),
                (Some(profile), None) => {
                    format!("power profile {profile}: the config file has nothing for it")
                }
                (Some(profile), Some(place)) => {
                    format!("power profile {profile}: {} is preferred", place.name())
                }
            };
            let place = preferred.as_ref().map_or(CLASS, Place::name);
            self.voice.say(text, fields("power-profile", place));
        }
        self.ladder.prefer(preferred);
        self.power_profile = profile;
    }

    /// What the end of the service's earlier life asks for.
    fn after(&mut self, before: &Page) {
        let same_boot = before.boot == self.boot;
        if before.runs {
            let how = if same_boot { "the service was killed" } else { "the machine went down" };
            if let Some(label) = &before.on_trial {
                self.fail(label, &format!("{how} within its grace time"), "crash");
            }
            self.voice.warn(format!("{how} last time"), fields("crash", CLASS));
        }
        if !same_boot {
            return;
        }
        let why = match self.config.after_crash {
            AfterCrash::Class if before.runs => "as after_crash says",
            _ if before.stays_on_class => "as an administrator chose before",
            _ => return,
        };
        self.ladder.choose(Place::Class);
        let text = format!("{CLASS} stays, {why}: see paceline switch and paceline reload");
        self.voice.warn(text, fields("class", CLASS));
    }

    fn run(
        &mut self,
        asked: &Receiver<Asked>,
        stop: &AtomicBool,
        reload: &AtomicBool,
    ) -> Result<(), Failure> {
        self.settle();
        self.show();
        self.voice.tell(Told::Ready);
        while !stop.load(Ordering::Relaxed) {
            self.beat();
            if let Ok(asked) = asked.recv_timeout(LOOK) {
                let answer = self.answer(&asked.request);
                self.show();
                asked.answer(answer);
            }
            if reload.swap(false, Ordering::Relaxed) {
                self.reload_as_signalled();
            }
            self.watch();
            self.look_at_power_profile();
            self.settle();
            self.show();
        }
        self.end()
    }

    fn beat(&self) {
        self.beat.fetch_add(1, Ordering::Relaxed);
    }

    fn end(&mut self) -> Result<(), Failure> {
        self.voice.tell(Told::Stopping);
        self.watch();
        while self.leaving.is_some() {
            self.beat();
            thread::sleep(LOOK);
            self.watch();
        }
        let left = self.held.take().map_or(Ok(()), Held::leave);
        let page = Page { runs: false, on_trial: None, ..self.page() };
        if let Err(error) = self.diary.note(&page) {
            self.voice.warn(format!("{STATE}: {error}"), Vec::new());
        }
        self.voice.say(format!("ends: {CLASS} is in charge"), fields("end", CLASS));
        left
    }

    /// Looks after the policy in charge.
    fn watch(&mut self) {
        if let Some((held, since)) = &self.leaving {
            let most = if held.attached.is_out() { REASON_TAKES } else { EJECTION_TAKES };
            let exit = held.attached.exit();
            let is_over = exit.is_some() || since.elapsed() > most;
            if let Some((held, _)) = self.leaving.take_if(|_| is_over) {
                self.ejected(held, exit);
            }
            return;
        }
        let Some(held) = &mut self.held else { return };
        match held.attached.in_charge() {
            Ok(true) => {
                held.keep_now_and_then();
                self.look_behind();
            }
            Ok(false) => self.leaving = self.held.take().map(|held| (held, Instant::now())),
            Err(error) => {
                let label = held.instance.label.clone();
                drop(self.held.take());
                self.fail(&label, &format!("{error:#}"), "failed");
            }
        }
    }

    /// Warns of tasks that only the administrator can help.
    fn look_behind(&mut self) {
        let began = Instant::now();
        if began < self.look_behind {
            return;
        }
        for behind in self.lookout.look() {
            let text = format!(
                "{}[{}] waits for a CPU that real-time {}[{}] keeps",
                behind.task.name, behind.task.tid, behind.real_time.name, behind.real_time.tid
            );
            self.voice.warn(text, vec![("PACELINE_EVENT", "behind-real-time".into())]);
        }
        self.look_behind = Instant::now() + LOOK_BEHIND.max(began.elapsed() * LOOK_BEHIND_SHARE);
    }

    /// The kernel has ejected a policy, and said why.
    fn ejected(&mut self, held: Held, exit: Option<Exit>) {
        let label = held.instance.label.clone();
        let again = held.attached.wants_to_be_loaded_again();
        drop(held);
        let exit = exit.unwrap_or_else(|| Exit {
            reason: "it gave no reason (see dmesg)".into(),
            ..Exit::default()
        });
        let why = exit.to_string();
        if again {
            self.voice.say(format!("{label} is loaded again: {why}"), fields("restart", &label));
            self.ladder.took_over(Place::Class, self.clock.now_s());
            return;
        }
        if exit.is_by_administrator() {
            self.ladder.choose(Place::Class);
            self.ladder.took_over(Place::Class, self.clock.now_s());
            let text = format!(
                "{label} was ended by {why}: {CLASS} stays until paceline switch or reload"
            );
            self.voice.warn(text, fields("ended", &label));
            return;
        }
        self.ejections += 1;
        let at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        match self.diary.keep_dump(&at, &label, &exit) {
            Ok(Some(path)) => {
                let mut fields = fields("dump", &label);
                fields.push(("PACELINE_DUMP", path.display().to_string()));
                self.voice.say(format!("the kernel's dump is in {}", path.display()), fields);
            }
            Ok(None) => {}
            Err(error) => {
                self.voice.warn(format!("the kernel's dump is lost: {error}"), Vec::new());
            }
        }
        self.fail(&label, &format!("the kernel ejected it: {why}"), "ejected");
    }

    fn fail(&mut self, label: &str, why: &str, event: &str) {
        let pause = self.ladder.failed(label, why.to_string(), self.clock.now_s());
        let pause = humantime::format_duration(Duration::from_secs(pause.as_secs()));
        let mut fields = fields(event, label);
        fields.push(("PACELINE_REASON", why.to_string()));
        self.voice.warn(format!("{label}: {why}; it is left alone for {pause}"), fields);
    }

    /// Puts in charge what is wanted. A policy that fails on the way makes room for the next.
    fn settle(&mut self) {
        self.ladder.forget_old(self.clock.now_s());
        for _ in 0..self.config.policies.len() + 3 {
            let wanted = self.ladder.wanted(self.clock.now_s());
            if self.leaving.is_some()
                || self.stands_aside().is_some()
                || wanted == *self.ladder.in_charge()
                || self.change(&wanted).is_ok()
            {
                break;
            }
        }
    }

    /// Another scheduler that is in charge, which may only be while none of ours is.
    fn stands_aside(&mut self) -> Option<&str> {
        let other = match (&self.held, live::state()) {
            (None, Ok(now)) if now.state != "disabled" => Some(now.phrase()),
            _ => None,
        };
        if other != self.stands_aside_for {
            let text = match &other {
                Some(other) => format!("stands aside: {other}"),
                None => "no other scheduler is in charge any more".into(),
            };
            self.voice.warn(text, vec![("PACELINE_EVENT", "other".into())]);
            self.stands_aside_for = other;
        }
        self.stands_aside_for.as_deref()
    }

    /// Puts something else in charge. A policy is verified before the one in charge goes. If it fails then, the kernel
    /// is left to Linux's own class for the moment that the ladder's next one takes.
    fn change(&mut self, to: &Place) -> Result<Switched, String> {
        let Place::Policy(label) = to else {
            let from = self.ladder.in_charge().name().into();
            let switched = Switched { from, to: CLASS.into(), ..Switched::default() };
            let left = self.held.take().map_or(Ok(()), Held::leave);
            self.ladder.took_over(Place::Class, self.clock.now_s());
            self.told(&switched);
            return left.map(|()| switched).map_err(|failure| failure.to_string());
        };
        let policy = instance(label).map_err(|failure| failure.to_string())?;
        let config = self.config.clone();
        match self.prepare(&policy, &config) {
            Ok(prepared) => self.put_in_charge(prepared),
            Err(Hindrance::Policy(failure)) => {
                self.fail(label, &failure.to_string(), "refused");
                Err(failure.to_string())
            }
            Err(Hindrance::Machine(failure)) => {
                let why = failure.to_string();
                if self.ladder.hindered(label, why.clone(), self.clock.now_s()) {
                    let mut fields = fields("hindered", label);
                    fields.push(("PACELINE_REASON", why.clone()));
                    self.voice.warn(format!("{label} cannot be loaded now: {why}"), fields);
                }
                Err(why)
            }
        }
    }

    /// The new policy knows of programs what the one in charge has learned.
    fn prepare(&mut self, policy: &Instance, config: &Config) -> Result<Prepared, Hindrance> {
        self.beat();
        self.held.iter_mut().for_each(Held::keep);
        prepare(policy, config, Path::new(STATE))
    }

    /// Puts a prepared policy in the place of what is in charge. Between the two moments in which the one leaves its seat
    /// and the other takes it, nothing else is done.
    fn put_in_charge(&mut self, prepared: Prepared) -> Result<Switched, String> {
        let is_out = |held: &mut Held| held.attached.in_charge().is_ok_and(|in_charge| !in_charge);
        if let Some(held) = self.held.take_if(is_out) {
            self.leaving = Some((held, Instant::now()));
            return Err(
                "the kernel has ejected the policy in charge meanwhile; try again in a moment"
                    .into(),
            );
        }
        let label = prepared.instance.label.clone();
        let mut switched = Switched {
            from: self.ladder.in_charge().name().into(),
            to: label.clone(),
            prepared_s: prepared.took.as_secs_f64(),
            window_s: None,
        };
        self.note(Some(label.clone()));
        self.beat();
        let began = Instant::now();
        let mut before = self.held.take();
        let left = before.as_mut().map_or(Ok(()), |held| held.attached.leave_seat());
        let seat = seat_within(SEAT_TAKES);
        let taken = seat.is_free().then(|| prepared.take());
        if before.is_some() {
            self.ladder.took_over(Place::Class, self.clock.now_s());
        }
        let result = match taken {
            Some(Ok(held)) => {
                switched.window_s = before.is_some().then(|| (held.began - began).as_secs_f64());
                self.sources = held.sources();
                self.held = Some(held);
                self.loads += 1;
                self.ladder.took_over(Place::Policy(label), self.clock.now_s());
                self.told(&switched);
                Ok(switched)
            }
            // Another one was faster.
            Some(Err(failure)) if !Seat::now().is_free() => Err(failure.to_string()),
            Some(Err(failure)) => {
                self.fail(&label, &failure.to_string(), "refused");
                Err(failure.to_string())
            }
            None => Err(seat.phrase()),
        };
        if let (Some(before), Err(error)) = (before, left) {
            match before.attached.exit().filter(Exit::is_ejection) {
                Some(exit) => self.ejected(before, Some(exit)),
                None => self.voice.warn(format!("{error:#}"), Vec::new()),
            }
        }
        result
    }

    fn told(&mut self, switched: &Switched) {
        let window = switched.window_s.map_or(String::new(), |window_s| {
            format!(", {CLASS} in between for at most {:.0} ms", window_s * 1e3)
        });
        let mut fields = fields("in-charge", &switched.to);
        fields.extend(
            switched
                .window_s
                .map(|window_s| ("PACELINE_WINDOW_US", format!("{:.0}", window_s * 1e6))),
        );
        self.voice
            .say(format!("{} is in charge after {}{window}", switched.to, switched.from), fields);
        if let Some(sources) = self.sources.clone().filter(|_| self.held.is_some()) {
            self.voice.say(sources, vec![("PACELINE_EVENT", "sources".into())]);
        }
        self.last_switch = Some(switched.clone());
    }

    fn answer(&mut self, request: &Request) -> Answer {
        match request {
            Request::Status => Answer::Status(Box::new(self.status())),
            Request::Switch(to) => self.switch(to).map_or_else(Answer::Refused, Answer::Switched),
            Request::Set { knob, value } => self.set(knob, value).unwrap_or_else(Answer::Refused),
            Request::Reload => self.reload().map_or_else(Answer::Refused, Answer::Reloaded),
        }
    }

    fn switch(&mut self, to: &str) -> Result<Switched, String> {
        let place = Place::named(to).map_err(|failure| failure.to_string())?;
        if self.leaving.is_some() {
            return Err(
                "the kernel is removing a policy that it has ejected; try again in a moment".into(),
            );
        }
        if let Some(other) = self.stands_aside() {
            return Err(format!("{other} here: {}", live::STOP_IT));
        }
        self.ladder.choose(place.clone());
        if place == *self.ladder.in_charge() {
            let name = place.name().to_string();
            return Ok(Switched { from: name.clone(), to: name, ..Switched::default() });
        }
        let changed = self.change(&place);
        // What was in charge is back before the answer.
        self.settle();
        changed.map_err(|why| format!("{why}; {} is in charge", self.ladder.in_charge().name()))
    }

    fn set(&mut self, knob: &str, value: &str) -> Result<Answer, String> {
        let held = self.held.as_mut().ok_or("no policy is in charge")?;
        let (old, new) = (held.instance.clone(), held.instance.with(knob, value));
        let new = new.map_err(|error| error.to_string())?;
        let of = |instance: &Instance| instance.written(knob).unwrap_or_default();
        if !held.attached.set(&new, knob).map_err(|error| format!("{error:#}"))? {
            return Err(format!(
                "{knob} is fixed while {} is loaded; load it again with: paceline switch {}",
                old.policy.name, new.label
            ));
        }
        let (before, after) = (of(&old), of(&new));
        self.voice.say(
            format!("{}: {knob} is {after}, and was {before}", old.policy.name),
            fields("set", &new.label),
        );
        self.ladder.adjusted(new.label.clone());
        let policy = new.label.clone();
        held.instance = new;
        Ok(Answer::Set { policy, old: before, new: after })
    }

    fn reload(&mut self) -> Result<Option<Switched>, String> {
        let config = Config::read(&self.path).map_err(|failure| failure.to_string())?;
        let before = self.ladder.in_charge().clone();
        let profile = self.power_profile_now(!config.power_profiles.is_empty());
        let first = match config.preferred(profile.as_deref()) {
            Some(Place::Class) => None,
            Some(Place::Policy(label)) => Some(instance(label).map_err(|why| why.to_string())?),
            None => Some(config.policies[0].clone()),
        };
        let stays = config.loads_like(&self.config)
            && self.held.as_ref().map(|held| &held.instance.label)
                == first.as_ref().map(|first| &first.label);
        // A file whose first policy cannot be loaded changes nothing.
        let prepared = match first.filter(|_| !stays) {
            None => None,
            Some(first) => Some(self.prepare(&first, &config).map_err(|why| why.to_string())?),
        };
        let measures_alike = config.metrics == self.config.metrics
            && config.core_types == self.config.core_types
            && self.measures_all;
        self.config = config;
        if !measures_alike {
            self.measure();
        }
        self.diary.keep(self.config.dumps);
        self.ladder.follow(self.config.rungs(), self.config.times);
        self.follow_power_profile(profile);
        self.voice.say(format!("{} was read again", self.path.display()), fields("reload", CLASS));
        let has_seat = self.leaving.is_none() && self.stands_aside().is_none();
        let switched = prepared.filter(|_| has_seat).map(|prepared| self.put_in_charge(prepared));
        self.settle();
        let is_other = *self.ladder.in_charge() != before;
        Ok(switched.transpose()?.or_else(|| self.last_switch.clone().filter(|_| is_other)))
    }

    fn reload_as_signalled(&mut self) {
        self.voice.tell(Told::Reloading);
        if let Err(why) = self.reload() {
            self.voice.warn(format!("what was in force stays: {why}"), fields("reload", CLASS));
        }
        self.voice.tell(Told::Ready);
    }

    fn page(&self) -> Page {
        Page {
            faults: self.ladder.faults().clone(),
            on_trial: self.ladder.on_trial(self.clock.now_s()).map(str::to_string),
            runs: true,
            stays_on_class: self.ladder.chosen() == Some(&Place::Class),
            boot_began_s: self.clock.boot_began_s,
            boot: self.boot.clone(),
        }
    }

    /// Writes down what the next life has to know. `on_trial`: the policy that is about to be loaded.
    fn note(&mut self, on_trial: Option<String>) {
        let mut page = self.page();
        page.on_trial = on_trial.or(page.on_trial);
        if let Err(error) = self.diary.note(&page) {
            self.warn_once(format!("{STATE}: {error}: failures are forgotten at the next start"));
        }
    }

    fn status(&self) -> Status {
        let now_s = self.clock.now_s();
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            in_charge: self.ladder.in_charge().name().into(),
            for_s: now_s.saturating_sub(self.ladder.since_s()),
            now_s,
            policies: self.config.rungs(),
            chosen: self.ladder.chosen().map(|place| place.name().to_string()),
            on_trial: self.ladder.on_trial(now_s).is_some(),
            partial: self.config.partial,
            faults: self.ladder.faults().clone(),
            loads: self.loads,
            ejections: self.ejections,
            last_switch: self.last_switch.clone(),
            says: self.held.as_ref().and_then(|held| held.attached.says()),
            counts: self
                .held
                .as_ref()
                .and_then(|held| held.attached.totals().ok())
                .unwrap_or_default(),
            sources: self.sources.clone().filter(|_| self.held.is_some()),
            stands_aside_for: self.stands_aside_for.clone(),
            power_profile: self.power_profile.clone(),
        }
    }

    /// Publishes the state.
    fn show(&mut self) {
        self.note(None);
        self.answer_scx_tools();
        let status = self.status();
        let line = format!("{} is in charge", status.in_charge);
        // A reader may be kept from running by the policy: it must not hold up this loop.
        let Ok(mut shown) = self.shown.try_lock() else { return };
        if shown.in_charge != status.in_charge {
            self.voice.tell(Told::Status(line));
        }
        *shown = status.public();
    }
}

/// The kernel's seat for a scheduler.
enum Seat {
    Free,
    /// A scheduler leaves it.
    Left,
    /// This one has it.
    Taken(String),
}

impl Seat {
    fn now() -> Seat {
        match live::state() {
            Ok(now) if now.state == "disabled" => Seat::Free,
            Ok(now) if now.state == "disabling" => Seat::Left,
            Ok(now) => Seat::Taken(now.phrase()),
            Err(error) => Seat::Taken(format!("{error:#}")),
        }
    }

    fn is_free(&self) -> bool {
        matches!(self, Seat::Free)
    }

    fn phrase(self) -> String {
        match self {
            Seat::Taken(by) => format!("{by} here: {}", live::STOP_IT),
            _ => "the kernel does not let the policy before it go".into(),
        }
    }
}

/// Waits for a scheduler that leaves the seat.
fn seat_within(most: Duration) -> Seat {
    let began = Instant::now();
    loop {
        match Seat::now() {
            Seat::Left if began.elapsed() < most => thread::sleep(Duration::from_millis(1)),
            seat => return seat,
        }
    }
}

fn fields(event: &str, policy: &str) -> Vec<Field> {
    vec![("PACELINE_EVENT", event.into()), ("PACELINE_POLICY", policy.into())]
}
