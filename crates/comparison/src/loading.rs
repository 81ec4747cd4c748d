// SPDX-License-Identifier: GPL-2.0-only
//! Conditions for loading a policy into this machine's kernel.

use std::path::Path;

use live::Limit;
use policy::Instance;
use policy::native::MAX_CPUS;
use terminal::{Failure, failed, output};

/// Options of Docker and Podman for a container that is to load schedulers.
pub const CONTAINER: &str = "--privileged --pid=host --cgroupns=host";

/// Refuses a policy with a control plane that knows threads by number, if the kernel has other numbers for them.
pub fn heed_numbers(instance: &Instance) -> Result<(), Failure> {
    match instance.policy.control.is_some() && live::namespaces().contains(&"pid") {
        true => Err(Failure::input(format!(
            "{} goes by threads' numbers, and in a PID namespace they have others than in the kernel: run it outside of \
             that (in a container: with {CONTAINER})",
            instance.policy.name
        ))),
        false => Ok(()),
    }
}

/// Checks the conditions for loading a policy before anything is changed. Fails if a scheduler is in charge.
pub fn may_load() -> Result<(), Failure> {
    can_load()?.check_free().map_err(Failure::input)
}

/// The same, whichever scheduler is in charge.
pub fn can_load() -> Result<live::State, Failure> {
    let state = live::can_load().map_err(|error| {
        Failure::input(format!(
            "{error:#}; `paceline doctor` says how to mend it, `compare` on vm and sim needs none"
        ))
    })?;
    let missing = live::missing_to_load();
    if !missing.is_empty() {
        return Err(Failure::input(format!(
            "loading a scheduler needs {}: run it with sudo (in a container: with {CONTAINER})",
            missing.join(" and ")
        )));
    }
    if let Some(thread) = live::core_scheduled() {
        return Err(Failure::input(format!(
            "thread {thread} has a cookie of core scheduling, and kernels hang when a policy schedules it: {}",
            live::END_COOKIES
        )));
    }
    let cpus = live::topology().map_err(failed)?.core_type.len();
    match cpus > MAX_CPUS {
        true => Err(Failure::input(format!(
            "this machine has {cpus} CPUs, and policies have room for {MAX_CPUS}: boot with nr_cpus={MAX_CPUS}"
        ))),
        false => Ok(state),
    }
}

/// What a user says to have a policy loaded that ignores cgroups' limits.
pub const IGNORE_LIMITS: &str = "say --ignore-cgroup-limits";

/// Refuses a policy that would lift limits, because it ignores cgroups' limits. With `ignore`, only says so. `alone`:
/// it is in charge of no tasks but our command's. `way_out`: what a user does to have them ignored.
pub fn heed_limits(
    instance: &Instance,
    alone: bool,
    ignore: bool,
    way_out: &str,
) -> Result<(), Failure> {
    let root = Path::new(live::CGROUPS);
    let limits = if alone { live::own_limits(root) } else { live::limits(root) };
    let promises = instance.promises();
    let is_heeded = |limit: &Limit| match limit.file {
        "cpu.weight" => promises.heeds_cgroup_weights,
        "cpu.max" => promises.heeds_cgroup_limits,
        _ => false,
    };
    let mut limits: Vec<Limit> = limits.into_iter().filter(|limit| !is_heeded(limit)).collect();
    // If there are many, only the first are named.
    limits.sort_by_key(|limit| !limit.caps());
    let name = instance.policy.name;
    if !alone && !ignore && live::namespaces().contains(&"cgroup") {
        return Err(Failure::input(format!(
            "{name} would ignore what cgroups are limited to, and those of others are not to be seen in a cgroup \
             namespace: run it outside of that (in a container: with {CONTAINER}), or {way_out}"
        )));
    }
    if limits.is_empty() {
        return Ok(());
    }
    let ignored = listed(&limits);
    if ignore {
        output::say(&format!("paceline: {name} ignores what cgroups are limited to: {ignored}"));
        return Ok(());
    }
    Err(Failure::input(format!(
        "{name} would ignore what cgroups are limited to: {ignored}; remove the limits, or {way_out}"
    )))
}

/// The first few limits.
fn listed(limits: &[Limit]) -> String {
    const SHOWN: usize = 5;
    let mut parts: Vec<String> = limits.iter().take(SHOWN).map(Limit::to_string).collect();
    if limits.len() > SHOWN {
        parts.push(format!("and {} more", limits.len() - SHOWN));
    }
    parts.join(", ")
}

/// Call it before a policy is loaded: its first act might be to starve us.
pub fn outrank_policies() {
    if let Err(error) = live::outrank_policies() {
        output::say(&format!("paceline: {error:#}: the policy may starve this process"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_limits_are_one_line() {
        let limit = |group: &str| Limit {
            group: group.into(),
            file: "cpu.max",
            value: "50000 100000".into(),
        };
        let all: Vec<Limit> = ["/", "/a", "/b", "/c", "/d", "/e", "/f"].map(limit).into();
        let line = listed(&all);
        assert!(line.starts_with("/cpu.max is 50000 100000, /a/cpu.max is"), "{line}");
        assert!(line.ends_with(", and 2 more"), "{line}");
    }
}
