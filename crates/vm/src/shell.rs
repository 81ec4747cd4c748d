// SPDX-License-Identifier: GPL-2.0-only
//! Which programs a command line calls, as far as its words tell.
//!
//! **Problem.** `sh -c 'hackbench -g 4 & wait'` ends with 0 if there is no hackbench, and the measured workload is a
//! shell that did nothing. Whether a word is a program depends on the shell's grammar: keywords, builtins, functions,
//! quotes, here-documents. A correct command must not be refused.
//!
//! **Approach.** A grammar of bash (tree-sitter's) reads the text; a text that it cannot read tells nothing. Only a
//! literal first word of a command counts. A call is *sure* if no earlier command decides whether it happens. Then it
//! is in no branch, no function and not behind `||`, and nothing changes where programs are looked up.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use tree_sitter::{Node, Parser};

/// A longer script is not read.
const TEXT_MAX: u64 = 256 << 10;
/// Commands that are nested deeper are not read.
const DEPTH_MAX: usize = 200;
/// Most scripts that are followed into each other.
const SCRIPTS_MAX: usize = 4;

/// A call of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// The program's name or path. Of a program that starts another (`nice`): words, the first of which that is a
    /// program is started.
    pub words: Vec<String>,
    /// It is a file that a shell reads, and no program.
    pub is_script: bool,
    /// It happens for certain: nothing in the text decides it.
    pub sure: bool,
}

/// Shells with scripts that are read.
const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "ksh", "mksh"];

/// Programs that start a program named in their arguments.
const STARTERS: &[&str] = &[
    "chrt", "command", "env", "exec", "ionice", "nice", "nohup", "numactl", "setsid", "stdbuf",
    "strace", "taskset", "time", "timeout", "unshare", "xargs",
];

/// Commands of the shells themselves.
const BUILTINS: &[&str] = &[
    ".",
    ":",
    "[",
    "[[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "cd",
    "chdir",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "echo",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "print",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "time",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
    "whence",
];

/// Commands that change the meaning of later words, or run text that cannot be read here.
const CHANGERS: &[&str] = &[".", "alias", "builtin", "enable", "eval", "hash", "source"];

/// Commands that ask whether a program exists.
const ASKERS: &[&str] = &["[", "[[", "command", "hash", "test", "type", "which", "whence"];

/// The programs that a command line calls beside its own first word.
pub(crate) fn calls(argv: &[OsString], program: &Path) -> Vec<Call> {
    let words: Vec<Option<String>> =
        argv.iter().map(|word| word.to_str().map(String::from)).collect();
    let mut found = Found::default();
    match shell_of(program) {
        Some(script) => found.read(&script, true),
        None => found.command(&words, true, true),
    }
    found.end()
}

/// The text of a program that is a shell's script.
fn shell_of(program: &Path) -> Option<String> {
    let text = text_of(program)?;
    let line = text.lines().next()?.strip_prefix("#!")?;
    let mut words = line.split_whitespace().map(name_of);
    let first = words.next()?;
    let interpreter = if first == "env" { words.next()? } else { first };
    SHELLS.contains(&interpreter).then_some(text)
}

fn text_of(file: &Path) -> Option<String> {
    let there = fs::metadata(file).ok()?;
    let fits = there.is_file() && there.len() <= TEXT_MAX;
    fits.then(|| fs::read_to_string(file).ok())?
}

fn name_of(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Findings so far.
#[derive(Default)]
struct Found {
    calls: Vec<Call>,
    functions: BTreeSet<String>,
    /// A command has changed what words mean: no call is sure.
    changed: bool,
    /// The text ends here, unless a condition decides otherwise.
    left: bool,
    /// All texts that were read.
    text: String,
    scripts: usize,
}

impl Found {
    /// The calls, without those of functions that the texts define. A call of a file that the texts seem to make is not
    /// sure.
    fn end(mut self) -> Vec<Call> {
        let is_own = |word: &String| self.functions.contains(word) || BUILTINS.contains(&&**word);
        self.calls.retain(|call| !call.words.iter().any(is_own));
        let made: BTreeSet<String> = self
            .calls
            .iter()
            .flat_map(|call| &call.words)
            .filter(|it| self.makes(it))
            .cloned()
            .collect();
        for call in &mut self.calls {
            call.sure &= !self.changed && !call.words.iter().any(|word| made.contains(word));
        }
        // Of two calls of one program, keep the sure one.
        self.calls.sort_by_key(|call| !call.sure);
        let mut known = BTreeSet::new();
        self.calls.retain(|call| known.insert(call.words.clone()));
        self.calls
    }

    /// Whether the text names this file anywhere but in its calls, and so may make it.
    fn makes(&self, word: &str) -> bool {
        let is_of_name = |letter: char| letter.is_alphanumeric() || "._-+".contains(letter);
        let name = name_of(word);
        let named = |(at, _): &(usize, &str)| {
            let (before, behind) = (&self.text[..*at], &self.text[at + name.len()..]);
            !behind.starts_with(is_of_name) && !before.ends_with(is_of_name)
        };
        let places = self.text.match_indices(name).filter(named);
        if !word.contains('/') {
            return places.filter(|(at, _)| self.text[..*at].ends_with('/')).count() > 0;
        }
        let calls = self.calls.iter().filter(|call| call.words.iter().any(|it| it == word)).count();
        places.count() > calls
    }

    /// Reads a script.
    fn read(&mut self, text: &str, sure: bool) {
        self.scripts += 1;
        let mut parser = Parser::new();
        let ready = parser.set_language(&tree_sitter_bash::LANGUAGE.into());
        let tree = ready.ok().and_then(|()| parser.parse(text, None));
        let Some(tree) = tree.filter(|tree| !tree.root_node().has_error()) else {
            self.changed = true;
            return;
        };
        self.text.push_str(text);
        self.text.push('\n');
        let left = std::mem::take(&mut self.left);
        self.visit(tree.root_node(), text, sure, 0);
        self.left = left;
    }

    fn visit(&mut self, node: Node<'_>, text: &str, sure: bool, depth: usize) {
        if depth > DEPTH_MAX {
            self.changed = true;
            return;
        }
        let sure = sure && !self.left;
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        let inner = match node.kind() {
            "if_statement" | "while_statement" | "case_statement" | "negated_command" => false,
            "function_definition" => {
                let name = node.child_by_field_name("name").and_then(|name| literal(name, text));
                self.functions.extend(name);
                false
            }
            "list" => return self.list(node, text, sure, depth),
            "variable_assignment" => {
                let name = node.child_by_field_name("name");
                self.changed |= name.is_some_and(|name| &text[name.byte_range()] == "PATH");
                sure
            }
            "command" => {
                let words = words(node, text);
                self.command(&words, sure, false);
                sure
            }
            _ => sure,
        };
        for child in children {
            self.visit(child, text, inner, depth + 1);
        }
    }

    /// Commands joined by `&&` or `||`.
    fn list(&mut self, node: Node<'_>, text: &str, sure: bool, depth: usize) {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        // The command before `||` may fail, and the one after it may not run.
        let mut inner = sure && !children.iter().any(|child| child.kind() == "||");
        for child in children.into_iter().filter(Node::is_named) {
            self.visit(child, text, inner, depth + 1);
            inner &= !asks(child, text);
        }
    }

    /// A command of these words; None: a word that is not literal. `is_first`: its first word is known to exist.
    fn command(&mut self, words: &[Option<String>], sure: bool, is_first: bool) {
        let Some(Some(first)) = words.first() else { return };
        let (name, arguments) = (name_of(first).to_string(), &words[1..]);
        self.changed |= CHANGERS.contains(&&*name);
        if ["exit", "return"].contains(&&*name) || name == "exec" && !arguments.is_empty() {
            self.left = true;
        }
        if !is_first {
            self.call([first.clone()], false, sure);
        }
        if SHELLS.contains(&&*name) {
            self.shell(arguments, sure);
        } else if STARTERS.contains(&&*name) {
            let plain = |word: &&String| !word.starts_with('-') && !word.contains('=');
            let literal = arguments.iter().map_while(Option::as_ref);
            let asks =
                name == "command" && arguments.iter().flatten().any(|it| it.starts_with('-'));
            let started: Vec<String> = literal.filter(plain).cloned().collect();
            if let Some(at) = started.iter().position(|word| SHELLS.contains(&name_of(word))) {
                let from = arguments.iter().position(|word| word.as_ref() == Some(&started[at]));
                self.command(&arguments[from.unwrap_or(0)..], sure, false);
            } else if !started.is_empty() && !asks {
                self.call(started, false, sure);
            }
        }
    }

    /// A shell with these arguments.
    fn shell(&mut self, arguments: &[Option<String>], sure: bool) {
        let mut is_text = false;
        let mut arguments = arguments.iter();
        while let Some(Some(word)) = arguments.next() {
            match word.strip_prefix(['-', '+']) {
                Some("") | None => {
                    if is_text {
                        return self.nested(word, sure);
                    }
                    self.call([word.clone()], true, sure);
                    let text = text_of(Path::new(word));
                    return text.map_or((), |text| self.nested(&text, sure));
                }
                Some("o" | "O" | "-rcfile" | "-init-file") => drop(arguments.next()),
                // A login shell reads files that may change anything.
                Some("-login" | "-posix") => self.changed |= word == "--login",
                Some(long) if long.starts_with('-') => {}
                Some(letters) => {
                    is_text |= word.starts_with('-') && letters.contains('c');
                    self.changed |= letters.contains('l') || letters.contains('i');
                    if letters.ends_with('o') {
                        arguments.next();
                    }
                }
            }
        }
    }

    fn nested(&mut self, text: &str, sure: bool) {
        if self.scripts < SCRIPTS_MAX {
            self.read(text, sure);
        }
    }

    fn call(&mut self, words: impl Into<Vec<String>>, is_script: bool, sure: bool) {
        self.calls.push(Call { words: words.into(), is_script, sure });
    }
}

/// Whether a command tests for a program, or for anything else that the next command may depend on.
fn asks(node: Node<'_>, text: &str) -> bool {
    match node.kind() {
        "command" => match words(node, text).first() {
            Some(Some(first)) => ASKERS.contains(&name_of(first)),
            _ => true,
        },
        "test_command" | "negated_command" | "if_statement" | "case_statement" => true,
        _ => {
            let mut cursor = node.walk();
            node.named_children(&mut cursor).any(|child| asks(child, text))
        }
    }
}

/// The words of a command, without assignments and redirections. None: a word that is not literal.
fn words(command: Node<'_>, text: &str) -> Vec<Option<String>> {
    let mut cursor = command.walk();
    let is_word = |node: &Node<'_>| {
        !["variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect"]
            .contains(&node.kind())
    };
    command.named_children(&mut cursor).filter(is_word).map(|word| literal(word, text)).collect()
}

/// The text of a word. None: the shell expands it to something else.
fn literal(word: Node<'_>, text: &str) -> Option<String> {
    let own = &text[word.byte_range()];
    let mut cursor = word.walk();
    match word.kind() {
        "command_name" => literal(word.named_child(0)?, text),
        "number" => (word.named_child_count() == 0).then(|| own.to_string()),
        "word" => {
            let plain =
                word.named_child_count() == 0 && !own.contains(['*', '?', '[', '{', '~', '`', '$']);
            plain.then(|| own.replace('\\', ""))
        }
        "raw_string" => Some(own.trim_matches('\'').to_string()),
        "string" => {
            let plain =
                word.named_children(&mut cursor).all(|part| part.kind() == "string_content");
            let inner = own.strip_prefix('"')?.strip_suffix('"')?;
            (plain && !inner.contains('`')).then(|| unescaped(inner))
        }
        "concatenation" => {
            word.named_children(&mut cursor).map(|part| literal(part, text)).collect()
        }
        _ => None,
    }
}

/// Between double quotes a backslash is literal, unless it precedes one of a few letters.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letters.peek() {
            Some('\n') if letter == '\\' => drop(letters.next()),
            Some('$' | '`' | '"' | '\\') if letter == '\\' => plain.extend(letters.next()),
            _ => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of sure calls, and of others in brackets.
    fn called(argv: &[&str]) -> String {
        let argv: Vec<OsString> = argv.iter().map(Into::into).collect();
        let program = Path::new("/usr/bin").join(&argv[0]);
        let mut shown: Vec<String> = calls(&argv, &program)
            .iter()
            .map(|call| match call.sure {
                true => call.words.join("|"),
                false => format!("({})", call.words.join("|")),
            })
            .collect();
        shown.sort();
        shown.join(" ")
    }

    fn script(text: &str) -> String {
        called(&["sh", "-c", text])
    }

    #[test]
    fn words_in_command_position_are_calls() {
        assert_eq!(script("hackbench -g 1 | tee out & wait"), "hackbench tee");
        assert_eq!(script("x=$(gcc -v); cd / && make"), "gcc make");
        assert_eq!(script("for n in 1 2; do (sysbench); { fio; }; done"), "fio sysbench");
        assert_eq!(script("A=b stress-ng >out 2>&1 <in"), "stress-ng");
        assert_eq!(script("\"quo\"ted 'make it' ba\\ck"), "quoted");
        assert_eq!(script("echo `hackbench` \"$(fio)\""), "fio hackbench");
        assert_eq!(script("cat <<END\nhackbench -g 1\nEND\nfio"), "cat fio");
    }

    #[test]
    fn what_the_shell_itself_does_is_no_call() {
        assert_eq!(
            script("if true; then :; fi; while [ 1 ]; do break; done; set -e; trap 'x' INT"),
            ""
        );
        assert_eq!(script("work() { :; }; work; $CMD a; \"$X\" b; ./*.sh; ~/x"), "");
        assert_eq!(script("X=1 Y=2; export Z=3; [[ -e a ]]; ((n++)); case $1 in a) ;; esac"), "");
        assert_eq!(script("echo hackbench; printf '%s' fio # sysbench"), "");
    }

    #[test]
    fn what_something_decides_about_is_not_sure() {
        assert_eq!(script("if command -v fio; then fio; fi"), "(fio)");
        assert_eq!(script("fio || sysbench; make"), "(fio) (sysbench) make");
        assert_eq!(script("[ -e x ] && fio; which fio && fio"), "(fio) which");
        assert_eq!(script("true && fio && make"), "fio make");
        assert_eq!(script("f() { fio; }; f; ! make"), "(fio) (make)");
        assert_eq!(script("make; exit 0; fio"), "(fio) make");
        assert_eq!(script("PATH=$PATH:/opt; fio"), "(fio)");
        assert_eq!(script(". ./env; fio"), "(fio)");
        assert_eq!(script("alias x=fio; x"), "(x)");
        assert_eq!(
            script("cp job /usr/bin/own; own; cp it /tmp/x; /tmp/x; /opt/y"),
            "(/tmp/x) (own) /opt/y cp"
        );
        assert_eq!(script("gcc -o a.out a.c; ./a.out; ./b.out; ./b.out"), "(./a.out) ./b.out gcc");
        assert_eq!(called(&["bash", "-lc", "fio"]), "(fio)");
        assert_eq!(script("if then; fio"), "", "that cannot be read");
    }

    #[test]
    fn programs_that_start_others_are_looked_through() {
        assert_eq!(script("nice -n 5 hackbench -g 1"), "5|hackbench|1 nice");
        assert_eq!(called(&["taskset", "-c", "0", "hackbench"]), "0|hackbench");
        assert_eq!(called(&["env", "A=b", "sh", "-ec", "fio"]), "fio sh");
        assert_eq!(script("exec sh -c 'fio; make'"), "fio make sh");
        assert_eq!(called(&["hackbench", "fio"]), "");
        assert_eq!(script("nice -n $N fio"), "nice");
    }

    #[test]
    fn scripts_are_read_where_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.sh");
        fs::write(&file, "#!/bin/bash -e\nfio &\nwait\n").unwrap();
        let name = file.to_str().unwrap();
        assert_eq!(called(&["bash", name]), format!("{name} fio"));
        assert_eq!(called(&[name]), "fio");
        fs::write(&file, "#!/usr/bin/python3\nfio\n").unwrap();
        assert_eq!(called(&[name]), "");
        let deep = "(".repeat(2000) + "fio" + &")".repeat(2000);
        assert!(!script(&deep).split(' ').any(|call| call == "fio"));
    }
}
