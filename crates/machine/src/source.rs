// SPDX-License-Identifier: GPL-2.0-only
//! A text in TOML, with errors that name the line.

use std::ops::Range;

use crate::machine::MachineError;

/// The text's name in errors, and the text to count lines in.
pub(crate) struct Source<'a> {
    pub text: &'a str,
    pub path: &'a str,
}

impl Source<'_> {
    pub fn error(&self, span: Range<usize>, what: impl Into<String>) -> MachineError {
        let line = self.text[..span.start.min(self.text.len())].matches('\n').count() + 1;
        MachineError::Syntax { path: self.path.to_string(), line, what: what.into() }
    }
}

/// Reads TOML; an error is one line, with the line's number.
pub(crate) fn document<T: serde::de::DeserializeOwned>(
    text: &str,
    path: &str,
) -> Result<T, MachineError> {
    parse(&Source { text, path })
}

/// An error at the place of a value.
pub(crate) fn error_at(text: &str, path: &str, span: Range<usize>, what: String) -> MachineError {
    Source { text, path }.error(span, what)
}

pub(crate) fn parse<T: serde::de::DeserializeOwned>(source: &Source) -> Result<T, MachineError> {
    toml::from_str(source.text).map_err(|error| {
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        source.error(error.span().unwrap_or(0..0), message)
    })
}
