// SPDX-License-Identifier: GPL-2.0-only
//! Loads a policy into the running kernel.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use anyhow::{Context, bail};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Enum, Enum64, MemberAttr, Struct, StructMember};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, OpenObject};
use policy::{Instance, Policy, Profile, Topology};

use crate::address;
use crate::control::{self, Controlling, Knows};
use crate::counters::{Counters, Counting, Reader, Switched, What};
use crate::renewal::Renewal;
use crate::variables::{TUNABLE, bss, set_config, variables};
use crate::{Exit, Messages, STOP_IT, State, exit, log, state};

/// A policy in charge of this kernel, until it is dropped or the kernel ejects it.
pub struct Attached {
    name: String,
    // Dropped in this order: the policy at once, and the control plane, unless it is stuck, before the object.
    link: Option<Link>,
    control: Option<Controlling>,
    switched: Option<Switched>,
    _renewal: Option<Renewal>,
    counters: Counters,
    object: Object,
    policy: &'static Policy,
    places: OnceCell<BTreeMap<String, (usize, usize)>>,
    messages: Messages,
    before: State,
}

/// The tasks that a policy schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All tasks except those of real-time and deadline classes.
    All,
    /// Tasks that ask for it, by the scheduling class SCHED_EXT.
    Asking,
}

/// A policy that the kernel has verified, with its counters and its control plane. It is not in charge of anything yet.
pub struct Ready {
    name: String,
    label: String,
    ops: String,
    control: Option<Controlling>,
    switched: Option<Switched>,
    renewal: Option<Renewal>,
    counters: Counters,
    object: Object,
    policy: &'static Policy,
}

/// Prepares a policy, and puts it in charge. Fails if another scheduler is attached.
pub fn load(
    instance: &Instance,
    topology: &Topology,
    profile: &Profile,
    scope: Scope,
    counting: Counting,
) -> anyhow::Result<Attached> {
    free()?;
    prepare(instance, topology, profile, scope, counting)?.attach()
}

/// Sets the instance's knobs and the topology, and has the kernel verify the policy. The control plane gets the profile,
/// and the counters that can be opened. Whichever scheduler is in charge stays.
pub fn prepare(
    instance: &Instance,
    topology: &Topology,
    profile: &Profile,
    scope: Scope,
    counting: Counting,
) -> anyhow::Result<Ready> {
    let what = What::of(instance, topology.kinds());
    let mut counters = what.map(|what| Counters::open(what, counting.event)).unwrap_or_default();
    let mut reads = counters.any() && counting.reader == Reader::Either;
    let open = |reads: bool| {
        let topology = Topology { reads_counters: reads, ..topology.clone() };
        log::listen(|| open_and_load(instance, &topology, scope))
    };
    let (mut result, mut words) = open(reads);
    if reads && result.is_err() && words.contains("bpf_perf_event_read_value") {
        reads = false;
        (result, words) = open(reads);
    }
    if !reads && matches!(what, Some(What::Licenses | What::Cycles)) {
        counters.give_up("a kernel before 6.15 lets no scheduler read them");
    }
    let object = result.with_context(|| {
        format!("the kernel refuses policy {}: {}", instance.label, log::reason(&words))
    })?;
    let (mut renewal, mut switched) = (None, None);
    match (counters.any(), reads) {
        // A policy with a control plane that counts by itself has no maps for them.
        (true, true) if !counters.fit(&object) => {}
        (true, true) => renewal = Some(counters.put(&object)?),
        (true, false) => {
            switched = Some(Switched::attach(&mut counters, &object, topology)?);
        }
        (false, _) => {}
    }
    let control = control::start(instance, topology, profile, &object)?;
    Ok(Ready {
        name: instance.policy.kernel_name(),
        label: instance.label.clone(),
        ops: ops_table(instance),
        control,
        switched,
        renewal,
        counters,
        object,
        policy: instance.policy,
    })
}

/// The kernel's state without a scheduler; fails if there is one.
fn free() -> anyhow::Result<State> {
    let now = state()?;
    if now.state != "disabled" {
        let other = now.ops.as_deref().unwrap_or("another scheduler");
        bail!("sched_ext is {} by {other}; {STOP_IT}", now.state);
    }
    Ok(now)
}

impl Ready {
    /// Puts it in charge. Fails if another scheduler is attached.
    pub fn attach(self) -> anyhow::Result<Attached> {
        let before = free()?;
        let mut messages = Messages::from_now();
        let Ready { name, label, ops, control, switched, renewal, counters, mut object, policy } =
            self;
        let (link, words) = log::listen(|| {
            let mut map = object
                .maps_mut()
                .find(|map| map.name() == ops.as_str())
                .with_context(|| format!("policy {label} has no ops table {ops}"))?;
            Ok::<_, anyhow::Error>(map.attach_struct_ops()?)
        });
        let link = link.with_context(|| {
            let said = messages.about_sched_ext().join("; ");
            let why = if said.is_empty() { log::reason(&words) } else { said };
            format!("sched_ext refuses policy {label}: {why}")
        })?;
        Ok(Attached {
            name,
            link: Some(link),
            control,
            switched,
            _renewal: renewal,
            counters,
            object,
            policy,
            places: OnceCell::new(),
            messages,
            before,
        })
    }
}

impl Attached {
    /// Keeps the policy's charges to its tasks, and its placements, from here on.
    pub(crate) fn keep(&self) {
        self.control.iter().for_each(|control| control.kept.keep());
    }

    /// CPU time that the policy charged each thread for on each kind of core, ns. Empty if it has no control plane,
    /// which keeps it.
    pub(crate) fn charged(&self) -> BTreeMap<trace::Tid, Vec<u64>> {
        self.control.as_ref().map(|control| control.kept.charged()).unwrap_or_default()
    }

    /// CPU time that the control plane and the mover have had since [`Attached::keep`], ns.
    pub(crate) fn control_ns(&self) -> Option<[u64; 2]> {
        self.control.as_ref()?.kept.own_ns()
    }

    /// The control plane's placements of tasks in memory domains since [`Attached::keep`].
    pub(crate) fn placed(&self) -> Vec<trace::Placed> {
        self.control.as_ref().map(|control| control.kept.placed()).unwrap_or_default()
    }

    /// The policy's own counters, by name.
    pub fn totals(&self) -> anyhow::Result<BTreeMap<String, f64>> {
        let names = self.policy.totals;
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let (places, bytes) = (self.places()?, bss(&self.object)?);
        let total = |name: &&str| {
            let place = places.get(*name).and_then(|(at, _)| bytes.get(*at..)?.first_chunk::<8>());
            let word = place.with_context(|| format!("policy {} counts no {name}", self.name))?;
            Ok((name.to_string(), u64::from_ne_bytes(*word) as f64))
        };
        names.iter().map(total).collect()
    }

    /// Its variables, found once: the service asks several times a second.
    fn places(&self) -> anyhow::Result<&BTreeMap<String, (usize, usize)>> {
        if let Some(places) = self.places.get() {
            return Ok(places);
        }
        let places = variables(self.bpf(), ".bss")?;
        Ok(self.places.get_or_init(|| places))
    }

    /// Changes the knobs that may change while the policy is in charge to those of another instance of it. Returns
    /// whether `knob` is one of them; else nothing is changed.
    pub fn set(&self, to: &Instance, knob: &str) -> anyhow::Result<bool> {
        let knobs = to.policy.knobs;
        if !knobs.iter().any(|known| known.name == knob && known.variable.tunable) {
            return Ok(false);
        }
        let (to, places) = (to.on(&crate::topology()?), variables(self.bpf(), TUNABLE)?);
        let mut maps = self.object.maps();
        let map = maps.find(|map| map.name() == TUNABLE).context("it has no such knobs")?;
        let key = 0_u32.to_ne_bytes();
        let mut bytes = map.lookup(&key, MapFlags::ANY)?.context("its knobs cannot be read")?;
        for (symbol, value) in to.variables() {
            let Some((at, _)) = places.get(symbol) else { continue };
            bytes
                .get_mut(*at..at + 8)
                .context("a knob is short")?
                .copy_from_slice(&value.to_ne_bytes());
        }
        map.update(&key, &bytes, MapFlags::ANY)?;
        Ok(true)
    }

    /// Whether it ended because a CPU came that was not there when it was loaded: to load it again is all that is needed.
    pub fn wants_to_be_loaded_again(&self) -> bool {
        let places = variables(self.bpf(), ".bss").unwrap_or_default();
        let bytes = bss(&self.object).unwrap_or_default();
        let word = places.get("cpu_came").and_then(|(at, _)| bytes.get(*at..)?.first_chunk::<8>());
        word.is_some_and(|word| u64::from_ne_bytes(*word) != 0)
    }

    /// Fails with the kernel's own reason if the policy is no longer in charge.
    pub fn verify(&mut self) -> anyhow::Result<()> {
        let now = state()?;
        if self.is_in_charge(&now) {
            let refused = now.nr_rejected.saturating_sub(self.before.nr_rejected);
            anyhow::ensure!(refused == 0, "policy {} refused {refused} tasks", self.name);
            return Ok(());
        }
        let why = self.reason();
        bail!("the kernel stopped policy {}: {why}", self.name)
    }

    /// Whether it is in charge; it is not after the kernel has ejected it. Fails if its control plane has ended.
    pub fn in_charge(&self) -> anyhow::Result<bool> {
        let stands_still = self.control.as_ref().is_some_and(Controlling::has_ended);
        anyhow::ensure!(
            !stands_still,
            "the control plane of {} has ended; please report it",
            self.name
        );
        Ok(self.is_in_charge(&state()?))
    }

    /// Whether the kernel has removed it completely, which takes a while after an ejection.
    pub fn is_out(&self) -> bool {
        state().is_ok_and(|now| now.state == "disabled" || self.is_another(&now))
    }

    /// Whether another policy was loaded since, perhaps of the same name.
    fn is_another(&self, now: &State) -> bool {
        now.enable_seq > self.before.enable_seq + 1
    }

    fn is_in_charge(&self, now: &State) -> bool {
        let named = now.ops.as_deref().is_none_or(|ops| ops == self.name);
        now.state == "enabled" && named && !self.is_another(now)
    }

    /// Why it is no longer in charge; None while it is.
    pub fn exit(&self) -> Option<Exit> {
        exit::read(&self.object)
    }

    /// Calls of bpf_spin_lock in the policy's programs. They cannot be counted as they happen, as the helper may not be
    /// probed. But a policy without a call takes none.
    pub fn spin_lock_calls(&self) -> usize {
        const CALL: u8 = 0x85;
        const BPF_SPIN_LOCK: i32 = 93;
        let programs = self.object.progs();
        let calls = programs.map(|program| {
            let calls = program.insns().iter().filter(|insn| {
                insn.code == CALL && insn.src_reg() == 0 && insn.imm == BPF_SPIN_LOCK
            });
            calls.count()
        });
        calls.sum()
    }

    /// Time in ns of the policy's programs so far, and the number of calls, if the kernel counts them (sysctl
    /// kernel.bpf_stats_enabled); else zeroes. A struct_ops program is a callback, so the calls are those of callbacks.
    pub fn program_time(&self) -> anyhow::Result<(u64, u64)> {
        let mut total = (0, 0);
        for program in self.object.progs() {
            let place = format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd());
            let text = fs::read_to_string(&place).with_context(|| place.clone())?;
            let number = |key: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(key))?;
                line.trim().parse::<u64>().ok()
            };
            total.0 += number("run_time_ns:").unwrap_or(0);
            total.1 += number("run_cnt:").unwrap_or(0);
        }
        Ok(total)
    }

    /// Counters that were opened for it.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether the program at switches reads the counters for the policy.
    pub fn counts_at_switches(&self) -> bool {
        self.switched.is_some()
    }

    /// The control plane's knowledge, if the policy has one.
    pub fn knows(&self) -> Option<Knows> {
        self.control.as_ref().map(Controlling::knows)
    }

    /// The control plane's own line, if there is one: the service asks several times a second.
    pub fn says(&self) -> Option<String> {
        self.control.as_ref()?.says()
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    /// The object as it was compiled.
    pub(crate) fn bpf(&self) -> &'static [u8] {
        self.policy.build.bpf.bytes()
    }

    /// Removes the policy and waits until Linux's own classes are back.
    pub fn detach(mut self) -> anyhow::Result<()> {
        self.leave_seat()
    }

    /// The same, but what the policy has beside the seat stays until this is dropped, which may take a while.
    pub fn leave_seat(&mut self) -> anyhow::Result<()> {
        self.verify()?;
        drop(self.link.take());
        let now = state()?;
        anyhow::ensure!(
            now.state == "disabled",
            "sched_ext is still {} after detaching",
            now.state
        );
        Ok(())
    }

    fn reason(&mut self) -> String {
        let said = self.messages.about_its_end();
        match said.is_empty() {
            true => "it gave no reason (see dmesg)".into(),
            false => said.join("; "),
        }
    }
}

/// How many instructions the verifier walked for each program of a policy, by the program's name. Nothing is attached.
pub fn verified(instance: &Instance) -> anyhow::Result<Vec<(String, u32)>> {
    let object = open_and_load(instance, &crate::topology()?, Scope::All)?;
    let program = |program: libbpf_rs::Program<'_>| {
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut size = size_of_val(&info) as u32;
        // SAFETY: the descriptor is open, and the call fills in at most `size` bytes of `info`
        let failed = unsafe {
            let fd = program.as_fd().as_raw_fd();
            libbpf_sys::bpf_prog_get_info_by_fd(fd, &raw mut info, &raw mut size)
        };
        anyhow::ensure!(failed == 0, "the kernel says nothing about its programs");
        Ok((program.name().to_string_lossy().into_owned(), info.verified_insns))
    };
    object.progs().map(program).collect()
}

fn open_and_load(instance: &Instance, topology: &Topology, scope: Scope) -> anyhow::Result<Object> {
    let build = &instance.policy.build;
    let instance = &instance.on(topology);
    let mut object = ObjectBuilder::default().name(build.ops)?.open_memory(build.bpf.bytes())?;
    let knobs = instance.variables().map(|(symbol, value)| (symbol, value.to_ne_bytes().to_vec()));
    let mut config: Vec<_> = knobs.chain(topology.config()).collect();
    config.push(address::config());
    let absent = set_config(&mut object, build.bpf.bytes(), &config)?;
    if let Some((symbol, _)) = instance.variables().find(|(symbol, _)| absent.contains(symbol)) {
        bail!("the BPF object of policy {} has no {symbol}", instance.policy.name);
    }
    set_ops(&mut object, instance, scope)?;
    Ok(object.load()?)
}

fn ops_table(instance: &Instance) -> String {
    format!("{}_ops", instance.policy.build.ops)
}

/// Flags that a policy can do without: before 6.15 wakeups are not queued for sched_ext at all.
const MAY_LACK: [(&str, u64); 1] = [("SCX_OPS_ALLOW_QUEUED_WAKEUP", 1 << 5)];

/// Writes the policy's name into its table of callbacks, as policies of a family share one, and the result of [`flags`]
/// into its flags.
fn set_ops(object: &mut OpenObject, instance: &Instance, scope: Scope) -> anyhow::Result<()> {
    let table = ops_table(instance);
    let own = Btf::from_raw("policy", instance.policy.build.bpf.bytes())?;
    let own = own.context("the BPF object has no BTF")?;
    let own = own.type_by_name::<Struct<'_>>(OPS).context("the policy has no ops table")?;
    let own_members = members(&own);
    let place = |name: &str| {
        let member = own_members.iter().find(|(it, _)| it == name);
        member.map(|(_, at)| *at).with_context(|| format!("the policy's {OPS} has no {name}"))
    };
    let (name_at, flags_at) = (place("name")?, place("flags")?);
    let mut map = object
        .maps_mut()
        .find(|map| map.name() == table.as_str())
        .with_context(|| format!("the policy has no ops table {table}"))?;
    let ops = map.initial_value_mut().context("the policy's ops table has no value")?;
    let mut name = instance.policy.kernel_name().into_bytes();
    name.push(0);
    let short = "the policy's ops table is too short";
    ops.get_mut(name_at..name_at + name.len()).context(short)?.copy_from_slice(&name);
    let place = ops.get_mut(flags_at..flags_at + 8).context(short)?;
    let own = u64::from_ne_bytes((&*place).try_into()?);
    let kernel = Btf::from_vmlinux()?;
    let known = names_in("scx_ops_flags", &kernel);
    place.copy_from_slice(&flags(own, scope, &known).to_ne_bytes());
    let known = kernel.type_by_name::<Struct<'_>>(OPS).context("this kernel has no sched_ext")?;
    let known: BTreeSet<String> = members(&known).into_iter().map(|(name, _)| name).collect();
    let lacks = |name: &str| CALLBACKS_MAY_LACK.contains(&name) && !known.contains(name);
    // libbpf refuses a table with a callback that the kernel does not know, and takes a null pointer for "not there".
    for (_, at) in own_members.iter().filter(|(name, _)| lacks(name)) {
        ops.get_mut(*at..at + 8).context(short)?.fill(0);
    }
    Ok(())
}

/// The kernel's table of callbacks.
const OPS: &str = "sched_ext_ops";

/// Callbacks that a policy can do without. Those of a CPU that a higher class takes are to go from the kernel: where
/// they have gone, it re-enqueues the waiting tasks itself. The others only tell.
const CALLBACKS_MAY_LACK: [&str; 5] =
    ["cpu_acquire", "cpu_release", "cgroup_move", "dump_cpu", "dump_task"];

/// Name and offset in bytes of each member that is no bit field.
fn members(of: &Struct<'_>) -> Vec<(String, usize)> {
    let member = |member: StructMember<'_>| match member.attr {
        MemberAttr::Normal { offset } => {
            Some((member.name?.to_string_lossy().into_owned(), offset as usize / 8))
        }
        MemberAttr::BitField { .. } => None,
    };
    of.iter().filter_map(member).collect()
}

/// A policy's flags, with SCX_OPS_SWITCH_PARTIAL if it is to leave other tasks alone. Flags of [`MAY_LACK`] that the
/// kernel does not know are left out: it refuses a table with any of them.
fn flags(own: u64, scope: Scope, known: &BTreeSet<String>) -> u64 {
    const SWITCH_PARTIAL: u64 = 1 << 3;
    let partial = if scope == Scope::Asking { SWITCH_PARTIAL } else { 0 };
    let lacks = MAY_LACK.iter().filter(|(name, _)| !known.contains(*name));
    lacks.fold(own | partial, |flags, (_, bit)| flags & !bit)
}

/// Names of an enum's values, whether they take 32 bits or 64.
fn names_in(name: &str, btf: &Btf<'_>) -> BTreeSet<String> {
    let short = btf.type_by_name::<Enum<'_>>(name);
    let long = btf.type_by_name::<Enum64<'_>>(name);
    let short = short.iter().flat_map(|values| values.iter().filter_map(|value| value.name));
    let long = long.iter().flat_map(|values| values.iter().filter_map(|value| value.name));
    short.chain(long).map(|name| name.to_string_lossy().into_owned()).collect()
}

/// Fails if a program with arrays by CPU has too few entries: two CPUs would write to one place.
pub(crate) fn room_for(cpus: usize) -> anyhow::Result<()> {
    const MAX: usize = policy::native::MAX_CPUS;
    anyhow::ensure!(
        cpus <= MAX,
        "this machine has {cpus} CPUs, and what observes the scheduler has room for {MAX}: boot with nr_cpus={MAX}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u64 = 1 << 1 | 1 << 2 | 1 << 5;

    #[test]
    fn a_kernel_that_does_not_queue_wakeups_is_not_asked_to() {
        let known = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        let before = known(&["SCX_OPS_ENQ_LAST", "SCX_OPS_ENQ_EXITING", "SCX_OPS_SWITCH_PARTIAL"]);
        let since = known(&["SCX_OPS_ENQ_LAST", "SCX_OPS_ALLOW_QUEUED_WAKEUP"]);
        assert_eq!(flags(OWN, Scope::All, &before), 1 << 1 | 1 << 2);
        assert_eq!(flags(OWN, Scope::All, &since), OWN);
    }

    #[test]
    fn what_a_policy_cannot_do_without_is_asked_of_any_kernel() {
        let none = BTreeSet::new();
        assert_eq!(flags(OWN, Scope::Asking, &none), 1 << 1 | 1 << 2 | 1 << 3);
    }
}
