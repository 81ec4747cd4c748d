// SPDX-License-Identifier: GPL-2.0-only
//! Every policy that ships, as one list.
//!
//! The command, the book and the tests read it. A new policy is its own folder, and a line in [`FOLDERS`].

use std::sync::LazyLock;

use policy::Policy;

/// A folder of `policies/`: the policies of one crate, which share a README and a page of the book.
#[derive(Clone, Copy, Debug)]
pub struct Folder {
    /// Its name, and that of the page.
    pub name: &'static str,
    /// `README.md`.
    pub readme: &'static str,
    /// Its policies.
    pub policies: &'static [&'static Policy],
}

macro_rules! folders {
    ($($name:ident),* $(,)?) => {
        &[$(Folder {
            name: stringify!($name),
            readme: include_str!(concat!("../../", stringify!($name), "/README.md")),
            policies: $name::ALL,
        }),*]
    };
}

/// In the order in which `paceline list` shows them.
pub static FOLDERS: &[Folder] = folders![flsched, cas, uneven, dino, avx, baseline];

/// All policies in a row.
pub static POLICIES: LazyLock<Vec<&'static Policy>> =
    LazyLock::new(|| FOLDERS.iter().flat_map(|folder| folder.policies).copied().collect());

/// The folder that a policy is from. None: it does not ship.
pub fn folder_of(policy: &Policy) -> Option<&'static Folder> {
    FOLDERS.iter().find(|folder| folder.policies.iter().any(|own| own.name == policy.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_is_from_one_folder() {
        for folder in FOLDERS {
            for policy in folder.policies {
                assert_eq!(folder_of(policy).map(|of| of.name), Some(folder.name));
            }
            assert!(folder.readme.starts_with("# "), "{}", folder.name);
        }
    }
}
