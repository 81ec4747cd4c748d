// SPDX-License-Identifier: GPL-2.0-only
//! No file imports another in a circle: what two files share is in a third. Code below `mod tests` does not count.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::files;

/// Circles that there are, each by its first file, and why. ARCHITECTURE.md says more.
const KNOWN: [(&str, &str); 2] = [
    ("crates/laboratory/src/experiment.rs", "a kind of figure asks the laboratory that takes it"),
    ("crates/policy/src/control.rs", "a policy is described by functions of its own instances"),
];

/// A path from the root of its crate.
type Path = Vec<String>;

#[derive(Default)]
struct Module {
    file: String,
    /// What each name that it imports stands for.
    imports: BTreeMap<String, Path>,
    /// All paths in its code.
    paths: Vec<Path>,
}

fn is_path(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == ':'
}

/// `to`, as the module at `own` means it, from the root of the crate.
fn absolute(own: &[String], to: &str) -> Path {
    let words = to.split("::").map(str::trim).filter(|word| !word.is_empty());
    let mut path = own.to_vec();
    for word in words {
        match word {
            "crate" => path.clear(),
            "super" => drop(path.pop()),
            "self" => {}
            word => path.push(word.into()),
        }
    }
    path
}

/// The paths of a `use`, each with the name that stands for it.
fn expand(own: &[String], before: &str, tree: &str, imports: &mut BTreeMap<String, Path>) {
    let mut depth = 0;
    let parts = tree.split(|letter| {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        letter == ',' && depth == 0
    });
    for part in parts.filter(|part| !part.trim().is_empty()) {
        if let Some((head, rest)) = part.split_once('{') {
            let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
            expand(own, &format!("{before}{head}"), inner, imports);
            continue;
        }
        let (path, name) = part.split_once(" as ").unwrap_or((part, ""));
        let path = absolute(own, &format!("{before}{path}"));
        let last = path.last().cloned().unwrap_or_default();
        imports.insert(if name.is_empty() { last } else { name.trim().into() }, path);
    }
}

fn read(own: &[String], file: &str, text: &str) -> Module {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code: Vec<&str> = code.lines().filter_map(|line| line.split("//").next()).collect();
    let mut module = Module { file: file.into(), ..Module::default() };
    for statement in code.join("\n").split(';') {
        let (rest, tree) = match statement.rsplit_once("use ") {
            Some((rest, tree)) if !tree.contains(|c| !is_path(c) && !" \n{},*".contains(c)) => {
                (rest, tree)
            }
            _ => (statement, ""),
        };
        expand(own, "", tree, &mut module.imports);
        let named = rest.split(|letter| !is_path(letter)).filter(|word| word.contains("::"));
        module.paths.extend(named.map(|word| absolute(own, word)));
    }
    module.paths.extend(module.imports.values().cloned());
    module
}

/// The module that a path leads to, through names that others hand on.
fn led_to(modules: &BTreeMap<Path, Module>, mut path: Path) -> &Path {
    const HOPS_MAX: usize = 8;
    for hop in 0.. {
        let begins = |length: &usize| modules.contains_key(&path[..*length]);
        let length = (0..=path.len()).rev().find(begins).expect("a crate has a root");
        let (found, module) = modules.get_key_value(&path[..length]).expect("it was found");
        match path.get(length).and_then(|name| module.imports.get(name)) {
            Some(target) if hop < HOPS_MAX => path = [target, &path[length + 1..]].concat(),
            _ => return found,
        }
    }
    unreachable!("the loop returns")
}

/// Sets of files that import each other, crate by crate.
fn circles(files: &[(String, String)]) -> BTreeSet<Vec<String>> {
    let mut crates: BTreeMap<&str, BTreeMap<Path, Module>> = BTreeMap::new();
    for (file, text) in files.iter().filter(|(file, _)| file.ends_with(".rs")) {
        let Some((name, inner)) = file.split_once("/src/") else { continue };
        let mut own = absolute(&[], &inner[..inner.len() - 3].replace('/', "::"));
        own.pop_if(|last| matches!(last.as_str(), "lib" | "main" | "mod"));
        let module = read(&own, file, text);
        crates.entry(name).or_default().insert(own, module);
    }
    crates.values().flat_map(of_crate).collect()
}

fn of_crate(modules: &BTreeMap<Path, Module>) -> Vec<Vec<String>> {
    let imported = |module: &Module| -> BTreeSet<&Path> {
        module.paths.iter().map(|path| led_to(modules, path.clone())).collect()
    };
    let others = |(own, module)| {
        let mut others = imported(module);
        others.remove(own);
        (own, others)
    };
    let direct: BTreeMap<&Path, BTreeSet<&Path>> = modules.iter().map(others).collect();
    let mut reached = direct.clone();
    for seen in reached.values_mut() {
        let mut next: Vec<&Path> = seen.iter().copied().collect();
        while let Some(at) = next.pop() {
            next.extend(direct[at].iter().copied().filter(|to| seen.insert(*to)));
        }
    }
    let circle = |(own, to): (&&Path, &BTreeSet<&Path>)| -> Vec<String> {
        let back = to.iter().filter(|other| reached[**other].contains(own));
        let mut files: Vec<String> = back.map(|other| modules[*other].file.clone()).collect();
        files.sort();
        files
    };
    reached.iter().map(circle).filter(|files| !files.is_empty()).collect()
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let found = circles(&files());
    let known = |first: &str| KNOWN.iter().any(|(known, _)| *known == first);
    let new: Vec<_> = found.iter().filter(|files| !known(&files[0])).collect();
    assert!(new.is_empty(), "these files import each other: {new:#?}");
    let gone = |first: &&str| !found.iter().any(|files| files[0] == *first);
    let gone: Vec<&str> = KNOWN.iter().map(|(first, _)| *first).filter(gone).collect();
    assert!(gone.is_empty(), "these are in no circle now; take them off the list: {gone:#?}");
}

#[test]
fn circle_is_found_through_braces_other_names_and_children() {
    let file = |(name, text): (&str, &str)| (format!("crates/x/src/{name}"), text.to_string());
    let files = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::{One as First, Two};\n"),
        ("a.rs", "use std::fs;\nfn f() { crate::b::g() }\n"),
        ("b.rs", "use crate::{\n    c::Three,\n    First,\n};\n"),
        ("c/mod.rs", "mod d;\nfn f() { d::g() }\n#[cfg(test)]\nmod tests {\nuse crate::a;\n}\n"),
        ("c/d.rs", "use super::Four;\n"),
    ];
    let circle = |files: [&str; 2]| files.map(|name| format!("crates/x/src/{name}")).to_vec();
    let wanted = [circle(["a.rs", "b.rs"]), circle(["c/d.rs", "c/mod.rs"])];
    assert_eq!(circles(&files.map(file)), BTreeSet::from(wanted));
}
