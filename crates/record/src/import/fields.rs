// SPDX-License-Identifier: GPL-2.0-only
//! The fields of an event: as the kernel prints them, as libtraceevent's plugins do, and raw (`trace-cmd report -R`).
//!
//! Names may contain blanks, arrows and equals signs: keys are searched from the end.

use memchr::memrchr;
use trace::Tid;

use crate::{Carrier, Left};

#[derive(Debug, PartialEq)]
pub(super) enum What<'a> {
    Switch {
        /// The thread that leaves; None: it is not known.
        prev: Option<Named<'a>>,
        next: Named<'a>,
        left: Left,
    },
    Waking(Named<'a>),
    Wakeup(Named<'a>),
    WakeupNew(Named<'a>, u32),
    Fork {
        parent: Tid,
        child: Tid,
    },
    Exec {
        tid: Tid,
        old: Tid,
    },
    Exit {
        tid: Tid,
    },
    /// An interrupt, work behind one, or a timer begins or ends.
    Interrupt {
        of: Carrier,
        entered: bool,
    },
    /// An event that does not matter here.
    Other,
    /// An event that matters, with fields that cannot be read.
    Unreadable,
}

/// A thread as an event names it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Named<'a> {
    pub name: &'a str,
    pub tid: Tid,
    /// The kernel's priority: -1 deadline, 0 to 98 real-time, 100 to 139 by nice value.
    pub prio: Option<i32>,
}

/// Between the thread that leaves a CPU and the one that comes.
const ARROW: &str = " ==> ";
/// Its place in the raw form, which has no arrow.
const RAW_ARROW: &str = " next_comm=";

/// `prev_state` in numbers (include/trace/events/sched.h): EXIT_DEAD and EXIT_ZOMBIE.
const DEAD: u64 = 0x10 | 0x20;
/// States that are reported; the bit above says that the thread was preempted.
const REPORTED: u64 = 0xff;

pub(super) fn what<'a>(name: &str, fields: &'a str) -> What<'a> {
    let what = match name {
        "sched_switch" => switch(fields),
        "sched_waking" => thread(fields, &PLAIN).map(What::Waking),
        "sched_wakeup" => thread(fields, &PLAIN).map(What::Wakeup),
        "sched_wakeup_new" => {
            thread(fields, &PLAIN).map(|named| What::WakeupNew(named, target(fields).unwrap_or(0)))
        }
        "sched_process_fork" => fork(fields),
        "sched_process_exec" => exec(fields),
        "sched_process_exit" => thread(fields, &PLAIN).map(|named| What::Exit { tid: named.tid }),
        "irq_handler_entry" => Some(What::Interrupt { of: Carrier::Interrupt, entered: true }),
        "irq_handler_exit" => Some(What::Interrupt { of: Carrier::Interrupt, entered: false }),
        "softirq_entry" => Some(What::Interrupt { of: Carrier::Softirq, entered: true }),
        "softirq_exit" => Some(What::Interrupt { of: Carrier::Softirq, entered: false }),
        "hrtimer_expire_entry" => Some(What::Interrupt { of: Carrier::Timer, entered: true }),
        "hrtimer_expire_exit" => Some(What::Interrupt { of: Carrier::Timer, entered: false }),
        _ => Some(What::Other),
    };
    what.unwrap_or(What::Unreadable)
}

fn switch(fields: &str) -> Option<What<'_>> {
    // A name may contain three arrows.
    let by_arrow = fields.match_indices(ARROW).take(4).find_map(|(at, _)| {
        let (prev, state) = left_by(&fields[..at])?;
        let next = thread(&fields[at + ARROW.len()..], &NEXT)?;
        Some(What::Switch { prev: Some(prev), next, left: left(state)? })
    });
    by_arrow.or_else(|| {
        let (at, _) = fields.rmatch_indices(RAW_ARROW).next()?;
        let (prev, state) = left_by(&fields[..at])?;
        let next = thread(&fields[at + 1..], &NEXT)?;
        Some(What::Switch { prev: Some(prev), next, left: left(state)? })
    })
}

fn fork(fields: &str) -> Option<What<'_>> {
    let (parent, child) = around(fields, " child_comm=")?;
    Some(What::Fork { parent: field(parent, "pid=")?, child: field(child, "child_pid=")? })
}

fn exec(fields: &str) -> Option<What<'_>> {
    let (before, old) = around(fields, " old_pid=")?;
    Some(What::Exec { tid: field(before, "pid=")?, old: digits(old)? })
}

/// Why a thread left its CPU, by the letters of its state, or by their number if that is printed raw.
fn left(state: &str) -> Option<Left> {
    let state = state.trim();
    let hexadecimal = state.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
    match hexadecimal.or_else(|| number(state).map(|number| Ok(number.into()))) {
        Some(number) => Some(left_in(number.ok()?)),
        None if state.starts_with('R') => Some(Left::Preempted),
        None if state.contains(['X', 'Z', 'x']) => Some(Left::Dead),
        None => {
            state.starts_with(|letter: char| letter.is_ascii_alphabetic()).then_some(Left::Blocked)
        }
    }
}

/// Why a thread left its CPU, by `prev_state` of the tracepoint.
pub(super) fn left_in(state: u64) -> Left {
    match state & REPORTED {
        0 => Left::Preempted,
        state if state & DEAD != 0 => Left::Dead,
        _ => Left::Blocked,
    }
}

/// Keys of the fields of a thread.
struct Keys {
    name: &'static str,
    tid: &'static str,
    prio: &'static str,
}

const PLAIN: Keys = Keys { name: "comm=", tid: " pid=", prio: " prio=" };
const PREV: Keys = Keys { name: "prev_comm=", tid: " prev_pid=", prio: " prev_prio=" };
const NEXT: Keys = Keys { name: "next_comm=", tid: " next_pid=", prio: " next_prio=" };

/// The thread that leaves a CPU, and its state.
fn left_by(fields: &str) -> Option<(Named<'_>, &str)> {
    match around(fields, " prev_state=") {
        Some((prev, state)) => Some((thread(prev, &PREV)?, state)),
        None => {
            let (prev, state) = fields.rsplit_once("] ")?;
            Some((short(prev)?, state))
        }
    }
}

/// `comm=NAME pid=7 prio=120 ...`, or the form of [`short`].
fn thread<'a>(fields: &'a str, keys: &Keys) -> Option<Named<'a>> {
    let Some(rest) = fields.strip_prefix(keys.name) else {
        let (before, _) = fields.rsplit_once(']')?;
        return short(before);
    };
    let (name, _) = around(rest, keys.tid)?;
    let behind = &rest[name.len()..];
    let tid = field(behind, keys.tid)?;
    let prio = around(behind, keys.prio).and_then(|(_, prio)| signed(prio));
    Some(Named { name, tid, prio })
}

/// The text before and behind the last place of a key, which ends in `=`.
fn around<'a>(fields: &'a str, key: &str) -> Option<(&'a str, &'a str)> {
    let mut until = fields.len();
    loop {
        let at = memrchr(b'=', &fields.as_bytes()[..until])?;
        let (before, behind) = fields.split_at(at + 1);
        if let Some(before) = before.strip_suffix(key) {
            return Some((before, behind));
        }
        until = at;
    }
}

/// `NAME:7 [120`, as libtraceevent's plugins write it.
fn short(fields: &str) -> Option<Named<'_>> {
    let (thread, prio) = fields.rsplit_once(" [")?;
    let (name, tid) = thread.rsplit_once(':')?;
    Some(Named { name, tid: number(tid)?, prio: prio.parse().ok() })
}

/// The number behind a key.
fn field(fields: &str, key: &str) -> Option<u32> {
    digits(around(fields, key)?.1)
}

fn digits(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    number(&text[..end])
}

/// A number of digits alone.
pub(super) fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// A number with a sign: deadline tasks have the priority -1.
fn signed(text: &str) -> Option<i32> {
    match text.strip_prefix('-') {
        Some(digits) => self::digits(digits)?.try_into().ok().map(|number: i32| -number),
        None => digits(text)?.try_into().ok(),
    }
}

fn target(fields: &str) -> Option<u32> {
    field(fields, "target_cpu=").or_else(|| digits(fields.rsplit_once("CPU:")?.1))
}
