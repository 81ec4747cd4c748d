// SPDX-License-Identifier: GPL-2.0-only
//! JSON with the extensions of rt-app's files: C comments, trailing commas, keys that repeat, `"suspend"` without a
//! value, and lines to name in an error.
//!
//! `serde_json` checks the grammar. A [`Node`] is a slice of the text that still knows its position, so a wrong value
//! is reported with its line and the order of keys is kept.

use std::cell::Cell;
use std::fmt;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The error in a workload file, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct Error {
    /// The file as its reader named it.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// The value that was found, and the value that was expected.
    pub problem: String,
}

/// The error of a key that has no place here.
pub(crate) fn unknown(node: Node, key: &str, known: &str) -> Error {
    node.error(format!("\"{key}\" is not known here; expected one of: {known}"))
}

/// A file's text with comments and trailing commas blanked out; its lines are the file's.
pub(crate) struct Source {
    name: String,
    text: String,
}

impl Source {
    pub(crate) fn new(name: &str, text: &str) -> Source {
        Source { name: name.to_string(), text: valued(&blank(text)) }
    }

    /// The whole file as one value.
    pub(crate) fn root(&self) -> Result<Node<'_>, Error> {
        let raw: &RawValue = serde_json::from_str(&self.text).map_err(|e| {
            let what = e.to_string();
            self.error_at_line(e.line().max(1), format!("not JSON: {}", strip_position(&what)))
        })?;
        Ok(Node { source: self, text: raw.get() })
    }

    fn error_at_line(&self, line: usize, problem: String) -> Error {
        Error { file: self.name.clone(), line, problem }
    }
}

/// `serde_json` ends its messages with a position of its own.
fn strip_position(message: &str) -> &str {
    message.rfind(" at line ").map_or(message, |at| &message[..at])
}

/// One value in a [`Source`].
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    source: &'a Source,
    text: &'a str,
}

impl<'a> Node<'a> {
    /// An error at this value's line.
    pub(crate) fn error(&self, problem: impl Into<String>) -> Error {
        let offset = self.text.as_ptr() as usize - self.source.text.as_ptr() as usize;
        let line = 1 + self.source.text[..offset].matches('\n').count();
        self.source.error_at_line(line, problem.into())
    }

    /// The value as it is written.
    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// An object's members in the order of the file, repeated keys included.
    pub(crate) fn members(&self, what: &str) -> Result<Vec<(String, Node<'a>)>, Error> {
        let members = Cell::new(Vec::new());
        serde_json::Deserializer::from_str(self.text)
            .deserialize_map(Members(&members))
            .map_err(|_| self.expected(what, "an object { … }"))?;
        Ok(members.into_inner().into_iter().map(|(key, raw)| (key, self.child(raw))).collect())
    }

    /// An array's elements.
    pub(crate) fn elements(&self, what: &str) -> Result<Vec<Node<'a>>, Error> {
        let elements = Cell::new(Vec::new());
        serde_json::Deserializer::from_str(self.text)
            .deserialize_seq(Elements(&elements))
            .map_err(|_| self.expected(what, "an array [ … ]"))?;
        Ok(elements.into_inner().into_iter().map(|raw| self.child(raw)).collect())
    }

    /// An integer.
    pub(crate) fn integer(&self, what: &str) -> Result<i64, Error> {
        serde_json::from_str(self.text).map_err(|_| self.expected(what, "a whole number"))
    }

    /// Any number.
    pub(crate) fn number(&self, what: &str) -> Result<f64, Error> {
        serde_json::from_str(self.text).map_err(|_| self.expected(what, "a number"))
    }

    /// A length of time written in µs, as ns. Fractions are ours: rt-app takes whole µs only.
    pub(crate) fn micros(&self, what: &str) -> Result<u64, Error> {
        let wanted = "a time in µs, 0 or more";
        let us: f64 = serde_json::from_str(self.text).map_err(|_| self.expected(what, wanted))?;
        if !(0.0..=1e15).contains(&us) {
            return Err(self.expected(what, wanted));
        }
        Ok((us * 1000.0).round() as u64)
    }

    /// True or false.
    pub(crate) fn boolean(&self, what: &str) -> Result<bool, Error> {
        serde_json::from_str(self.text).map_err(|_| self.expected(what, "true or false"))
    }

    /// A string.
    pub(crate) fn string(&self, what: &str) -> Result<String, Error> {
        serde_json::from_str(self.text).map_err(|_| self.expected(what, "a string"))
    }

    fn expected(&self, what: &str, wanted: &str) -> Error {
        let shown: String = self.text.chars().take(40).collect();
        self.error(format!("{what}: expected {wanted}, found {shown}"))
    }

    fn child(&self, raw: &'a RawValue) -> Node<'a> {
        Node { source: self.source, text: raw.get() }
    }
}

struct Members<'c, 'a>(&'c Cell<Vec<(String, &'a RawValue)>>);

impl<'a> Visitor<'a> for Members<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let mut all = Vec::new();
        while let Some(entry) = map.next_entry()? {
            all.push(entry);
        }
        self.0.set(all);
        Ok(())
    }
}

struct Elements<'c, 'a>(&'c Cell<Vec<&'a RawValue>>);

impl<'a> Visitor<'a> for Elements<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut all = Vec::new();
        while let Some(element) = seq.next_element()? {
            all.push(element);
        }
        self.0.set(all);
        Ok(())
    }
}

/// Replaces comments and trailing commas with spaces; lines and offsets stay.
fn blank(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    let (mut at, mut comma) = (0, None);
    while at < out.len() {
        match (out[at], out.get(at + 1)) {
            (b'"', _) => {
                at = string_end(&out, at);
                comma = None;
                continue;
            }
            (b'/', Some(b'*')) => {
                let end = find(&out, at + 2, b"*/").map_or(out.len(), |e| e + 2);
                wipe(&mut out[at..end]);
                at = end;
                continue;
            }
            (b'/', Some(b'/')) => {
                let end = find(&out, at, b"\n").unwrap_or(out.len());
                wipe(&mut out[at..end]);
                at = end;
                continue;
            }
            (b',', _) => comma = Some(at),
            (b'}' | b']', _) => {
                if let Some(trailing) = comma.take() {
                    out[trailing] = b' ';
                }
            }
            (c, _) if !c.is_ascii_whitespace() => comma = None,
            _ => {}
        }
        at += 1;
    }
    // Only whole comments and ASCII commas were replaced, so the text is still UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// Gives `"suspend",` an empty value, as `workgen` does: the task suspends itself.
fn valued(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut done, mut at, mut before) = (String::with_capacity(text.len()), 0, 0, b' ');
    while at < bytes.len() {
        let end = if bytes[at] == b'"' { string_end(bytes, at) } else { at + 1 };
        // Look ahead for these strings alone: a long comment may follow any byte.
        if matches!(before, b'{' | b',') && bytes[at..].starts_with(b"\"suspend") {
            let next = bytes[end..].iter().find(|byte| !byte.is_ascii_whitespace());
            if matches!(next, Some(b',' | b'}')) {
                out += &text[done..end];
                out += ": \"\"";
                done = end;
            }
        }
        if !bytes[at].is_ascii_whitespace() {
            before = bytes[at];
        }
        at = end;
    }
    out + &text[done..]
}

/// The offset behind the string that starts at `start`.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

fn find(text: &[u8], from: usize, needle: &[u8]) -> Option<usize> {
    (from..text.len()).find(|&at| text[at..].starts_with(needle))
}

fn wipe(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().filter(|b| **b != b'\n') {
        *byte = b' ';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_allowed_and_lines_stay() {
        let source = Source::new("f", "{ /* one\n two */ \"a\": 1, // end\n \"b\": [2, 3,],\n}");
        let members = source.root().unwrap().members("file").unwrap();
        assert_eq!(members.len(), 2);
        let error = members[1].1.integer("b").unwrap_err();
        assert_eq!(error.to_string(), "f:3: b: expected a whole number, found [2, 3 ]");
    }

    #[test]
    fn what_looks_like_a_comment_in_a_string_is_text() {
        let source = Source::new("f", r#"{"a": "x /* \" , } */ // y"}"#);
        let members = source.root().unwrap().members("file").unwrap();
        assert_eq!(members[0].1.string("a").unwrap(), "x /* \" , } */ // y");
    }

    #[test]
    fn task_that_suspends_without_a_name_suspends_itself() {
        let source =
            Source::new("f", "{\"loop\": -1,\n \"suspend\",\n \"run\": 1, \"suspend2\"\n}");
        let members = source.root().unwrap().members("file").unwrap();
        let seen: Vec<(&str, &str)> =
            members.iter().map(|(key, node)| (key.as_str(), node.text())).collect();
        let wanted = [("loop", "-1"), ("suspend", "\"\""), ("run", "1"), ("suspend2", "\"\"")];
        assert_eq!(seen, wanted);
        assert_eq!(members[3].1.error("it").line, 3);
        let value = Source::new("f", r#"{"wake": "suspend", "suspend": "x"}"#);
        assert_eq!(value.root().unwrap().members("file").unwrap()[0].1.text(), "\"suspend\"");
    }

    #[test]
    fn a_long_comment_takes_no_longer_than_its_length() {
        // Scanning them once for each of their bytes would take hours.
        let (comment, spaces) = ("x".repeat(4 << 20), " ".repeat(4 << 20));
        let text =
            format!("{{ /* {comment} */ \"suspend\", {spaces} \"run\": 1, // {comment}\n }}");
        let source = Source::new("f", &text);
        let members = source.root().unwrap().members("file").unwrap();
        let keys: Vec<&str> = members.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["suspend", "run"]);
    }

    #[test]
    fn repeated_keys_keep_their_order() {
        let source = Source::new("f", r#"{"run": 1, "sleep": 2, "run": 3}"#);
        let members = source.root().unwrap().members("file").unwrap();
        let keys: Vec<&str> = members.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["run", "sleep", "run"]);
        assert_eq!(members[2].1.integer("run").unwrap(), 3);
    }

    #[test]
    fn broken_json_names_the_line() {
        let error = Source::new("f", "{\n \"a\": 1\n \"b\": 2 }").root().map(|_| ()).unwrap_err();
        assert_eq!(error.line, 3);
        assert!(error.problem.starts_with("not JSON: expected"), "{error}");
    }

    #[test]
    fn an_unclosed_comment_or_string_is_an_error_and_no_panic() {
        for text in ["{ /* ", "{ \"a", "{\"a\": \"\\", "", "//"] {
            assert!(Source::new("f", text).root().is_err(), "{text}");
        }
    }
}
