// SPDX-License-Identifier: GPL-2.0-only
//! The running kernel's symbols.

use std::fs;

use anyhow::Context;

/// `/proc/kallsyms`, by address.
pub(crate) struct Symbols {
    /// Address, and the range of the name in the text.
    by_address: Vec<(u64, std::ops::Range<usize>)>,
    text: String,
}

impl Symbols {
    /// Reads them all; needs root.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let text = fs::read_to_string("/proc/kallsyms").context("/proc/kallsyms")?;
        Ok(Self::parse(text))
    }

    fn parse(text: String) -> Self {
        let mut by_address = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let mut words = line.split_ascii_whitespace();
            let address = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
            if let (Some(address), Some(name)) = (address, words.nth(1)) {
                let at = start + (name.as_ptr() as usize - line.as_ptr() as usize);
                by_address.push((address, at..at + name.len()));
            }
            start += line.len();
        }
        by_address.sort_unstable_by_key(|(address, _)| *address);
        Symbols { by_address, text }
    }

    /// Address of a symbol.
    pub(crate) fn address(&self, name: &str) -> anyhow::Result<u64> {
        let found = self.by_address.iter().find(|(_, place)| &self.text[place.clone()] == name);
        let (address, _) = found.with_context(|| format!("the kernel has no symbol {name}"))?;
        anyhow::ensure!(*address != 0, "the kernel hides its symbols; this needs root");
        Ok(*address)
    }

    /// All symbols of a range, lowest first.
    pub(crate) fn within(
        &self,
        range: std::ops::Range<u64>,
    ) -> impl Iterator<Item = (u64, &str)> + '_ {
        let first = self.by_address.partition_point(|(address, _)| *address < range.start);
        let rest = self.by_address[first..].iter();
        rest.take_while(move |(address, _)| *address < range.end)
            .map(|(address, place)| (*address, &self.text[place.clone()]))
    }

    /// The last symbol up to an address.
    pub(crate) fn name(&self, address: u64) -> &str {
        let behind = self.by_address.partition_point(|(start, _)| *start <= address);
        match behind.checked_sub(1) {
            Some(at) => &self.text[self.by_address[at].1.clone()],
            None => "?",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Symbols;

    #[test]
    fn an_address_belongs_to_the_symbol_before_it() {
        let text = "0000000000002000 T second\n0000000000001000 t first\n0000000000003000 b data\n";
        let symbols = Symbols::parse(text.into());
        assert_eq!(symbols.name(0x1fff), "first");
        assert_eq!(symbols.name(0x2000), "second");
        assert_eq!(symbols.name(0xfff), "?");
        assert_eq!(symbols.address("data").unwrap(), 0x3000);
        assert!(symbols.address("third").is_err());
        let found: Vec<_> = symbols.within(0x1001..0x3000).collect();
        assert_eq!(found, [(0x2000, "second")]);
    }
}
