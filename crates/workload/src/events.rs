// SPDX-License-Identifier: GPL-2.0-only
//! rt-app's events, one by one: a key such as `run3` and its value become steps.

use crate::hw::{Vector, part, rate};
use crate::json::{Error, Node, unknown};
use crate::objects::{Objects, bytes};
use crate::step::{Object, ObjectId, Step};

/// Kinds of events. A key is recognized by its longest known prefix, as in rt-app.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Run,
    Runtime,
    Mem,
    Io,
    Sleep,
    Timer,
    Lock,
    Unlock,
    Wait,
    Signal,
    Broadcast,
    Sync,
    Barrier,
    Await,
    Set,
    Suspend,
    Resume,
    Yield,
    Stalled,
    Mpki,
    Vector,
    Fork,
    Write,
    Read,
}

/// `runtime` stands before `run`.
const EVENTS: &[(&str, Event)] = &[
    ("runtime", Event::Runtime),
    ("run", Event::Run),
    ("mem", Event::Mem),
    ("iorun", Event::Io),
    ("sleep", Event::Sleep),
    ("timer", Event::Timer),
    ("lock", Event::Lock),
    ("unlock", Event::Unlock),
    ("wait", Event::Wait),
    ("signal", Event::Signal),
    ("broad", Event::Broadcast),
    ("sync", Event::Sync),
    ("barrier", Event::Barrier),
    ("await", Event::Await),
    ("set", Event::Set),
    ("suspend", Event::Suspend),
    ("resume", Event::Resume),
    ("yield", Event::Yield),
    ("stalled", Event::Stalled),
    ("mpki", Event::Mpki),
    ("vector", Event::Vector),
    ("fork", Event::Fork),
    ("write", Event::Write),
    ("read", Event::Read),
];

/// Events of rt-app that are not modelled.
const REFUSED: &[&str] = &[
    "memrun",
    "sem_post",
    "sem_wait",
    "dl-",
    "util_",
    "exec",
    "period",
    "deadline",
    "lock_order",
    "resources",
];

fn event(key: &str) -> Option<Event> {
    EVENTS.iter().find(|(name, _)| key.starts_with(name)).map(|(_, event)| *event)
}

/// Whether a key is an event. If not, it is refused by its name, or `known` lists what may stand there.
pub(crate) fn expect(key: &str, node: Node, known: &str) -> Result<(), Error> {
    if let Some(name) = REFUSED.iter().find(|name| key.starts_with(**name)) {
        return Err(node.error(format!("\"{name}\" of rt-app is not modelled")));
    }
    if event(key).is_some() { Ok(()) } else { Err(unknown(node, key, known)) }
}

/// The objects and tasks that the events of one task refer to.
pub(crate) struct Scope<'r, 'a> {
    pub(crate) objects: &'r mut Objects,
    /// Names of forked tasks; steps hold indices into it until all tasks are read.
    pub(crate) forks: &'r mut Vec<(String, Node<'a>)>,
    pub(crate) task: &'r str,
    /// Threads that do this: the task's instances, or none if the task is only forked.
    pub(crate) threads: u32,
    /// Bytes of the buffer that `mem` and `iorun` write.
    pub(crate) buffer: u32,
    /// Mutexes held at this place of the text.
    pub(crate) held: Vec<ObjectId>,
}

impl<'a> Scope<'_, 'a> {
    /// The events among an object's members, in order. `once`: they are in no loop.
    pub(crate) fn steps(
        &mut self,
        members: &[(String, Node<'a>)],
        once: bool,
    ) -> Result<Vec<Step>, Error> {
        let mut steps = Vec::new();
        for (key, node) in members {
            if let Some(event) = event(key) {
                self.event(event, key, *node, once, &mut steps)?;
            }
        }
        Ok(steps)
    }

    fn event(
        &mut self,
        event: Event,
        key: &str,
        node: Node<'a>,
        once: bool,
        steps: &mut Vec<Step>,
    ) -> Result<(), Error> {
        let step = match event {
            Event::Run => Step::Run { work_ns: node.micros(key)? },
            Event::Runtime => Step::Runtime { wall_ns: node.micros(key)? },
            Event::Mem => Step::Mem { bytes: bytes(node, key)?, buffer: self.buffer },
            Event::Io => Step::Io { bytes: bytes(node, key)?, buffer: self.buffer },
            Event::Sleep => Step::Sleep { ns: node.micros(key)? },
            Event::Yield => Step::Yield,
            Event::Stalled => Step::Stalled { part: part(node, key)? },
            Event::Mpki => Step::Mpki { mpki: rate(node, key, 0.0)? },
            Event::Vector => Step::Vector(Vector::parse(node, key)?),
            Event::Timer => self.timer(key, node)?,
            Event::Lock => {
                let mutex = self.mutex(node.string(key)?);
                if self.held.contains(&mutex) {
                    return Err(node.error(format!("{key}: {} is already held", node.text())));
                }
                self.held.push(mutex);
                Step::Lock(mutex)
            }
            Event::Unlock => {
                let mutex = self.mutex(node.string(key)?);
                self.must_hold(mutex, key, node)?;
                self.held.retain(|held| *held != mutex);
                Step::Unlock(mutex)
            }
            Event::Wait => {
                let (condition, mutex) = self.condition_and_mutex(key, node)?;
                self.must_hold(mutex, key, node)?;
                Step::Wait { condition, mutex }
            }
            Event::Sync => return self.sync(key, node, steps),
            Event::Signal => Step::Signal(self.condition(node.string(key)?)),
            Event::Broadcast => Step::Broadcast(self.condition(node.string(key)?)),
            Event::Barrier => {
                Step::Barrier(self.objects.join_barrier(node.string(key)?, self.threads))
            }
            Event::Await => {
                let (flag, up) = self.flag(key, node)?;
                Step::Await { flag, up }
            }
            Event::Set => {
                let (flag, up) = self.flag(key, node)?;
                Step::Set { flag, up }
            }
            Event::Suspend => {
                let name = node.string(key)?;
                let name = if name.is_empty() { self.task.to_string() } else { name };
                Step::Suspend(self.suspension(name))
            }
            Event::Resume => Step::Resume(self.suspension(node.string(key)?)),
            Event::Fork if !once => {
                let problem = format!("{key}: a fork inside a loop is not modelled; set loop to 1");
                return Err(node.error(problem));
            }
            Event::Fork => {
                self.forks.push((node.string(key)?, node));
                Step::Fork(self.forks.len() - 1)
            }
            Event::Write => {
                let (channel, bytes) = self.message(key, node)?;
                Step::Write { channel, bytes }
            }
            Event::Read => {
                let (channel, bytes) = self.message(key, node)?;
                Step::Read { channel, bytes }
            }
        };
        steps.push(step);
        Ok(())
    }

    /// Signal and wait in one; takes the mutex for that unless it is held.
    fn sync(&mut self, key: &str, node: Node<'a>, steps: &mut Vec<Step>) -> Result<(), Error> {
        let (condition, mutex) = self.condition_and_mutex(key, node)?;
        let take = !self.held.contains(&mutex);
        steps.extend(take.then_some(Step::Lock(mutex)));
        steps.extend([Step::Signal(condition), Step::Wait { condition, mutex }]);
        steps.extend(take.then_some(Step::Unlock(mutex)));
        Ok(())
    }

    /// A timer is the task's own where its name begins with `unique`.
    fn timer(&mut self, key: &str, node: Node<'a>) -> Result<Step, Error> {
        let (mut name, mut period_ns, mut relative) = (None, None, true);
        for (field, value) in node.members(key)? {
            match field.as_str() {
                "ref" => name = Some(value.string("ref")?),
                "period" => period_ns = Some(value.micros("period")?),
                "mode" => relative = timer_mode(value)?,
                _ => return Err(unknown(value, &field, "ref, period, mode")),
            }
        }
        let name = name.ok_or_else(|| node.error(format!("{key}: expected a \"ref\"")))?;
        let period_ns =
            period_ns.ok_or_else(|| node.error(format!("{key}: expected a \"period\" in µs")))?;
        let own = name.starts_with("unique")
            || (self.threads <= 1 && self.objects.claim_timer(&name, self.task));
        if !own {
            return Err(node.error(format!(
                "{key}: several threads use the timer {name}; a name that begins with \"unique\" \
                 gives each its own"
            )));
        }
        let name = format!("{} {name}", self.task);
        let timer = self.objects.get("timer", name, || Object::Timer);
        Ok(Step::Timer { timer, period_ns, relative })
    }

    fn flag(&mut self, key: &str, node: Node<'a>) -> Result<(ObjectId, bool), Error> {
        let (mut flag, mut up) = (None, None);
        for (field, value) in node.members(key)? {
            match field.as_str() {
                "ref" => {
                    flag = Some(self.objects.get("flag", value.string("ref")?, || Object::Flag));
                }
                "up" => up = Some(value.boolean("up")?),
                _ => return Err(unknown(value, &field, "ref, up")),
            }
        }
        flag.zip(up).ok_or_else(|| node.error(format!("{key}: expected {{\"ref\": …, \"up\": …}}")))
    }

    fn mutex(&mut self, name: String) -> ObjectId {
        self.objects.get("mutex", name, || Object::Mutex)
    }

    fn condition(&mut self, name: String) -> ObjectId {
        self.objects.get("condition", name, || Object::Condition)
    }

    fn suspension(&mut self, name: String) -> ObjectId {
        self.objects.get("suspension", name, || Object::Suspension)
    }

    fn must_hold(&self, mutex: ObjectId, key: &str, node: Node<'a>) -> Result<(), Error> {
        if self.held.contains(&mutex) {
            return Ok(());
        }
        Err(node.error(format!("{key}: its mutex is not held here; expected a \"lock\" before")))
    }

    fn condition_and_mutex(
        &mut self,
        key: &str,
        node: Node<'a>,
    ) -> Result<(ObjectId, ObjectId), Error> {
        let (mut condition, mut mutex) = (None, None);
        for (field, value) in node.members(key)? {
            match field.as_str() {
                "ref" => condition = Some(self.condition(value.string("ref")?)),
                "mutex" => mutex = Some(self.mutex(value.string("mutex")?)),
                _ => return Err(unknown(value, &field, "ref, mutex")),
            }
        }
        condition
            .zip(mutex)
            .ok_or_else(|| node.error(format!("{key}: expected {{\"ref\": …, \"mutex\": …}}")))
    }

    fn message(&mut self, key: &str, node: Node<'a>) -> Result<(ObjectId, u32), Error> {
        let (mut channel, mut size) = (None, None);
        for (field, value) in node.members(key)? {
            match field.as_str() {
                "ref" => {
                    let name = value.string("ref")?;
                    channel = Some(self.objects.find("channel", &name).ok_or_else(|| {
                        let known = self.objects.names("channel");
                        value.error(format!(
                            "{key}: no channel {name} before here; there are {known}"
                        ))
                    })?);
                }
                "bytes" => size = Some(bytes(value, "bytes")?),
                _ => return Err(unknown(value, &field, "ref, bytes")),
            }
        }
        channel
            .zip(size)
            .ok_or_else(|| node.error(format!("{key}: expected {{\"ref\": …, \"bytes\": …}}")))
    }
}

fn timer_mode(node: Node) -> Result<bool, Error> {
    match node.string("mode")?.as_str() {
        "relative" => Ok(true),
        "absolute" => Ok(false),
        other => {
            Err(node.error(format!("mode: expected \"relative\" or \"absolute\", found {other}")))
        }
    }
}
