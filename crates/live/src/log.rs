// SPDX-License-Identifier: GPL-2.0-only
//! libbpf's messages, kept so that a refusal of the verifier becomes an error.

use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::{PrintLevel, set_print};

static WORDS: Mutex<String> = Mutex::new(String::new());

/// Runs `action`; returns its result and libbpf's messages meanwhile.
pub(crate) fn listen<T>(action: impl FnOnce() -> T) -> (T, String) {
    words().clear();
    let before = set_print(Some((PrintLevel::Info, keep)));
    let result = action();
    set_print(before);
    (result, std::mem::take(&mut words()))
}

/// The line with the reason: the verifier's last before its summary, with the name of the program, or libbpf's last
/// complaint.
pub(crate) fn reason(log: &str) -> String {
    // If the kernel gives no log, libbpf prints no frame around it.
    let said = |line: &&str| !line.is_empty() && !line.ends_with("PROG LOAD LOG --");
    let lines: Vec<&str> = log.lines().map(str::trim).filter(said).collect();
    let verdict = lines.iter().rposition(|line| line.starts_with("processed "));
    let line = match verdict {
        Some(summary) if summary > 0 => Some(lines[summary - 1]),
        _ => lines.iter().rev().find(|line| line.starts_with("libbpf: ")).copied(),
    };
    let said = line.map_or("libbpf gave no reason", |line| line.trim_start_matches("libbpf: "));
    match refused_program(&lines).filter(|_| verdict.is_some()) {
        Some(program) => format!("{program}: {said}"),
        None => said.into(),
    }
}

/// The program that the verifier refused last.
fn refused_program<'a>(lines: &[&'a str]) -> Option<&'a str> {
    lines.iter().rev().find_map(|line| {
        line.strip_prefix("libbpf: prog '")?
            .split_once("': BPF program load failed")
            .map(|(name, _)| name)
    })
}

fn keep(_level: PrintLevel, text: String) {
    words().push_str(&text);
}

fn words() -> MutexGuard<'static, String> {
    WORDS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn the_verifiers_last_word_is_the_reason() {
        let log = "libbpf: prog 'x': BPF program load failed: -EACCES\n\
                   libbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n\
                   0: R1=ctx()\n\
                   R0 invalid mem access 'scalar'\n\
                   processed 3 insns (limit 1000000) max_states_per_insn 0\n\
                   -- END PROG LOAD LOG --\n\
                   libbpf: failed to load object 'x'\n";
        assert_eq!(reason(log), "x: R0 invalid mem access 'scalar'");
    }

    #[test]
    fn without_a_verifier_libbpfs_last_complaint_is_the_reason() {
        let log = "libbpf: extern (func ksym) 'f': func_proto [1] incompatible with vmlinux [2]\n";
        assert!(reason(log).starts_with("extern (func ksym) 'f': func_proto"));
        assert_eq!(reason(""), "libbpf gave no reason");
        let log = "libbpf: prog 'x': BPF program load failed: Too many open files\n\
                   libbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n\
                   -- END PROG LOAD LOG --\n";
        assert_eq!(reason(log), "prog 'x': BPF program load failed: Too many open files");
    }
}
