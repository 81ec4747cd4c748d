// SPDX-License-Identifier: GPL-2.0-only
//! One line of text: a task, perhaps its process, a CPU, perhaps flags, a time, and an event with its fields.
//!
//! ```text
//! perf 5240 [001]  1234.567890: sched:sched_switch: prev_comm=perf prev_pid=5240 prev_prio=120 prev_state=S ==> ...
//! perf 5200/5240 [001] 1234.567890:  1 sched:sched_switch: ...         (perf script -F +pid,+tid,+period)
//! bash-5240 [001] d..2.  1234.567890: sched_switch: bash:5240 [120] S ==> swapper/1:0 [120]
//! bash-5240 (  5200) [001] d..2.  1234.567890: sched_switch: ...       (ftrace with record-tgid)
//! bash-5240   1d..2.  1234.567890: sched_switch: ...                   (trace-cmd report -l)
//! bash-5240   1d..2.   17us+: sched_switch: ...                        (ftrace with latency-format)
//! ```
//!
//! Names may contain blanks, brackets and colons, so the columns behind a name are found by their own shape.

use trace::Tid;

use super::fields::{self, What, number};
use crate::Carrier;

/// Contents of a line.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Line<'a> {
    pub event: Option<Event<'a>>,
    /// Events that the line reports as missing.
    pub lost: u64,
    /// The buffer of this CPU begins here; older events have been overwritten.
    pub begins: Option<u32>,
    /// The line names a scheduling event, and cannot be read.
    pub unread: Option<Unread>,
}

/// Why a line that names a scheduling event cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    NoCpu,
    NoTime,
    Fields,
}

#[derive(Debug, PartialEq)]
pub(super) struct Event<'a> {
    pub t_ns: u64,
    pub cpu: u32,
    /// The context that the line's flags name.
    pub flags: Option<Carrier>,
    /// The thread of the line's first columns, and its process, if there is a column for that.
    pub process: Option<(Tid, Tid)>,
    /// A first column that names the file or machine, as `trace-cmd report` prints for several files.
    pub source: Option<&'a str>,
    pub what: What<'a>,
}

/// Events without which nothing can be imported.
const NEEDED: [&str; 4] =
    ["sched_switch: ", "sched_waking: ", "sched_wakeup: ", "sched_wakeup_new: "];
/// Letters of ftrace's flags (Documentation/trace/ftrace.rst). Depths are hexadecimal digits.
const FLAGS: &[u8] = b".dDXbBNnpLlgGhHszZ#?0123456789abcdef";
/// Marks behind a time of the latency format (`trace_find_mark`), and the colon.
const DELAYS: [char; 7] = ['+', '!', '#', '*', '@', '$', ':'];
/// Fewest and most flags of a line.
const FLAGS_LENGTH: std::ops::RangeInclusive<usize> = 4..=8;

pub(super) fn parsed(text: &str) -> Line<'_> {
    let text = text.trim_end();
    if let Some(lost) = lost(text) {
        return Line { lost, ..Line::default() };
    }
    if let Some(cpu) = begins(text) {
        return Line { begins: Some(cpu), ..Line::default() };
    }
    // A name may look like a CPU. The CPU's bracket is the first one after which the text continues as a line does.
    let event = text.match_indices('[').find_map(|(at, _)| bracketed(text, at));
    let Some(mut event) = event.or_else(|| latency(text)) else {
        return Line { unread: unread(text), ..Line::default() };
    };
    if event.what == What::Unreadable {
        return Line { unread: Some(Unread::Fields), ..Line::default() };
    }
    event.source = source(text);
    Line { event: Some(event), ..Line::default() }
}

/// Number of events that this line reports as missing. ftrace and trace-cmd print `CPU:1 [LOST 17 EVENTS]`, with or
/// without the number; ftrace's own first lines have `# entries-in-buffer/entries-written: 205/1000   #P:8`; perf
/// prints `PERF_RECORD_LOST lost 17` with `--show-lost-events`.
fn lost(text: &str) -> Option<u64> {
    if let Some(counts) = text.strip_prefix("# entries-in-buffer/entries-written:") {
        let (there, written) = counts.split_whitespace().next()?.split_once('/')?;
        return written.parse::<u64>().ok()?.checked_sub(there.parse().ok()?);
    }
    if let Some((_, rest)) = text.rsplit_once(" PERF_RECORD_LOST") {
        let (_, count) = rest.split_once("lost ")?;
        return count.split_whitespace().next()?.parse().ok();
    }
    let rest = text.trim_start().strip_prefix("CPU:")?;
    let (_, rest) = rest.split_once('[')?;
    match rest.strip_prefix("LOST ") {
        Some(rest) => rest.split(' ').next()?.parse().ok(),
        None => rest.starts_with("EVENTS DROPPED").then_some(1),
    }
}

/// `##### CPU 3 buffer started ####` of ftrace, if buffers were full.
fn begins(text: &str) -> Option<u32> {
    let rest = text.strip_prefix("##### CPU ")?;
    number(rest.split_once(" buffer started")?.0)
}

/// An event with its CPU in brackets, which begin at this place: `[001] d..2. 1234.567890: sched:sched_switch: ...`.
fn bracketed(text: &str, at: usize) -> Option<Event<'_>> {
    let rest = &text[at + 1..];
    // No CPU's number has so many digits.
    let end = rest.bytes().take(10).position(|byte| byte == b']')?;
    let (cpu, rest) = (number(&rest[..end])?, &rest[end + 1..]);
    let (flags, timed) = match timed(rest) {
        Some(timed) => (None, timed),
        None => {
            let (flags, rest) = word(rest)?;
            (context(flags), self::timed(rest)?)
        }
    };
    Some(event(timed, cpu, flags, process(&text[..at])))
}

/// An event in the latency form, with flags behind the CPU's number: `bash-5240   1d..2. 1234.567890: sched_switch:
/// ...`.
fn latency(text: &str) -> Option<Event<'_>> {
    let mut rest = text;
    loop {
        let (column, behind) = word(rest)?;
        let digits = column.bytes().take_while(u8::is_ascii_digit).count();
        // Depths may be digits as well. The first digits are the CPU's, so the length decides which are flags.
        for digits in (1..=digits.min(4)).rev() {
            let (cpu, flags) = column.split_at(digits);
            if let (Some(cpu), true, Some(timed)) = (number(cpu), are_flags(flags), timed(behind)) {
                let before = &text[..text.len() - rest.trim_start().len()];
                return Some(event(timed, cpu, context(flags), process(before)));
            }
        }
        rest = behind;
    }
}

fn event<'a>(
    (t_ns, name, fields): (u64, &'a str, &'a str),
    cpu: u32,
    flags: Option<Carrier>,
    process: Option<(Tid, Tid)>,
) -> Event<'a> {
    Event { t_ns, cpu, flags, process, source: None, what: fields::what(name, fields) }
}

/// A time, and an event with its fields: `1234.567890: sched:sched_switch: ...`. perf may print a period before the
/// event's name, and trace-cmd the time since the last line.
fn timed(text: &str) -> Option<(u64, &str, &str)> {
    let (first, rest) = word(text)?;
    // The time since the last line, or ftrace's mark for a long delay, may be before the colon.
    let (number, _) = first.split_once('(').unwrap_or((first, ""));
    let t_ns = time(number.trim_end_matches(DELAYS))?;
    let mut rest = match first.ends_with(':') {
        true => rest,
        false => {
            let (mark, rest) = word(rest)?;
            mark.ends_with(':').then_some(rest)?
        }
    };
    loop {
        let (name, fields) = word(rest)?;
        let is_period = name.bytes().all(|byte| byte.is_ascii_digit());
        let is_difference = name.starts_with("(+") && name.trim_end_matches(':').ends_with(')');
        if is_period || is_difference {
            rest = fields;
            continue;
        }
        let name = name.strip_suffix(':')?;
        return Some((t_ns, name.rsplit(':').next().unwrap_or(name), fields.trim()));
    }
}

pub(super) fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// `1234.567890`, or `17us` of the latency format, in ns.
fn time(text: &str) -> Option<u64> {
    if let Some(us) = text.strip_suffix("us") {
        return u64::from(number(us)?).checked_mul(1000);
    }
    let (whole, part) = text.split_once('.')?;
    let digits = part.len();
    if digits == 0 || digits > 9 || !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = u64::from(number(part)?) * 10u64.pow(9 - digits as u32);
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part)
}

fn are_flags(text: &str) -> bool {
    FLAGS_LENGTH.contains(&text.len()) && text.bytes().all(|byte| FLAGS.contains(&byte))
}

/// The context that ftrace's flags name: within an interrupt (h), behind one (s), or both (H).
///
/// Kernels print four to seven flags. This one is the third or, with PREEMPT_RT's lazy preemption, the fourth. Its
/// letters are in no other column: the first ones have d, D, X, b, B, N, n, p, L, l, g and G, the depths hexadecimal
/// digits.
fn context(flags: &str) -> Option<Carrier> {
    if !are_flags(flags) {
        return None;
    }
    let letter = flags.bytes().find(|byte| b"hHzZs".contains(byte));
    Some(match letter {
        Some(b's') => Carrier::Softirq,
        Some(_) => Carrier::Interrupt,
        None => Carrier::Task,
    })
}

/// A thread and its process, from the columns before a CPU: `bash-5240 (  5200) ` of ftrace, `bash 5200/5240 ` of perf.
fn process(before: &str) -> Option<(Tid, Tid)> {
    let before = before.trim_end();
    if let Some((task, pid)) = before.strip_suffix(')').and_then(|it| it.rsplit_once('(')) {
        let (_, tid) = task.trim_end().rsplit_once('-')?;
        return Some((number(tid)?, number(pid.trim())?));
    }
    let (_, numbers) = before.rsplit_once(char::is_whitespace)?;
    let (pid, tid) = numbers.split_once('/')?;
    Some((number(tid)?, number(pid)?))
}

/// A first column that ends in a colon, before the task's own: the name of one of several files that were joined.
fn source(text: &str) -> Option<&str> {
    let (first, rest) = word(text)?;
    let name = first.strip_suffix(':')?;
    let (task, _) = word(rest)?;
    (!name.is_empty() && task.contains('-')).then_some(name)
}

/// The part that is missing from a line that names an event but has none of the forms above.
fn unread(text: &str) -> Option<Unread> {
    let at = NEEDED.iter().find_map(|name| text.find(name))?;
    let columns = &text[..at];
    let has_cpu = columns.match_indices('[').any(|(at, _)| {
        columns[at + 1..].split_once(']').is_some_and(|(cpu, _)| number(cpu).is_some())
    });
    let has_time =
        columns.split_whitespace().any(|column| time(column.trim_end_matches(':')).is_some());
    match (has_cpu, has_time) {
        (false, true) => Some(Unread::NoCpu),
        (true, false) => Some(Unread::NoTime),
        (false, false) if columns.split_whitespace().count() > 1 => Some(Unread::NoTime),
        // A sentence with such a word in it, or fields of an unexpected form.
        (false, false) => None,
        (true, true) => Some(Unread::Fields),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::{Named, What};
    use super::*;
    use crate::Left;

    fn named(name: &str, tid: Tid) -> Named<'_> {
        Named { name, tid, prio: Some(120) }
    }

    fn event(text: &str) -> Event<'_> {
        parsed(text).event.unwrap_or_else(|| panic!("no event: {text}"))
    }

    #[test]
    fn the_same_switch_in_each_form() {
        let plain = "sched_switch: prev_comm=a b prev_pid=5240 prev_prio=120 prev_state=S ==> \
                     next_comm=swapper/1 next_pid=0 next_prio=120";
        let raw = "sched_switch: prev_comm=a b prev_pid=5240 prev_prio=120 prev_state=0x1 \
                   next_comm=swapper/1 next_pid=0 next_prio=120";
        let short = "sched_switch: a b:5240 [120] S ==> swapper/1:0 [120]";
        let forms = [
            (format!("a b  5240 [001]  1234.567890:       sched:{plain}"), None, None),
            (format!("a b  5240 [001]  1234.567890000: sched:{short}"), None, None),
            (format!("a b  5200/5240 [001]  1234.567890:  1 sched:{plain}"), Some(5200), None),
            (format!("   <...>-5240  [001]  1234.567890: {short}"), None, None),
            (format!("   <...>-5240  [001]  1234.567890: (+12) {short}"), None, None),
            (format!("   <...>-5240  [001]  1234.567890(+12): {short}"), None, None),
            (format!("   <...>-5240  [001]  1234.567890: {raw}"), None, None),
            (format!("a b-5240  [001] d..2 1234.567890: {plain}"), None, Some(Carrier::Task)),
            (format!("a b-5240  [001] d.s2. 1234.567890: {plain}"), None, Some(Carrier::Softirq)),
            (format!("a b-5240  [001] d...2.. 1234.567890: {plain}"), None, Some(Carrier::Task)),
            (
                format!("a b-5240  [001] dN.h4.. 1234.567890: {plain}"),
                None,
                Some(Carrier::Interrupt),
            ),
            (
                format!("a b-5240 ( 5200) [001] d..2. 1234.567890: {plain}"),
                Some(5200),
                Some(Carrier::Task),
            ),
            (
                format!("a b-5240 (-----) [001] d..2. 1234.567890: {plain}"),
                None,
                Some(Carrier::Task),
            ),
            (format!("a b-5240     1d.h2. 1234.567890: {plain}"), None, Some(Carrier::Interrupt)),
            (format!("a b-5240     1d..2. 1234567890us+: {plain}"), None, Some(Carrier::Task)),
            (format!("a b-5240     1d..2. 1234567890us : {plain}"), None, Some(Carrier::Task)),
        ];
        for (text, pid, flags) in &forms {
            let event = event(text);
            assert_eq!((event.t_ns, event.cpu), (1_234_567_890_000, 1), "{text}");
            let (prev, next) = (Some(named("a b", 5240)), named("swapper/1", 0));
            assert_eq!(event.what, What::Switch { prev, next, left: Left::Blocked }, "{text}");
            assert_eq!(event.process, pid.map(|pid| (5240, pid)), "{text}");
            assert_eq!(event.flags, *flags, "{text}");
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
        assert_eq!(["R", "R+", "0", "256", "0x100"].map(of), [Left::Preempted; 5]);
        assert_eq!(["S", "D", "I", "T", "D|K", "1", "0x2"].map(of), [Left::Blocked; 7]);
        assert_eq!(["X", "Z", "16", "0x20"].map(of), [Left::Dead; 4]);
    }

    #[test]
    fn priorities_have_signs() {
        let text = "a-1 [000] 1.5: sched_waking: comm=dl pid=9 prio=-1 target_cpu=000";
        assert_eq!(event(text).what, What::Waking(Named { name: "dl", tid: 9, prio: Some(-1) }));
    }

    #[test]
    fn names_may_look_like_anything() {
        let text = "x [1] 7 [003] 2.000000500: sched:sched_waking: comm=] pid=9 ==> pid=8 prio=100 \
                    target_cpu=000";
        let event = event(text);
        assert_eq!((event.cpu, event.t_ns), (3, 2_000_000_500));
        let woken = Named { name: "] pid=9 ==>", tid: 8, prio: Some(100) };
        assert_eq!(event.what, What::Waking(woken));
    }

    #[test]
    fn arrows_of_names_are_not_between_two_threads() {
        let text = "x ==> y-1 [000] 1.000001: sched_switch: prev_comm=x ==> y prev_pid=1 prev_prio=120 \
                    prev_state=S ==> next_comm= ==> z next_pid=2 next_prio=120";
        let (prev, next) = (Some(named("x ==> y", 1)), named(" ==> z", 2));
        assert_eq!(event(text).what, What::Switch { prev, next, left: Left::Blocked });
    }

    #[test]
    fn a_line_that_is_no_event_is_passed_over() {
        for text in
            ["", "# tracer: nop", "cpus=8", "\tffffffff81 do_exit+0x1 ([k])", "a-1 [000] now: x:"]
        {
            assert_eq!(parsed(text), Line::default(), "{text}");
        }
        assert_eq!(parsed("##### CPU 3 buffer started ####\n").begins, Some(3));
        assert_eq!(event("a-1 [000] 1.5: sched_stat_runtime: comm=a pid=1").what, What::Other);
    }

    #[test]
    fn lost_events_are_counted_in_each_tongue() {
        let lost = [
            ("CPU:1 [LOST 17 EVENTS]", 17),
            ("CPU:1 [EVENTS DROPPED]", 1),
            ("# entries-in-buffer/entries-written: 205/1000   #P:8", 795),
            ("a  701 [001]   300.020000: PERF_RECORD_LOST lost 1523", 1523),
        ];
        for (text, count) in lost {
            assert_eq!(parsed(text), Line { lost: count, ..Line::default() }, "{text}");
        }
    }

    #[test]
    fn a_line_that_names_an_event_and_lacks_a_column_says_which() {
        let fields = "sched_waking: comm=pulse pid=60 prio=120 target_cpu=000";
        let of = |text: String| parsed(&text).unread;
        assert_eq!(of(format!("hog    50 100.010000: sched:{fields}")), Some(Unread::NoCpu));
        assert_eq!(of(format!("hog    50 [000] sched:{fields}")), Some(Unread::NoTime));
        assert_eq!(of(format!("hog    50 sched:{fields}")), Some(Unread::NoTime));
        let odd = "hog 50 [000] 100.01: sched:sched_waking: pulse".to_string();
        assert_eq!(of(odd), Some(Unread::Fields));
    }

    #[test]
    fn lines_of_several_files_name_theirs() {
        let fields = "1.5: sched_waking: comm=b pid=2 prio=120 target_cpu=000";
        let of = |task: &str| {
            parsed(&format!("{task} [000] {fields}")).event.unwrap().source.map(String::from)
        };
        assert_eq!(of("guest.dat:     hog-50"), Some("guest.dat".into()));
        assert_eq!(of("kworker/0:1-50"), None);
    }
}
