// SPDX-License-Identifier: GPL-2.0-only
//! Command lines in a shell's syntax.

use std::borrow::Cow;

/// Words as one line that a shell splits into exactly these.
pub fn line<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A word quoted for a shell. Control characters are escaped as in bash, ksh, zsh and POSIX of 2024: they would control
/// the terminal.
fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into();
    }
    if !word.chars().any(char::is_control) {
        return format!("'{}'", word.replace('\'', r"'\''")).into();
    }
    let mut text = String::from("$'");
    for letter in word.chars() {
        match letter {
            '\n' => text += r"\n",
            '\t' => text += r"\t",
            '\'' | '\\' => text.extend(['\\', letter]),
            letter if letter.is_control() => {
                let mut bytes = [0; 4];
                let escaped = letter.encode_utf8(&mut bytes).bytes();
                text.extend(escaped.map(|byte| format!("\\{byte:03o}")));
            }
            letter => text.push(letter),
        }
    }
    (text + "'").into()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn taken(shell: &str, word: &str) -> String {
        let script = format!("printf %s {}", quoted(word));
        let output = Command::new(shell).args(["-c", &script]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_shell_takes_a_quoted_word_for_the_word() {
        for word in ["flsched:slice=5ms,pull=on", "it's.json", "", "a b", "$(x)", "'", "~/x*", "ü"]
        {
            assert_eq!(taken("sh", word), word);
        }
        assert_eq!(quoted("/x/mine.toml"), "/x/mine.toml");
    }

    #[test]
    fn control_characters_come_through_and_command_no_terminal() {
        for word in ["a\nb", "\u{1b}[2J it's\\", "\t\u{7}1", "\u{9b}x"] {
            assert_eq!(taken("bash", word), word);
            assert!(!quoted(word).chars().any(char::is_control), "{word:?}");
        }
    }
}
