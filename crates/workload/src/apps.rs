// SPDX-License-Identifier: GPL-2.0-only
//! Models of programs with many threads in few processes, and of a ring of pipes: the programs that CAS was measured
//! with.
//!
//! Chat and VolanoMark are rooms of users. A user has four threads, two in the client and two in the server. The
//! client's sender writes to the server's reader. The reader hands each message to the writers of all others of the
//! room through their queues; each writer writes to its client's receiver. A queue inside a process is modelled as a
//! pipe: the same threads block and are woken, and the pipe's system calls stand for those of the monitor. SysBench is
//! a database server's threads; DaCapo is a virtual machine's threads that compute. [`Task::hw`] says what memory each
//! touches. Every number is data, with its source: `workloads/apps.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::hackbench::{PIPE_BYTES, SOCKET_BYTES, SOCKET_OVERHEAD_BYTES};
use crate::hw::{Hw, Touched};
use crate::model::{Task, Workload};
use crate::step::{Object, ObjectId, Step};

/// A number of `apps.toml`: its unit, source and tag are for readers.
#[derive(Clone, Debug, Deserialize)]
struct Quantity {
    value: f64,
    #[serde(default)]
    range: Option<[f64; 2]>,
}

/// The models.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Apps {
    sections: BTreeMap<String, BTreeMap<String, Quantity>>,
}

/// The tasks that pass the token round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ring {
    /// Threads of one process that sum up one array.
    Threads,
    /// Threads of one process with an array each.
    Apart,
    /// Processes with an array each.
    Processes,
}

/// The four programs and what runs them together.
pub const NAMES: &[&str] = &["chat", "volanomark", "sysbench", "dacapo", "together", "apart"];

const RINGS: &[(&str, Ring)] =
    &[("threads", Ring::Threads), ("apart", Ring::Apart), ("processes", Ring::Processes)];

impl Apps {
    /// The models that come with the program.
    pub fn embedded() -> Apps {
        let text = include_str!("../../../workloads/apps.toml");
        toml::from_str(text).expect("a test reads the embedded file")
    }

    /// The same with one number set, `section.name`, for a sweep. None: there is no such number.
    #[must_use]
    pub fn with(mut self, name: &str, value: f64) -> Option<Apps> {
        let (section, name) = name.split_once('.')?;
        self.sections.get_mut(section)?.get_mut(name)?.value = value;
        Some(self)
    }

    /// Least and greatest value of a number, `section.name`. None: it is known exactly, or there is no such number.
    pub fn range(&self, name: &str) -> Option<[f64; 2]> {
        let (section, name) = name.split_once('.')?;
        self.sections.get(section)?.get(name)?.range
    }

    /// The workload of this name: one of [`NAMES`], `ring-KIND-TASKS-KILOBYTES` with a kind of
    /// `threads`, `apart` or `processes`, or `rotate-PROCESSES`, `pipelines-PROCESSES`,
    /// `crowd-PROCESSES`. None: there is none.
    pub fn build(&self, name: &str) -> Option<Workload> {
        let mut builder = Builder { apps: self, workload: Workload::default(), processes: 0 };
        match name {
            "chat" | "volanomark" => builder.rooms(name),
            "sysbench" => builder.sysbench(),
            "dacapo" => builder.dacapo(),
            "apart" => builder.apart(),
            "together" => {
                builder.rooms("chat");
                builder.rooms("volanomark");
                builder.sysbench();
                builder.dacapo();
            }
            _ if !name.starts_with("ring-") => {
                let (kind, processes) = name.split_once('-')?;
                let processes = processes.parse().ok().filter(|n| (1..=500).contains(n))?;
                match kind {
                    "rotate" => builder.rotate(processes),
                    "pipelines" => builder.pipelines(processes),
                    "crowd" => builder.crowd(processes),
                    _ => return None,
                }
            }
            _ => {
                let (ring, tasks, kilobytes) = parse_ring(name)?;
                return Some(self.ring(ring, tasks, kilobytes * 1024));
            }
        }
        builder.workload.name = name.to_string();
        Some(builder.workload)
    }

    /// `tasks` tasks on CPU 0 pass a token round and sum up arrays of `bytes` bytes. A single task passes the token to
    /// itself and never gives up its CPU: its rounds show the cost without a switch.
    pub fn ring(&self, ring: Ring, tasks: usize, bytes: u64) -> Workload {
        let mut builder = Builder { apps: self, workload: Workload::default(), processes: 0 };
        builder.ring(ring, tasks.max(1), bytes);
        let kind = RINGS.iter().find(|(_, kind)| *kind == ring).map_or("", |(name, _)| name);
        builder.workload.name = format!("ring-{kind}-{tasks}-{}", bytes / 1024);
        builder.workload
    }

    fn get(&self, section: &str, name: &str) -> f64 {
        self.sections[section][name].value
    }
}

fn parse_ring(name: &str) -> Option<(Ring, usize, u64)> {
    let mut parts = name.strip_prefix("ring-")?.split('-');
    let kind = parts.next()?;
    let ring = RINGS.iter().find(|(name, _)| *name == kind)?.1;
    let tasks = parts.next()?.parse().ok().filter(|tasks| (1..=1000).contains(tasks))?;
    let kilobytes = parts.next()?.parse().ok().filter(|kilobytes| *kilobytes <= 1 << 20)?;
    parts.next().is_none().then_some((ring, tasks, kilobytes))
}

fn us(microseconds: f64) -> u64 {
    (microseconds * 1e3).round() as u64
}

struct Builder<'a> {
    apps: &'a Apps,
    workload: Workload,
    /// Process numbers given out.
    processes: usize,
}

impl Builder<'_> {
    fn object(&mut self, object: Object) -> ObjectId {
        self.workload.objects.push(object);
        self.workload.objects.len() - 1
    }

    fn pipe(&mut self) -> ObjectId {
        self.object(Object::Pipe { capacity: PIPE_BYTES })
    }

    fn socket(&mut self) -> ObjectId {
        self.object(Object::Socket { capacity: SOCKET_BYTES, overhead: SOCKET_OVERHEAD_BYTES })
    }

    fn process(&mut self) -> usize {
        self.processes += 1;
        self.processes
    }

    fn task(&mut self, name: String, process: usize, hw: &Hw, steps: Vec<Step>) {
        let hw = Some(hw.clone());
        self.workload.tasks.push(Task { name, process, hw, steps, ..Task::default() });
    }

    /// The memory that a program of this section touches.
    fn hw(&self, section: &str) -> Hw {
        let of = |set: &str| Touched {
            pages: self.apps.get(section, &format!("{set}_pages")) as u32,
            bytes: self.apps.get(section, &format!("{set}_bytes")) as u64,
        };
        Hw {
            reach_ns: us(self.apps.get(section, "reach_us")),
            own: of("own"),
            shared: of("shared"),
            code: of("code"),
            ..self.kernel()
        }
    }

    fn kernel(&self) -> Hw {
        let of = |name| self.apps.get("kernel", name);
        Hw {
            kernel: Touched { pages: 0, bytes: of("own_bytes") as u64 },
            kernel_shared: Touched {
                pages: of("shared_pages") as u32,
                bytes: of("shared_bytes") as u64,
            },
            kernel_code: Touched { pages: of("code_pages") as u32, bytes: of("code_bytes") as u64 },
            ..Hw::default()
        }
    }

    /// Chat or VolanoMark.
    fn rooms(&mut self, name: &str) {
        let of = |key: &str| self.apps.get(name, key);
        let (rooms, users) = (of("rooms") as usize, of("users") as usize);
        let (messages, bytes) = (of("messages") as u64, of("bytes") as u32);
        let work = Step::Run { work_ns: us(of("handle_us")) };
        let hw = self.hw(name);
        let (server, client) = (self.process(), self.process());
        let read = |channel| Step::Read { channel, bytes };
        let write = |channel| Step::Write { channel, bytes };
        let again = |times, steps| vec![Step::Repeat { times: Some(times), steps }];
        let delivered = messages * (users as u64 - 1);
        for room in 0..rooms {
            let queues: Vec<ObjectId> = (0..users).map(|_| self.pipe()).collect();
            for user in 0..users {
                let (up, down) = (self.socket(), self.socket());
                let others = (0..users).filter(|other| *other != user);
                let mut hand_on = vec![read(up), work.clone()];
                hand_on.extend(others.map(|other| write(queues[other])));
                let roles = [
                    (
                        "writer",
                        server,
                        delivered,
                        vec![read(queues[user]), work.clone(), write(down)],
                    ),
                    ("receiver", client, delivered, vec![read(down), work.clone()]),
                    ("reader", server, messages, hand_on),
                    ("sender", client, messages, vec![work.clone(), write(up)]),
                ];
                for (role, process, times, steps) in roles {
                    let name = format!("{name}-{room}-{user}-{role}");
                    self.task(name, process, &hw, again(times, steps));
                }
            }
        }
    }

    /// Threads of a database server: queries, then a commit that takes a lock and waits for the disk.
    fn sysbench(&mut self) {
        let of = |key: &str| self.apps.get("sysbench", key);
        let (threads, hw) = (of("threads") as usize, self.hw("sysbench"));
        let query = Step::Run { work_ns: us(of("query_us")) };
        let queries =
            Step::Repeat { times: Some(of("queries") as u64), steps: vec![query.clone()] };
        let (times, commit) = (of("transactions") as u64, Step::Sleep { ns: us(of("commit_us")) });
        let log = self.object(Object::Mutex);
        let process = self.process();
        for at in 0..threads {
            let steps = vec![
                queries.clone(),
                Step::Lock(log),
                query.clone(),
                Step::Unlock(log),
                commit.clone(),
            ];
            let steps = vec![Step::Repeat { times: Some(times), steps }];
            self.task(format!("sysbench-{at}"), process, &hw, steps);
        }
    }

    /// Threads that compute, contend for monitors, and wait for the collector now and then.
    fn dacapo(&mut self) {
        let of = |key: &str| self.apps.get("dacapo", key);
        let (threads, times) = (of("threads") as usize, of("bursts") as u64);
        let burst = Step::Run { work_ns: us(of("burst_us")) };
        let monitor = Step::Run { work_ns: us(of("monitor_us")) };
        let rest = Step::Sleep { ns: us(of("rest_us")) };
        let hw = self.hw("dacapo");
        let monitors: Vec<ObjectId> = (0..4).map(|_| self.object(Object::Mutex)).collect();
        let process = self.process();
        for at in 0..threads {
            let lock = monitors[at % monitors.len()];
            let inside = [Step::Lock(lock), monitor.clone(), Step::Unlock(lock)];
            let steps = [burst.clone()].into_iter().chain(inside).chain([rest.clone()]).collect();
            let steps = vec![Step::Repeat { times: Some(times), steps }];
            self.task(format!("dacapo-{at}"), process, &hw, steps);
        }
    }

    /// Threads that share nothing, of several processes.
    fn apart(&mut self) {
        let of = |key: &str| self.apps.get("apart", key);
        let set = |set: &str| Touched {
            pages: of(&format!("{set}_pages")) as u32,
            bytes: of(&format!("{set}_bytes")) as u64,
        };
        let burst_ns = us(of("burst_us"));
        let hw = Hw { reach_ns: burst_ns, own: set("own"), code: set("code"), ..self.kernel() };
        let (processes, threads) = (of("processes") as usize, of("threads") as usize);
        let steps = vec![Step::Run { work_ns: burst_ns }, Step::Yield];
        let steps = vec![Step::Repeat { times: Some(of("bursts") as u64), steps }];
        let numbers: Vec<usize> = (0..processes).map(|_| self.process()).collect();
        for at in 0..threads {
            for process in &numbers {
                self.task(format!("apart-{process}-{at}"), *process, &hw, steps.clone());
            }
        }
    }

    /// Threads of `processes` processes take turns on CPU 0.
    fn rotate(&mut self, processes: usize) {
        let of = |key: &str| self.apps.get("rotate", key);
        let (threads, hw) = (of("threads") as usize, self.hw("rotate"));
        let steps = vec![Step::Run { work_ns: us(of("burst_us")) }, Step::Yield];
        let steps = vec![Step::Repeat { times: Some(of("bursts") as u64), steps }];
        let numbers: Vec<usize> = (0..processes).map(|_| self.process()).collect();
        for at in 0..threads {
            for process in &numbers {
                self.task(format!("rotate-{process}-{at}"), *process, &hw, steps.clone());
            }
        }
        self.workload.tasks.iter_mut().for_each(|task| task.cpus = Some(vec![0]));
    }

    /// Lines of threads that hand on one request at a time, each line a process.
    fn pipelines(&mut self, processes: usize) {
        let of = |key: &str| self.apps.get("pipelines", key);
        let (stages, hw) = (of("stages") as usize, self.hw("pipelines"));
        let (requests, work) = (of("requests") as u64, Step::Run { work_ns: us(of("stage_us")) });
        for _ in 0..processes {
            let process = self.process();
            let pipes: Vec<ObjectId> = (0..stages).map(|_| self.pipe()).collect();
            for at in 0..stages {
                let receive = Step::Read { channel: pipes[at], bytes: 1 };
                let send = Step::Write { channel: pipes[(at + 1) % stages], bytes: 1 };
                // The first one makes a request when the last is answered.
                let steps = match at {
                    0 => vec![work.clone(), send, receive],
                    _ => vec![receive, work.clone(), send],
                };
                let steps = vec![Step::Repeat { times: Some(requests), steps }];
                self.task(format!("pipeline-{process}-{at}"), process, &hw, steps);
            }
        }
    }

    /// Threads of `processes` servers that are never out of work, on all CPUs.
    fn crowd(&mut self, processes: usize) {
        let of = |key: &str| self.apps.get("crowd", key);
        let (threads, hw) = (of("threads") as usize, self.hw("volanomark"));
        let burst_us = of("messages") * self.apps.get("volanomark", "handle_us");
        let steps = vec![Step::Run { work_ns: us(burst_us) }, Step::Yield];
        let steps = vec![Step::Repeat { times: Some(of("bursts") as u64), steps }];
        let numbers: Vec<usize> = (0..processes).map(|_| self.process()).collect();
        for at in 0..threads {
            for process in &numbers {
                self.task(format!("crowd-{process}-{at}"), *process, &hw, steps.clone());
            }
        }
    }

    fn ring(&mut self, ring: Ring, tasks: usize, bytes: u64) {
        let of = |key: &str| self.apps.get("ring", key);
        let sum_ns = bytes as f64 / 1024.0 * of("sum_ns_per_kb");
        let work_ns = us(of("touch_us")) + sum_ns.round() as u64;
        let small = Touched { pages: of("own_pages") as u32, bytes: of("own_bytes") as u64 };
        let code = Touched { pages: of("code_pages") as u32, bytes: of("code_bytes") as u64 };
        let array = Touched::dense(bytes);
        let with_array = Touched { pages: small.pages + array.pages, bytes: small.bytes + bytes };
        let (own, shared) = match ring {
            Ring::Threads => (small, array),
            Ring::Apart | Ring::Processes => (with_array, Touched::default()),
        };
        let hw = Hw { reach_ns: work_ns, own, shared, code, ..self.kernel() };
        let rounds = of("rounds") as u64;
        let pipes: Vec<ObjectId> = (0..tasks).map(|_| self.pipe()).collect();
        let threads = self.process();
        for at in 0..tasks {
            let process = match ring {
                Ring::Processes if at > 0 => self.process(),
                _ => threads,
            };
            let receive = Step::Read { channel: pipes[at], bytes: 1 };
            let sum = Step::Run { work_ns };
            let send = Step::Write { channel: pipes[(at + 1) % tasks], bytes: 1 };
            // The first one has the token.
            let steps = if at == 0 { vec![send, receive, sum] } else { vec![receive, sum, send] };
            let steps = vec![Step::Repeat { times: Some(rounds), steps }];
            self.task(format!("ring-{at}"), process, &hw, steps);
            let task = self.workload.tasks.last_mut().expect("it was just made");
            task.cpus = Some(vec![0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes(workload: &Workload) -> usize {
        let mut all: Vec<usize> = workload.tasks.iter().map(|task| task.process).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    }

    #[test]
    fn together_they_are_what_slide_39_counts() {
        let workload = Apps::embedded().build("together").unwrap();
        assert_eq!((workload.tasks.len(), processes(&workload)), (1700, 6));
        let mut names: Vec<&String> = workload.tasks.iter().map(|task| &task.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 1700);
    }

    #[test]
    fn a_room_is_eighty_threads_and_delivers_to_all_others() {
        let apps = Apps::embedded().with("chat.rooms", 1.0).unwrap();
        let apps = apps.with("chat.messages", 100.0).unwrap();
        let workload = apps.build("chat").unwrap();
        assert_eq!(workload.tasks.len(), 80);
        let receivers = workload.tasks.iter().filter(|task| task.name.ends_with("receiver"));
        let delivered: u64 = receivers
            .map(|task| match &task.steps[0] {
                Step::Repeat { times, .. } => times.unwrap(),
                _ => 0,
            })
            .sum();
        assert_eq!(delivered, 38_000);
    }

    #[test]
    fn every_task_says_what_it_touches() {
        let apps = Apps::embedded();
        for name in NAMES.iter().copied().chain([
            "ring-threads-3-64",
            "ring-processes-3-0",
            "rotate-7",
            "pipelines-3",
            "crowd-2",
        ]) {
            let workload = apps.build(name).unwrap();
            assert_eq!(workload.name, name);
            assert!(workload.tasks.iter().all(|task| task.hw.is_some()), "{name}");
        }
        let bad = [
            "ring",
            "rotate-0",
            "rotate-x",
            "pipelines-501",
            "crowd-",
            "rotates-3",
            "ring-threads-0-1",
            "ring-threads-2",
            "ring-x-1-1",
            "ring-apart-2-1-1",
        ];
        assert!(bad.iter().all(|name| apps.build(name).is_none()));
    }

    #[test]
    fn a_ring_of_threads_has_one_process_and_one_array() {
        let apps = Apps::embedded();
        let of = |ring| apps.ring(ring, 3, 65_536);
        let sets = |workload: &Workload| {
            let hw = workload.tasks[0].hw.clone().unwrap();
            (processes(workload), hw.own.pages, hw.shared.pages)
        };
        assert_eq!(sets(&of(Ring::Threads)), (1, 3, 16));
        assert_eq!(sets(&of(Ring::Apart)), (1, 19, 0));
        assert_eq!(sets(&of(Ring::Processes)), (3, 19, 0));
    }

    #[test]
    fn every_number_says_where_it_comes_from() {
        let text = include_str!("../../../workloads/apps.toml");
        let file: BTreeMap<String, BTreeMap<String, toml::Table>> = toml::from_str(text).unwrap();
        for (name, quantity) in file.values().flatten() {
            for key in ["value", "unit", "source", "tag"] {
                assert!(quantity.contains_key(key), "{name} lacks {key}");
            }
            let assumed = quantity["tag"].as_str() == Some("assumed");
            assert!(
                !assumed || quantity.contains_key("range"),
                "{name} is a guess without a range"
            );
        }
    }
}
