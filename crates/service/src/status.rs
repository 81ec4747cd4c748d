// SPDX-License-Identifier: GPL-2.0-only
//! The state of the service, as any user may see it: no name of a task, and no path of a cgroup.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::ladder::CLASS;
use crate::ladder::Fault;

/// The state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of Paceline.
    pub version: String,
    /// The policy in charge, with its knobs; `default` is Linux's own class.
    pub in_charge: String,
    /// For how long, s.
    pub for_s: u64,
    /// The service's clock, s since 1970: pauses of policies go by it.
    pub now_s: u64,
    /// The policies of the config file, the preferred one first.
    pub policies: Vec<String>,
    /// What an administrator chose in their place.
    pub chosen: Option<String>,
    /// Whether the policy in charge is within its grace time.
    pub on_trial: bool,
    /// It has only tasks that ask for it.
    pub partial: bool,
    /// Policies that failed, by name.
    pub faults: BTreeMap<String, Fault>,
    /// How often a policy was loaded since the service began.
    pub loads: u64,
    /// How often the kernel ejected one.
    pub ejections: u64,
    /// The last change of what is in charge.
    pub last_switch: Option<Switched>,
    /// The control plane's own line.
    pub says: Option<String>,
    /// Its own counters, such as `refunded_ns`.
    #[serde(default)]
    pub counts: BTreeMap<String, f64>,
    /// Where what is known of programs comes from.
    pub sources: Option<String>,
    /// Another scheduler is in charge, and the service stands aside.
    pub stands_aside_for: Option<String>,
    /// The machine's power profile, if the config file has something to do with any.
    #[serde(default)]
    pub power_profile: Option<String>,
}

impl Status {
    /// What any user may see of it: the kernel names tasks in its reasons, and a refusal may name cgroups.
    #[must_use]
    pub fn public(mut self) -> Self {
        for fault in self.faults.values_mut() {
            fault.why = FOR_ROOT.into();
        }
        self
    }
}

/// What stands in place of a reason.
const FOR_ROOT: &str = "root may see why";

/// A change of what is in charge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Switched {
    /// What was in charge; `default` is Linux's own class.
    pub from: String,
    /// What is in charge now.
    pub to: String,
    /// How long Linux's own class was in charge between two policies, at most, s. None: one of both is that class.
    pub window_s: Option<f64>,
    /// How long the new policy took to be verified and prepared, s, with the one before still in charge.
    pub prepared_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_sees_names_of_tasks_or_cgroups() {
        let why =
            "runnable task stall (secret[7] failed to run); /secret.slice/cpu.max is 1".to_string();
        let fault = Fault { count: 1, not_before_s: 9, why };
        let state = Status { faults: [("cas".to_string(), fault)].into(), ..Status::default() };
        let public = serde_json::to_string(&state.clone().public()).unwrap();
        assert!(public.contains("cas") && !public.contains("secret"), "{public}");
        assert!(serde_json::to_string(&state).unwrap().contains("secret"), "root sees them");
    }
}
