// SPDX-License-Identifier: GPL-2.0-only
//! Which policies take part in `try` if none is named, as the policies themselves declare.

use machine::Machine;
use policies::POLICIES;
use policy::Tried;
use policy::table::TYPES_MAX;

use crate::nearness::DEFAULT;

/// Policies for the replay on such a machine if none is named.
pub fn applying(machine: &Machine) -> String {
    match machine.kinds(TYPES_MAX).rates.len() > 1 {
        true => format!("{},{}", everywhere(), tried(Tried::OnUnevenCores)),
        false => everywhere(),
    }
}

/// Policies for any machine.
pub fn everywhere() -> String {
    format!("{DEFAULT},{}", tried(Tried::Everywhere))
}

/// Policies that declare this, as `--policy` takes them.
fn tried(on_which: Tried) -> String {
    let policies = POLICIES.iter().filter(|policy| policy.tried == on_which);
    policies.map(|policy| policy.name).collect::<Vec<_>>().join(",")
}

/// The help of `--policy`.
pub fn help() -> String {
    format!(
        "Policies to replay it under, as `compare` takes them [default: {}; with uneven cores also {}]",
        everywhere(),
        tried(Tried::OnUnevenCores)
    )
}

/// The effects of policies that a recording cannot tell, and why.
pub fn untold() -> String {
    let lacking: Vec<_> = POLICIES
        .iter()
        .filter_map(|policy| match policy.tried {
            Tried::Lacks { effect, on } => Some((format!("{effect} ({})", policy.name), on)),
            _ => None,
        })
        .collect();
    let (effects, on): (Vec<String>, Vec<&str>) = lacking.into_iter().unzip();
    format!(
        "unknown: what {} would change, for {} are not recorded",
        effects.join(" or "),
        on.join(" and ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_take_part_where_they_have_an_effect() {
        assert_eq!(everywhere(), "default,flsched,cas,o1");
        let uneven = machine::find("phenom-2f4s").unwrap();
        assert_eq!(applying(&uneven), "default,flsched,cas,o1,max-fair,max-perf,min-fair");
        assert_eq!(applying(&machine::find("numa-2x4").unwrap()), everywhere());
        let wanted = "unknown: what page placement (dino) or vector units (avx-fair) would change, for misses and \
                      instructions are not recorded";
        assert_eq!(untold(), wanted);
    }
}
