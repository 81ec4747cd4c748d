// SPDX-License-Identifier: GPL-2.0-only
//! Existing names that may be meant by an unknown one.

/// A name is near another from this similarity on (Jaro and Winkler: 1 is the same).
const NEAR: f64 = 0.85;
/// Most near names that are proposed.
const PROPOSED: usize = 3;

/// The similarity of an unknown name to a name, or to a part of it: names are long, and users often type a part. A part
/// begins behind a hyphen.
fn similarity(name: &str, unknown: &str) -> f64 {
    let length = unknown.chars().count();
    let starts = name.match_indices('-').map(|(at, _)| at + 1);
    let parts = [0].into_iter().chain(starts).map(|at| &name[at..]);
    let one = |part: &str| {
        let begin: String = part.chars().take(length).collect();
        strsim::jaro_winkler(part, unknown).max(strsim::jaro_winkler(&begin, unknown))
    };
    parts.map(one).fold(0.0, f64::max)
}

/// A text such as `did you mean flsched? `, the nearest name first; empty if none is near.
pub fn proposal<'n>(unknown: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    if unknown.is_empty() {
        return String::new();
    }
    let unknown = unknown.to_lowercase();
    let mut near: Vec<(f64, &str)> = names
        .into_iter()
        .map(|name| (similarity(name, &unknown), name))
        .filter(|(similarity, _)| *similarity >= NEAR)
        .collect();
    near.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    near.dedup_by_key(|(_, name)| *name);
    let names: Vec<&str> = near.iter().take(PROPOSED).map(|(_, name)| *name).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("did you mean {}? ", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_slip_is_proposed_and_one_that_is_far_is_not() {
        let names = ["default", "flsched", "min-fair", "similar-min-fair"];
        assert_eq!(proposal("flshed", names), "did you mean flsched? ");
        assert_eq!(proposal("min-fiar", names), "did you mean min-fair, similar-min-fair? ");
        assert_eq!(proposal("FLSCHED", names), "did you mean flsched? ");
        assert_eq!([proposal("xqzwvk", names), proposal("", names)], ["", ""]);
    }
}
