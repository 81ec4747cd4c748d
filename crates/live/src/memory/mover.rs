// SPDX-License-Identifier: GPL-2.0-only
//! The mover: a thread of our own that brings pages to a node, in chunks. So the pages' owners spend no time on it, and
//! an order can be cancelled between two chunks.
//!
//! Under sched_ext the kernel's own NUMA scan does not run for a policy's tasks, so only this moves their memory. If
//! that scan runs all the same (`numa_pte_updates` grows), nothing is moved: both would move the same pages.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::heat::Heat;
use super::resident::ranges;
use crate::execute::cpu_ns;
use crate::threads::end_within;

/// Pages of one system call: 4 MB of small pages.
const CHUNK: usize = 1024;
const PAGE: u64 = 4096;
/// include/uapi/linux/mempolicy.h: only pages that this process alone maps.
const MPOL_MF_MOVE: i32 = 2;

/// Longest wait for its end: it may block in the kernel on another process's memory. Shorter than the control plane's.
const PATIENCE: Duration = Duration::from_secs(1);

/// An order to bring a process's pages to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub pid: u32,
    pub node: i32,
    /// Most bytes a second; 0: no bound.
    pub rate: u64,
}

/// Moved memory, and pages that could not be moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Bytes that were brought to their node.
    pub bytes: u64,
    /// Completed orders.
    pub done: u64,
    /// Pages that could not be moved: busy, or shared.
    pub stayed: u64,
    /// Why the last order that ended early did so.
    pub why: Option<String>,
}

impl Moved {
    /// Text for a line of status; empty if nothing was ordered.
    pub fn told(&self) -> String {
        let why = self.why.as_ref().map_or(String::new(), |why| format!("; {why}"));
        match self.bytes + self.stayed {
            0 => why,
            _ => format!("; {} MB moved, {} pages stayed{why}", self.bytes >> 20, self.stayed),
        }
    }
}

#[derive(Default)]
struct Desk {
    orders: VecDeque<Order>,
    /// The order being carried out.
    now: Option<Order>,
    /// It was cancelled.
    called_off: bool,
    moved: Moved,
    /// CPU time of orders.
    cpu_ns: u64,
    stop: bool,
}

type Shared = Arc<(Mutex<Desk>, Condvar)>;

/// Carries out orders, one after the other, until this is dropped. Its thread starts with the first.
#[derive(Default)]
pub(super) struct Mover {
    shared: Shared,
    thread: OnceCell<io::Result<JoinHandle<()>>>,
}

fn desk(shared: &Shared) -> MutexGuard<'_, Desk> {
    shared.0.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mover {
    /// Takes an order, replacing an earlier one for the same process.
    pub fn order(&self, order: Order) {
        self.call_off(order.pid);
        let start = || {
            let shared = self.shared.clone();
            std::thread::Builder::new().name("mover".into()).spawn(move || work(&shared))
        };
        match self.thread.get_or_init(start) {
            Ok(_) => {
                desk(&self.shared).orders.push_back(order);
                self.shared.1.notify_one();
            }
            Err(error) => desk(&self.shared).moved.why = Some(format!("no thread: {error}")),
        }
    }

    /// Cancels an order. Moved pages stay; at most one more chunk is moved.
    pub fn call_off(&self, pid: u32) {
        let mut desk = desk(&self.shared);
        desk.orders.retain(|order| order.pid != pid);
        if desk.now.is_some_and(|order| order.pid == pid) {
            desk.called_off = true;
        }
    }

    /// Whether an order for this process waits or is being carried out.
    pub fn has(&self, pid: u32) -> bool {
        let desk = desk(&self.shared);
        let running = desk.now.filter(|_| !desk.called_off);
        desk.orders.iter().chain(&running).any(|order| order.pid == pid)
    }

    /// CPU time of orders, until the end of the last one.
    pub fn cpu_ns(&self) -> u64 {
        desk(&self.shared).cpu_ns
    }

    pub fn moved(&self) -> Moved {
        desk(&self.shared).moved.clone()
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        {
            let mut desk = desk(&self.shared);
            desk.stop = true;
            desk.called_off = true;
        }
        self.shared.1.notify_one();
        if let Some(Ok(thread)) = self.thread.take() {
            end_within(thread, PATIENCE);
        }
    }
}

fn work(shared: &Shared) {
    loop {
        let mut guard = desk(shared);
        while guard.orders.is_empty() && !guard.stop {
            guard = shared.1.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        if guard.stop {
            return;
        }
        guard.now = guard.orders.pop_front();
        guard.called_off = false;
        let order = guard.now;
        drop(guard);
        let Some(order) = order else { continue };
        let ended = carry_out(&order, shared);
        let mut guard = desk(shared);
        guard.now = None;
        guard.cpu_ns = cpu_ns();
        match ended {
            Ok(()) => guard.moved.done += 1,
            Err(why) => guard.moved.why = Some(format!("process {}: {why}", order.pid)),
        }
    }
}

/// Moves the pages that are not there yet; ends early if it is cancelled or cannot continue.
fn carry_out(order: &Order, shared: &Shared) -> Result<(), String> {
    if kernel_moves_too() {
        return Err(
            "the kernel's own NUMA balancing is at work (sysctl kernel.numa_balancing)".into()
        );
    }
    let ranges = ranges(order.pid).map_err(|error| error.to_string())?;
    let (began, mut bytes) = (Instant::now(), 0);
    for (from, to) in chunks(&ranges, &Heat::of(order.pid)) {
        let chunk: Vec<u64> = (from..to).step_by(PAGE as usize).collect();
        if desk(shared).called_off {
            return Ok(());
        }
        let told = |error| told(&error, order.node);
        let there = where_are(order.pid, &chunk).map_err(told)?;
        let elsewhere = |(_, node): &(&u64, &i32)| **node >= 0 && **node != order.node;
        let wanted: Vec<u64> =
            chunk.iter().zip(&there).filter(elsewhere).map(|(page, _)| *page).collect();
        if wanted.is_empty() {
            continue;
        }
        let status = bring(order.pid, &wanted, order.node).map_err(told)?;
        let came = status.iter().filter(|status| **status == order.node).count() as u64;
        {
            let mut desk = desk(shared);
            desk.moved.bytes += came * PAGE;
            desk.moved.stayed += wanted.len() as u64 - came;
        }
        bytes += came * PAGE;
        pause(order.rate, bytes, began);
    }
    Ok(())
}

/// First and last address of each chunk, the most used first.
fn chunks(ranges: &[(u64, u64)], heat: &Heat) -> Vec<(u64, u64)> {
    const BYTES: u64 = CHUNK as u64 * PAGE;
    let of = |(from, to): &(u64, u64)| {
        let to = *to;
        (*from..to).step_by(BYTES as usize).map(move |first| (first, to.min(first + BYTES)))
    };
    let mut chunks: Vec<(u64, u64)> = ranges.iter().flat_map(of).collect();
    chunks.sort_by_key(|(from, to)| Reverse(heat.within(*from, *to)));
    chunks
}

/// Waits until so many bytes are within the rate.
fn pause(rate: u64, bytes: u64, began: Instant) {
    if rate > 0 {
        let due = Duration::from_secs_f64(bytes as f64 / rate as f64);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
    }
}

fn told(error: &io::Error, node: i32) -> String {
    match error.raw_os_error() {
        Some(libc::ESRCH) => "it has ended".into(),
        Some(libc::ENOMEM) => format!("node {node} is full"),
        Some(libc::EPERM) => "its memory is not ours to move: run this as root".into(),
        _ => error.to_string(),
    }
}

/// Whether the kernel's own scan has just marked pages.
fn kernel_moves_too() -> bool {
    let on = fs::read_to_string("/proc/sys/kernel/numa_balancing");
    if on.map_or(true, |text| text.trim() == "0") {
        return false;
    }
    let marked = || {
        let text = fs::read_to_string("/proc/vmstat").ok()?;
        text.lines().find_map(|line| line.strip_prefix("numa_pte_updates ")?.parse::<u64>().ok())
    };
    let before = marked();
    std::thread::sleep(Duration::from_millis(50));
    before != marked()
}

/// The node of each page; negative: it is not in memory.
fn where_are(pid: u32, pages: &[u64]) -> io::Result<Vec<i32>> {
    Ok(move_pages(pid, pages, None)?.0)
}

/// Moves pages, and returns each page's node after that, or why it could not be moved.
fn bring(pid: u32, pages: &[u64], node: i32) -> io::Result<Vec<i32>> {
    match move_pages(pid, pages, Some(vec![node; pages.len()]))? {
        (status, 0) => Ok(status),
        // If one page stays, the kernel reports nothing about those around it.
        _ => where_are(pid, pages),
    }
}

/// The status of each page, and how many could not be moved.
fn move_pages(pid: u32, pages: &[u64], nodes: Option<Vec<i32>>) -> io::Result<(Vec<i32>, i64)> {
    let mut status = vec![-libc::ENOENT; pages.len()];
    let nodes = nodes.as_ref().map_or(std::ptr::null(), |nodes| nodes.as_ptr());
    // SAFETY: all three arrays have as many entries as the call is told, and live until it returns
    let left = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid as i32,
            pages.len(),
            pages.as_ptr(),
            nodes,
            status.as_mut_ptr(),
            MPOL_MF_MOVE,
        )
    };
    if left < 0 { Err(io::Error::last_os_error()) } else { Ok((status, left)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(mover: &Mover, pid: u32) {
        let began = Instant::now();
        while mover.has(pid) && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn pages_that_are_at_home_stay_there() {
        let own = vec![1u8; 1 << 20];
        let mover = Mover::default();
        let pid = std::process::id();
        mover.order(Order { pid, node: 0, rate: 0 });
        waits(&mover, pid);
        let moved = mover.moved();
        // The machine may have one node; without the system call, `why` says so.
        assert!(moved.done == 1 || moved.why.is_some(), "{moved:?}");
        assert_eq!(own[1 << 19], 1);
    }

    #[test]
    fn a_process_that_has_gone_ends_its_order_alone() {
        let mover = Mover::default();
        let gone = u32::MAX / 2;
        mover.order(Order { pid: gone, node: 0, rate: 0 });
        waits(&mover, gone);
        assert!(!mover.has(gone));
        assert_eq!(mover.moved().done, 0);
        assert!(mover.moved().why.is_some());
    }

    #[test]
    fn what_is_used_most_goes_first() {
        const CHUNK_BYTES: u64 = CHUNK as u64 * PAGE;
        let (heap, stack) = ((0, 2 * CHUNK_BYTES + PAGE), (1 << 40, (1 << 40) + PAGE));
        let cold = chunks(&[heap, stack], &Heat::default());
        let (first, second) = ((0, CHUNK_BYTES), (CHUNK_BYTES, 2 * CHUNK_BYTES));
        let third = (2 * CHUNK_BYTES, 2 * CHUNK_BYTES + PAGE);
        assert_eq!(cold, [first, second, third, stack], "where nothing is known they go in order");
        let mut heat = Heat::default();
        for address in [stack.0 + 5, stack.0 + 7, CHUNK_BYTES] {
            heat.meet(address);
        }
        assert_eq!(chunks(&[heap, stack], &heat), [stack, second, first, third]);
    }

    /// Only this thread gives up its rights, and is then refused to move other users' memory.
    #[test]
    fn memory_of_others_is_not_moved_without_the_right_to() {
        let init = 1;
        let refused = std::thread::spawn(move || {
            const NOBODY: libc::uid_t = 65534;
            // SAFETY: plain numbers; the call itself changes this thread's ids and no other's
            unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
            where_are(init, &[0]).map(|_| ()).unwrap_err()
        });
        let error = refused.join().unwrap();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        assert_eq!(told(&error, 0), "its memory is not ours to move: run this as root");
    }

    #[test]
    fn an_order_is_called_off_before_it_begins_and_dropped_with_its_mover() {
        let mover = Mover::default();
        mover.call_off(1);
        assert!(!mover.has(1));
        drop(mover);
    }

    #[test]
    fn a_mover_that_stands_still_is_left_behind() {
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let stands = std::thread::spawn(move || {
            let _ = gone.recv_timeout(10 * PATIENCE);
        });
        let mover = Mover::default();
        assert!(mover.thread.set(Ok(stands)).is_ok());
        drop(mover);
        go.send(()).expect("drop did not wait for the thread");
    }
}
