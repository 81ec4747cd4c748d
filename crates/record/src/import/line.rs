// SPDX-License-Identifier: GPL-2.0-only
//! One line of text: a task, a CPU in brackets, perhaps flags, seconds, and an event with its fields.
//!
//! ```text
//! perf 5240 [001]  1234.567890: sched:sched_switch: prev_comm=perf prev_pid=5240 prev_prio=120 prev_state=S ==> ...
//! bash-5240 [001] d..2.  1234.567890: sched_switch: bash:5240 [120] S ==> swapper/1:0 [120]
//! ```
//!
//! Names may have blanks, brackets and colons in them: what is searched for is searched from the end.

use memchr::memrchr;
use trace::Tid;

use super::left;
use crate::{Carrier, Left};

/// What a line says.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Line<'a> {
    pub event: Option<Event<'a>>,
    /// Events that are missing here.
    pub lost: u64,
    /// What is kept of this CPU begins here; what was before has been overwritten.
    pub begins: Option<u32>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Event<'a> {
    pub t_ns: u64,
    pub cpu: u32,
    /// Where flags say what was going on: in which context it happened.
    pub flags: Option<Carrier>,
    pub what: What<'a>,
}

#[derive(Debug, PartialEq)]
pub(super) enum What<'a> {
    Switch {
        prev: Named<'a>,
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
    /// An event that says nothing here.
    Other,
}

/// A thread as an event names it.
#[derive(Debug, PartialEq)]
pub(super) struct Named<'a> {
    pub name: &'a str,
    pub tid: Tid,
    pub prio: Option<i32>,
}

pub(super) fn parsed(text: &str) -> Line<'_> {
    let text = text.trim_end();
    if let Some(lost) = lost(text) {
        return Line { lost, ..Line::default() };
    }
    if let Some(cpu) = begins(text) {
        return Line { begins: Some(cpu), ..Line::default() };
    }
    // A name may look like a CPU: the first that goes on as a line does is it.
    let event = text.match_indices('[').find_map(|(at, _)| after_task(&text[at + 1..]));
    Line { event, ..Line::default() }
}

/// `CPU:1 [LOST 17 EVENTS]` of ftrace and trace-cmd, which may not know how many, and ftrace's own first lines:
/// `# entries-in-buffer/entries-written: 205/1000   #P:8`.
fn lost(text: &str) -> Option<u64> {
    if let Some(counts) = text.strip_prefix("# entries-in-buffer/entries-written:") {
        let (there, written) = counts.split_whitespace().next()?.split_once('/')?;
        return written.parse::<u64>().ok()?.checked_sub(there.parse().ok()?);
    }
    let rest = text.trim_start().strip_prefix("CPU:")?;
    let (_, rest) = rest.split_once('[')?;
    match rest.strip_prefix("LOST ") {
        Some(rest) => rest.split(' ').next()?.parse().ok(),
        None => rest.starts_with("EVENTS DROPPED").then_some(1),
    }
}

/// `##### CPU 3 buffer started ####` of ftrace, where buffers were full.
fn begins(text: &str) -> Option<u32> {
    let rest = text.strip_prefix("##### CPU ")?;
    number(rest.split_once(" buffer started")?.0)
}

/// What comes after `[` of `[001] d..2. 1234.567890: sched:sched_switch: ...`.
fn after_task(text: &str) -> Option<Event<'_>> {
    // No CPU has a number of so many digits.
    let end = text.bytes().take(10).position(|byte| byte == b']')?;
    let (cpu, rest) = (number(&text[..end])?, &text[end + 1..]);
    let (first, rest) = word(rest)?;
    let (flags, time, rest) = match seconds(first) {
        Some(t_ns) => (None, t_ns, rest),
        None => {
            let (second, rest) = word(rest)?;
            (context(first), seconds(second)?, rest)
        }
    };
    let (name, fields) = word(rest)?;
    let name = name.strip_suffix(':')?;
    let name = name.rsplit(':').next().unwrap_or(name);
    let what = what(name, fields.trim()).unwrap_or(What::Other);
    Some(Event { t_ns: time, cpu, flags, what })
}

fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// `1234.567890:` in ns.
fn seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.strip_suffix(':')?.split_once('.')?;
    let digits = part.len();
    if digits == 0 || digits > 9 {
        return None;
    }
    let part = u64::from(number(part)?) * 10u64.pow(9 - digits as u32);
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part)
}

/// The third of ftrace's flags: within an interrupt (h), work behind one (s), both (H).
fn context(flags: &str) -> Option<Carrier> {
    match flags.chars().nth(2)? {
        'h' | 'H' | 'z' | 'Z' => Some(Carrier::Interrupt),
        's' => Some(Carrier::Softirq),
        '.' => Some(Carrier::Task),
        _ => None,
    }
}

/// Between who leaves a CPU and who comes.
const ARROW: &str = " ==> ";

fn what<'a>(name: &str, fields: &'a str) -> Option<What<'a>> {
    Some(match name {
        // A name has room for three of them.
        "sched_switch" => fields.match_indices(ARROW).take(4).find_map(|(at, _)| {
            let (prev, state) = left_by(&fields[..at])?;
            let next = thread(&fields[at + ARROW.len()..], &NEXT)?;
            Some(What::Switch { prev, next, left: left(state) })
        })?,
        "sched_waking" => What::Waking(thread(fields, &PLAIN)?),
        "sched_wakeup" => What::Wakeup(thread(fields, &PLAIN)?),
        "sched_wakeup_new" => What::WakeupNew(thread(fields, &PLAIN)?, target(fields).unwrap_or(0)),
        "sched_process_fork" => {
            let (parent, child) = around(fields, " child_comm=")?;
            What::Fork { parent: field(parent, "pid=")?, child: field(child, "child_pid=")? }
        }
        "sched_process_exec" => {
            let (before, old) = around(fields, " old_pid=")?;
            What::Exec { tid: field(before, "pid=")?, old: digits(old)? }
        }
        "sched_process_exit" => What::Exit { tid: thread(fields, &PLAIN)?.tid },
        "irq_handler_entry" => What::Interrupt { of: Carrier::Interrupt, entered: true },
        "irq_handler_exit" => What::Interrupt { of: Carrier::Interrupt, entered: false },
        "softirq_entry" => What::Interrupt { of: Carrier::Softirq, entered: true },
        "softirq_exit" => What::Interrupt { of: Carrier::Softirq, entered: false },
        "hrtimer_expire_entry" => What::Interrupt { of: Carrier::Timer, entered: true },
        "hrtimer_expire_exit" => What::Interrupt { of: Carrier::Timer, entered: false },
        _ => What::Other,
    })
}

/// How the fields of a thread are called.
struct Keys {
    name: &'static str,
    tid: &'static str,
    prio: &'static str,
}

const PLAIN: Keys = Keys { name: "comm=", tid: " pid=", prio: " prio=" };
const PREV: Keys = Keys { name: "prev_comm=", tid: " prev_pid=", prio: " prev_prio=" };
const NEXT: Keys = Keys { name: "next_comm=", tid: " next_pid=", prio: " next_prio=" };

/// Who leaves a CPU, and the state in which it does.
fn left_by(fields: &str) -> Option<(Named<'_>, &str)> {
    match around(fields, " prev_state=") {
        Some((prev, state)) => Some((thread(prev, &PREV)?, state)),
        None => {
            let (prev, state) = fields.rsplit_once("] ")?;
            Some((short(prev)?, state))
        }
    }
}

/// `comm=NAME pid=7 prio=120 ...`; or as [`short`].
fn thread<'a>(fields: &'a str, keys: &Keys) -> Option<Named<'a>> {
    let Some(rest) = fields.strip_prefix(keys.name) else {
        let (before, _) = fields.rsplit_once(']')?;
        return short(before);
    };
    let (name, _) = around(rest, keys.tid)?;
    let behind = &rest[name.len()..];
    let tid = field(behind, keys.tid)?;
    let prio = field(behind, keys.prio).map(|prio: u32| prio as i32);
    Some(Named { name, tid, prio })
}

/// What is before and what is behind the last place of a key, which ends in `=`.
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
    let (who, prio) = fields.rsplit_once(" [")?;
    let (name, tid) = who.rsplit_once(':')?;
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

fn target(fields: &str) -> Option<u32> {
    field(fields, "target_cpu=").or_else(|| digits(fields.rsplit_once("CPU:")?.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, tid: Tid) -> Named<'_> {
        Named { name, tid, prio: Some(120) }
    }

    fn event(text: &str) -> Event<'_> {
        parsed(text).event.unwrap_or_else(|| panic!("no event: {text}"))
    }

    #[test]
    fn the_same_switch_in_each_tongue() {
        let lines = [
            "perf  5240 [001]  1234.567890:       sched:sched_switch: prev_comm=a b prev_pid=5240 \
             prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120",
            "perf  5240 [001]  1234.567890000: sched:sched_switch: a b:5240 [120] S ==> swapper/1:0 [120]",
            "   <...>-5240  [001]  1234.567890: sched_switch:         a b:5240 [120] S ==> swapper/1:0 [120]",
            "     a b-5240  [001] d..2.  1234.567890: sched_switch: prev_comm=a b prev_pid=5240 prev_prio=120 \
             prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120",
        ];
        for text in lines {
            let event = event(text);
            assert_eq!((event.t_ns, event.cpu), (1_234_567_890_000, 1), "{text}");
            let (prev, next) = (named("a b", 5240), named("swapper/1", 0));
            assert_eq!(event.what, What::Switch { prev, next, left: Left::Blocked }, "{text}");
        }
    }

    #[test]
    fn states_say_why_a_task_left() {
        let of = |state: &str| {
            let text = format!("a-1 [000] 1.000001: sched_switch: a:1 [120] {state} ==> b:2 [120]");
            match event(&text).what {
                What::Switch { left, .. } => left,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(["R", "R+"].map(of), [Left::Preempted; 2]);
        assert_eq!(["S", "D", "I", "T", "D|K"].map(of), [Left::Blocked; 5]);
        assert_eq!(["X", "Z"].map(of), [Left::Dead; 2]);
    }

    #[test]
    fn names_may_look_like_anything() {
        let text = "x [1] 7 [003] 2.000000500: sched:sched_waking: comm=] pid=9 ==> pid=8 prio=100 \
                    target_cpu=000";
        let event = event(text);
        assert_eq!((event.cpu, event.t_ns), (3, 2_000_000_500));
        let who = Named { name: "] pid=9 ==>", tid: 8, prio: Some(100) };
        assert_eq!(event.what, What::Waking(who));
    }

    #[test]
    fn arrows_of_names_are_not_between_who_leaves_and_who_comes() {
        let text = "x ==> y-1 [000] 1.000001: sched_switch: prev_comm=x ==> y prev_pid=1 prev_prio=120 \
                    prev_state=S ==> next_comm= ==> z next_pid=2 next_prio=120";
        let (prev, next) = (named("x ==> y", 1), named(" ==> z", 2));
        assert_eq!(event(text).what, What::Switch { prev, next, left: Left::Blocked });
    }

    #[test]
    fn flags_say_where_it_happened() {
        let by = |flags: &str| {
            let text = format!("a-1 [000] {flags} 1.000001: sched_waking: comm=b pid=2 prio=120");
            event(&text).flags
        };
        assert_eq!(by("dNh4."), Some(Carrier::Interrupt));
        assert_eq!(by("..s2."), Some(Carrier::Softirq));
        assert_eq!(by("d..2."), Some(Carrier::Task));
    }

    #[test]
    fn what_is_no_event_is_passed_over() {
        for text in
            ["", "# tracer: nop", "cpus=8", "\tffffffff81 do_exit+0x1 ([k])", "a-1 [000] now: x:"]
        {
            assert_eq!(parsed(text), Line::default(), "{text}");
        }
        assert_eq!(parsed("CPU:1 [LOST 17 EVENTS]").lost, 17);
        assert_eq!(parsed("CPU:1 [EVENTS DROPPED]").lost, 1);
        assert_eq!(parsed("##### CPU 3 buffer started ####\n").begins, Some(3));
        assert_eq!(event("a-1 [000] 1.5: sched_stat_runtime: comm=a pid=1").what, What::Other);
    }
}
