// SPDX-License-Identifier: GPL-2.0-only
//! Scheduling classes of processes: of the process that holds a policy, and of those that ask for it.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::{fs, io};

use anyhow::Context;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

/// include/uapi/linux/sched.h; libc does not have it yet.
const SCHED_EXT: libc::c_int = 7;
const SCHED_DEADLINE: libc::c_int = 6;

/// Signals that Paceline handles unless it was started with them ignored: `nohup` ignores hangups, a shell without job
/// control ignores Ctrl-C in the background.
const HANDLED: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGTSTP];

/// This process's scheduling class, nice value and timer slack, its limit of open files, and the signals that it
/// ignores and blocks. Its children begin with the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// None: children do not inherit it, because it is reset on fork or is SCHED_DEADLINE.
    class: Option<(libc::c_int, libc::c_int)>,
    nice: libc::c_int,
    slack_ns: libc::c_int,
    files: Rlimit,
    ignores: [bool; HANDLED.len()],
    /// A bit for each signal, the lowest for the first.
    blocks: u64,
}

impl Standing {
    /// The present standing. Call it before signals are handled or blocked, and before [`outrank_policies`], after
    /// which children inherit none of it.
    pub fn now() -> Self {
        let mut param = libc::sched_param { sched_priority: 0 };
        // SAFETY: the parameter outlives the call, and the others take values alone
        let (class, nice, slack_ns) = unsafe {
            libc::sched_getparam(0, &mut param);
            let nice = libc::getpriority(libc::PRIO_PROCESS, 0);
            (libc::sched_getscheduler(0), nice, libc::prctl(libc::PR_GET_TIMERSLACK))
        };
        let inherited = class >= 0 && class & libc::SCHED_RESET_ON_FORK == 0;
        let class = inherited.then_some((class, param.sched_priority));
        let class = class.filter(|(class, _)| *class != SCHED_DEADLINE);
        let (ignores, files) = (HANDLED.map(is_ignored), getrlimit(Resource::Nofile));
        Standing { class, nice, slack_ns, files, ignores, blocks: blocked() }
    }

    /// Makes a command begin with it, as far as permitted.
    pub fn give(self, command: &mut Command) {
        let Standing { class, nice, slack_ns, files, ignores, blocks } = self;
        let blocks = set_of(|signal| blocks >> (signal - 1) & 1 == 1);
        let begin = move || {
            if let Some((class, sched_priority)) = class {
                let param = libc::sched_param { sched_priority };
                // SAFETY: the parameter outlives the call, and the other takes values alone
                unsafe {
                    libc::sched_setscheduler(0, class, &param);
                    libc::setpriority(libc::PRIO_PROCESS, 0, nice);
                }
            }
            // SAFETY: the call takes values alone
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) };
            let _ = setrlimit(Resource::Nofile, files);
            for (signal, _) in HANDLED.iter().zip(ignores).filter(|(_, ignores)| *ignores) {
                ignore(*signal);
            }
            // SAFETY: the set outlives the call
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &blocks, std::ptr::null_mut()) };
            Ok(())
        };
        // SAFETY: all of that may be called between fork and exec
        unsafe { command.pre_exec(begin) };
    }
}

/// Makes a command get this signal when the thread that starts it ends, however that ends.
pub fn die_with_parent(command: &mut Command, signal: Signal) {
    // SAFETY: one system call between fork and exec; it allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(signal)).map_err(Into::into)
        });
    }
}

/// Puts this process above every policy, with its memory locked: a policy that starves every task must not starve the
/// process that can remove it. It raises the limit of open files as far as permitted: counters of threads take two
/// each. Its children begin in Linux's own class, or with a [`Standing`].
pub fn outrank_policies() -> anyhow::Result<()> {
    let all = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // Any user may do that; only root may do the rest.
    let files = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files });
    // SAFETY: the call takes values alone
    let locked =
        checked(unsafe { libc::mlockall(all) }).context("cannot lock this process in memory");
    // If only one of them is permitted, do that one.
    outrank_thread().context("cannot run above the policy (SCHED_FIFO)").and(locked)
}

/// Puts this thread above all threads that are not real-time.
pub(crate) fn outrank_thread() -> io::Result<()> {
    make_real_time(1)
}

/// Puts this thread above all real-time threads of lower priority, too.
pub fn outrank_real_time() -> io::Result<()> {
    make_real_time(98)
}

fn make_real_time(sched_priority: libc::c_int) -> io::Result<()> {
    let param = libc::sched_param { sched_priority };
    let class = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the parameter outlives the call, which keeps no pointer to it
    checked(unsafe { libc::sched_setscheduler(0, class, &param) })
}

/// Lets this process write to its terminal from the background too, where `stty tostop` would stop it: needed with a
/// policy in charge. Its commands are not affected.
pub fn speak_from_background() {
    let set = set_of(|signal| signal == libc::SIGTTOU);
    // SAFETY: the set outlives the call
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
}

/// Signals by number; 64 is the last.
const SIGNALS: std::ops::RangeInclusive<libc::c_int> = 1..=64;

fn set_of(is_in: impl Fn(libc::c_int) -> bool) -> libc::sigset_t {
    // SAFETY: sigemptyset writes the set before it is read, which outlives the calls
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in SIGNALS.filter(|signal| is_in(*signal)) {
            libc::sigaddset(&mut set, signal);
        }
        set
    }
}

/// Signals that this thread blocks, in the format of [`Standing`].
fn blocked() -> u64 {
    let mut set = set_of(|_| false);
    // SAFETY: the set outlives the call
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut set) };
    // SAFETY: as above
    let is_in = |signal: &libc::c_int| unsafe { libc::sigismember(&set, *signal) } == 1;
    SIGNALS.filter(is_in).map(|signal| 1u64 << (signal - 1)).sum()
}

/// Whether this process ignores a signal.
pub fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all zeroes is a valid action, and the call writes it whole where it succeeds
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Makes this process, and its children, ignore a signal.
pub fn ignore(signal: libc::c_int) {
    // SAFETY: the call takes values alone
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Ctrl-\ and other signals that end a process.
const ENDING: [libc::c_int; 6] =
    [libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM, libc::SIGVTALRM, libc::SIGXCPU];

/// Resets them to what they did before [`end_as_killed`].
pub fn end_as_others() {
    ENDING.into_iter().for_each(unhandle);
}

/// Makes Ctrl-\ and other signals that end a process act like SIGTERM, unless they are ignored.
///
/// # Errors
/// The kernel does not take a handler.
pub fn end_as_killed() -> io::Result<()> {
    extern "C" fn killed(_: libc::c_int) {
        // SAFETY: a handler may call it
        unsafe { libc::raise(libc::SIGTERM) };
    }
    for signal in ENDING.into_iter().filter(|signal| !is_ignored(*signal)) {
        // SAFETY: the handler exists as long as this program
        let before = unsafe { libc::signal(signal, killed as *const () as libc::sighandler_t) };
        if before == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Resets a handled signal to its default action.
pub fn unhandle(signal: libc::c_int) {
    if !is_ignored(signal) {
        // SAFETY: the call takes values alone
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Stops this process, until it is continued.
pub fn stop() {
    // A process may always stop itself.
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
}

/// Whether this process is in a user namespace other than the first, in which each user has its own id. A kernel
/// without such namespaces has no such file.
pub(crate) fn in_user_namespace(root: &Path) -> bool {
    let map = fs::read_to_string(root.join("proc/self/uid_map"));
    map.is_ok_and(|map| !map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// Whether this process has root's rights: root of a user namespace does not.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root() && !in_user_namespace(Path::new("/"))
}

/// Makes a command and all its children ask for SCHED_EXT: a policy in partial mode takes no other tasks.
pub fn ask_for_sched_ext(command: &mut Command) {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: sched_setscheduler may be called between fork and exec
    unsafe {
        command.pre_exec(move || checked(libc::sched_setscheduler(0, SCHED_EXT, &none)));
    }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of a command's own status; the command begins with a standing or without.
    fn status_of(standing: Option<Standing>, line: &str) -> u64 {
        let mut command = Command::new("cat");
        command.arg("/proc/self/status");
        standing.iter().for_each(|standing| standing.give(&mut command));
        let out = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let value = out.lines().find_map(|it| it.strip_prefix(line)).unwrap();
        u64::from_str_radix(value.trim_start_matches(':').trim(), 16).unwrap()
    }

    #[test]
    fn a_command_ignores_inherited_signals_even_if_they_are_handled_here() {
        extern "C" fn nothing(_: libc::c_int) {}
        let ignores = |status: u64| status >> (libc::SIGHUP - 1) & 1 == 1;
        ignore(libc::SIGHUP);
        let standing = Standing::now();
        // SAFETY: the handler does nothing
        unsafe { libc::signal(libc::SIGHUP, nothing as *const () as libc::sighandler_t) };
        assert!(!ignores(status_of(None, "SigIgn")));
        assert!(ignores(status_of(Some(standing), "SigIgn")));
        unhandle(libc::SIGHUP);
        assert!(!ignores(status_of(Some(Standing::now()), "SigIgn")));
    }

    #[test]
    fn what_is_blocked_to_speak_from_the_background_is_not_so_for_a_command() {
        let blocks = |status: u64| status >> (libc::SIGTTOU - 1) & 1 == 1;
        let standing = Standing::now();
        speak_from_background();
        assert!(blocks(status_of(None, "SigBlk")));
        assert!(!blocks(status_of(Some(standing), "SigBlk")));
        assert!(blocks(status_of(Some(Standing::now()), "SigBlk")));
    }
}
