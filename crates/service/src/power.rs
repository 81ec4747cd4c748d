// SPDX-License-Identifier: GPL-2.0-only
//! The machine's power profile, as power-profiles-daemon, tuned-ppd or tuned tell it over D-Bus.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use zbus::connection::Builder;
use zbus::export::futures_core::Stream;
use zbus::message::Type;
use zbus::wire::OwnedVariant;
use zbus::{Connection, Message, MessageStream, block_on};

/// The bus is looked for again after this time, if there is none or it went.
const AGAIN: Duration = Duration::from_secs(10);
/// The service waits for the first answer, so that it does not load one policy just to load another.
const FIRST_ANSWER: Duration = Duration::from_secs(2);
/// A profile that does not last for so long is not followed: any user of a desktop may choose one.
const PAUSE: Duration = Duration::from_secs(2);
/// Longest name of a profile, bytes.
const LONGEST: usize = 100;

/// Properties: service, object and interface. Debian 12's power-profiles-daemon has the second name only.
const ACTIVE: [(&str, &str); 2] = [
    ("org.freedesktop.UPower.PowerProfiles", "/org/freedesktop/UPower/PowerProfiles"),
    ("net.hadess.PowerProfiles", "/net/hadess/PowerProfiles"),
];
const TUNED: &str = "com.redhat.tuned";

const BUS: &str = "org.freedesktop.DBus";
/// A service that does not answer for so long has no profile.
const ANSWER_TAKES: Duration = Duration::from_secs(5);

/// The profile, followed by a thread of its own.
#[derive(Debug)]
pub struct PowerProfile {
    now: Arc<Mutex<Option<String>>>,
}

impl PowerProfile {
    /// Begins to follow it, until the process ends. Returns once the profile is known, or soon if no one answers.
    pub fn follow() -> std::io::Result<Self> {
        let now = Arc::<Mutex<Option<String>>>::default();
        let (told, known) = channel();
        let of = PowerProfile { now: now.clone() };
        let set = move |profile| {
            *now.lock().unwrap_or_else(PoisonError::into_inner) = profile;
            let _ = told.send(());
        };
        let work = move || {
            loop {
                // A machine without the bus has no profile.
                let _ = block_on(listen(&set));
                set(None);
                thread::sleep(AGAIN);
            }
        };
        thread::Builder::new().name("power".into()).spawn(work)?;
        let _ = known.recv_timeout(FIRST_ANSWER);
        Ok(of)
    }

    /// None: the machine has none.
    pub fn now(&self) -> Option<String> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Calls `set` with each new profile, until the bus goes.
async fn listen(set: &impl Fn(Option<String>)) -> zbus::Result<()> {
    // Two connections: any user may send signals, and an answer must not stand behind a full queue of them.
    let signals = Connection::system().await?;
    let asks = Builder::system().method_timeout(ANSWER_TAKES).build().await?;
    for service in ACTIVE.map(|(service, _)| service).into_iter().chain([TUNED]) {
        let owner =
            format!("type='signal',sender='{BUS}',member='NameOwnerChanged',arg0='{service}'");
        for rule in [format!("type='signal',sender='{service}'"), owner] {
            the_bus(&signals, "AddMatch", &rule).await?;
        }
    }
    let mut heard = MessageStream::from(&signals);
    loop {
        set(active(&asks).await.filter(|profile| profile.len() <= LONGEST));
        while next(&mut heard).await?.message_type() != Type::Signal {}
        thread::sleep(PAUSE);
    }
}

/// Asks the bus itself.
async fn the_bus(bus: &Connection, method: &str, of: &str) -> zbus::Result<Message> {
    bus.call_method(Some(BUS), "/org/freedesktop/DBus", Some(BUS), method, &of).await
}

/// The next message; an error if the bus has gone.
async fn next(heard: &mut MessageStream) -> zbus::Result<Message> {
    let gone = || zbus::Error::Failure("the bus is gone".into());
    poll_fn(|context| Pin::new(&mut *heard).poll_next(context)).await.unwrap_or_else(|| Err(gone()))
}

/// The active profile.
async fn active(bus: &Connection) -> Option<String> {
    for (service, object) in ACTIVE {
        if runs(bus, service).await {
            let of = Some("org.freedesktop.DBus.Properties");
            let body = (service, "ActiveProfile");
            let told = bus.call_method(Some(service), object, of, "Get", &body).await.ok()?;
            let told: OwnedVariant = told.body().deserialize().ok()?;
            return told.try_into().ok();
        }
    }
    if !runs(bus, TUNED).await {
        return None;
    }
    let of = Some("com.redhat.tuned.control");
    let told = bus.call_method(Some(TUNED), "/Tuned", of, "active_profile", &()).await.ok()?;
    told.body().deserialize().ok().filter(|profile: &String| !profile.is_empty())
}

/// Whether a service runs. The bus would start it for a question.
async fn runs(bus: &Connection, service: &str) -> bool {
    let told = the_bus(bus, "NameHasOwner", service).await;
    told.is_ok_and(|told| told.body().deserialize().is_ok_and(|runs: bool| runs))
}
