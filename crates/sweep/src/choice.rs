// SPDX-License-Identifier: GPL-2.0-only
//! The values that a factor of a sweep may have: a list, or a range.

use policy::{Knob, Unit};
use terminal::Failure;
use toml::Value;

/// A value of a factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// As a user writes it.
    pub text: String,
    /// As a number, where it is one: times in ns.
    pub number: Option<f64>,
}

/// All values of a factor.
#[derive(Clone, Debug)]
pub enum Choice {
    /// These, one by one.
    Listed(Vec<Level>),
    /// All numbers from one to another.
    Range(Range),
}

/// Numbers from one to another.
#[derive(Clone, Debug)]
pub struct Range {
    from: f64,
    to: f64,
    /// Equal steps are equal factors.
    log: bool,
    of: Scale,
}

/// A range with a greater factor between its ends has equal factors for steps.
const WIDE: f64 = 10.0;

/// How a value of a factor is written.
#[derive(Clone, Copy, Debug)]
pub enum Scale {
    /// As a knob's value.
    Knob(&'static Knob),
    /// As a number.
    Number,
}

impl Scale {
    /// Reads a value as it stands in a file.
    fn read(self, value: &Value) -> Result<Level, String> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Boolean(yes) => yes.to_string(),
            other => return Err(format!("expected a value, and not a {}", other.type_str())),
        };
        match self {
            Scale::Knob(knob) => {
                let value = knob.parse(&text).map_err(|error| error.to_string())?;
                // The knob's own way to write it, so that 1000us and 1ms are one value.
                Ok(Level { text: knob.format(value), number: Some(value as f64) })
            }
            Scale::Number => {
                let number = text.parse().ok().filter(|number: &f64| number.is_finite());
                let number = number.ok_or_else(|| format!("expected a number, and not {text}"))?;
                Ok(Level { text, number: Some(number) })
            }
        }
    }

    fn at(self, number: f64) -> Level {
        match self {
            Scale::Knob(knob) => {
                let value = number.round().max(0.0) as u64;
                Level { text: knob.format(value), number: Some(value as f64) }
            }
            Scale::Number => Level { text: number.to_string(), number: Some(number) },
        }
    }
}

impl Choice {
    /// Reads the values of a knob as a command line names them: `1ms..50ms`, or `true,false`. Without any, what is
    /// around its default.
    pub fn of_knob(knob: &'static Knob, text: Option<&str>) -> Result<Self, String> {
        let Some(text) = text else { return Ok(Choice::around_default(knob)) };
        let word = |text: &str| Value::String(text.trim().to_string());
        match text.split_once("..") {
            Some((from, to)) => {
                let range =
                    [("from", word(from)), ("to", word(to))].map(|(key, it)| (key.into(), it));
                let mut range: toml::Table = range.into_iter().collect();
                let choice = Range::read(&range, Scale::Knob(knob))?;
                let Choice::Range(Range { from, to, .. }) = choice else { return Ok(choice) };
                if from > 0.0 && to / from > WIDE {
                    range.insert("scale".into(), word("log"));
                }
                Range::read(&range, Scale::Knob(knob))
            }
            None => {
                let values = Value::Array(text.split(',').map(word).collect());
                Choice::read(&values, Scale::Knob(knob), None)
            }
        }
    }

    /// Reads a value, a list of values, or a table such as `{ from = "1ms", to = "50ms", scale = "log", steps = 5 }`.
    /// `range` is for the word `"range"`: the ends that a machine's source gives.
    pub fn read(value: &Value, of: Scale, range: Option<[f64; 2]>) -> Result<Self, String> {
        match value {
            Value::Array(values) => {
                let levels = values.iter().map(|value| of.read(value));
                Choice::listed(levels.collect::<Result<_, _>>()?)
            }
            Value::Table(table) => Range::read(table, of),
            Value::String(word) if word == "range" && matches!(of, Scale::Number) => {
                let [from, to] = range.ok_or("its machine's file gives no range; name numbers")?;
                Ok(Choice::Range(Range { from, to, log: false, of }))
            }
            one => Choice::listed(vec![of.read(one)?]),
        }
    }

    /// A list without repetitions.
    pub fn listed(levels: Vec<Level>) -> Result<Self, String> {
        let twice = (1..levels.len()).find(|at| levels[..*at].contains(&levels[*at]));
        match (levels.is_empty(), twice) {
            (true, _) => Err("the list is empty; name a value".into()),
            (_, Some(at)) => Err(format!("{} is named twice; name it once", levels[at].text)),
            (false, None) => Ok(Choice::Listed(levels)),
        }
    }

    /// What is searched of a knob if its values are not named: for times and counts, those up to twenty times as long
    /// and as short as its default; else all.
    pub fn around_default(knob: &'static Knob) -> Self {
        const AROUND: f64 = 20.0;
        let of = Scale::Knob(knob);
        let default = default_of(knob);
        let near = |least: f64, most: f64| {
            let from = least.max(default / AROUND);
            let to = if default > 0.0 { most.min(default * AROUND) } else { most };
            Choice::Range(Range { from, to, log: from > 0.0 && to / from > WIDE, of })
        };
        match knob.unit {
            Unit::Duration { min, max } | Unit::Slice { min, max } | Unit::Count { min, max } => {
                near(min as f64, max as f64)
            }
            // Without a default, there is nothing to be near to.
            Unit::DurationOrOff { max } => near(1e5_f64.min(max as f64), max as f64 + 1.0),
            Unit::CountOrOff { max } => near(1.0, max as f64 + 1.0),
            Unit::Decimal { min, max } => {
                Choice::Range(Range { from: min as f64, to: max as f64, log: false, of })
            }
            Unit::Switch => Choice::Listed([0.0, 1.0].map(|value| of.at(value)).to_vec()),
            Unit::Choice(words) => {
                Choice::Listed((0..words.len()).map(|word| of.at(word as f64)).collect())
            }
        }
    }

    /// The part of all values at which one is, or the nearest.
    pub fn part_of(&self, number: f64) -> f64 {
        match self {
            Choice::Listed(levels) => {
                let far =
                    |level: &Level| level.number.map_or(f64::INFINITY, |it| (it - number).abs());
                let at = (0..levels.len())
                    .min_by(|one, other| far(&levels[*one]).total_cmp(&far(&levels[*other])));
                (at.unwrap_or(0) as f64 + 0.5) / levels.len() as f64
            }
            Choice::Range(Range { from, to, log, .. }) => {
                let number = number.clamp(*from, *to);
                match log {
                    true => (number / from).ln() / (to / from).ln(),
                    false => (number - from) / (to - from),
                }
            }
        }
    }

    /// Whether values next to each other are alike.
    pub fn is_ordered(&self) -> bool {
        match self {
            Choice::Range(_) => true,
            Choice::Listed(levels) => {
                let rises = |pair: &[Level]| pair[0].number < pair[1].number;
                levels.len() > 3
                    && levels.iter().all(|it| it.number.is_some())
                    && levels.windows(2).all(rises)
            }
        }
    }

    /// How many values there are. None: any number.
    pub fn count(&self) -> Option<usize> {
        self.levels().map(<[Level]>::len)
    }

    /// Words, each a level.
    pub fn words(words: &[String]) -> Result<Self, String> {
        let level = |text: &String| Level { text: text.clone(), number: None };
        Choice::listed(words.iter().map(level).collect())
    }

    /// The values of a grid. A range has none unless it has steps; then it was read as a list.
    pub fn levels(&self) -> Option<&[Level]> {
        match self {
            Choice::Listed(levels) => Some(levels),
            Choice::Range(_) => None,
        }
    }

    /// All numbers of a list, or both ends of a range.
    pub fn ends(&self) -> Vec<f64> {
        match self {
            Choice::Listed(levels) => levels.iter().filter_map(|level| level.number).collect(),
            Choice::Range(range) => vec![range.from, range.to],
        }
    }

    /// The value at a part of all of them, from 0 to less than 1.
    pub fn at(&self, part: f64) -> Level {
        match self {
            Choice::Listed(levels) => {
                let at = (part * levels.len() as f64) as usize;
                levels[at.min(levels.len() - 1)].clone()
            }
            Choice::Range(range) => range.at(part),
        }
    }
}

impl Range {
    fn read(table: &toml::Table, of: Scale) -> Result<Choice, String> {
        let known = ["from", "to", "scale", "steps"];
        if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(format!("a range has no `{key}`; it has {}", known.join(", ")));
        }
        let end = |key: &str| {
            let value = table.get(key).ok_or_else(|| format!("a range needs `{key}`"))?;
            let level = of.read(value)?;
            // Words such as `off` have a number that is none of the range.
            let word = level.text.chars().all(char::is_alphabetic);
            let number = level.number.filter(|_| !word);
            number.ok_or_else(|| format!("`{key}`: {} is no number", level.text))
        };
        let (from, to) = (end("from")?, end("to")?);
        if let Scale::Knob(knob) = of
            && !is_ordered(knob)
        {
            return Err(format!("knob {} has no range; list its values", knob.name));
        }
        if from >= to {
            return Err("`from` has to be less than `to`".into());
        }
        let log = match table.get("scale").map(|word| word.as_str().unwrap_or_default()) {
            None | Some("linear") => false,
            Some("log") if from > 0.0 => true,
            Some("log") => return Err("scale = \"log\" needs a `from` above 0".into()),
            Some(_) => return Err("`scale` is \"linear\" or \"log\"".into()),
        };
        let range = Range { from, to, log, of };
        match table.get("steps").map(|steps| steps.as_integer().unwrap_or(0)) {
            None => Ok(Choice::Range(range)),
            Some(steps @ 2..=1000) => {
                let part = |step: i64| step as f64 / (steps - 1) as f64;
                let mut levels: Vec<Level> = (0..steps).map(|step| range.at(part(step))).collect();
                levels.dedup();
                Choice::listed(levels)
            }
            Some(_) => Err("`steps` is a whole number from 2 to 1000".into()),
        }
    }

    fn at(&self, part: f64) -> Level {
        let number = match self.log {
            true => self.from * (self.to / self.from).powf(part),
            false => self.from + (self.to - self.from) * part,
        };
        // Results are read by people: a third digit of a time changes nothing.
        let digits = match self.of {
            Scale::Knob(knob) if !matches!(knob.unit, Unit::Decimal { .. }) => 2,
            _ => 3,
        };
        // One more than the number is kept, as 0 is `off`.
        let more = match self.of {
            Scale::Knob(knob) => {
                let is_more =
                    matches!(knob.unit, Unit::DurationOrOff { .. } | Unit::CountOrOff { .. });
                if is_more { 1.0 } else { 0.0 }
            }
            Scale::Number => 0.0,
        };
        self.of.at((rounded(number - more, digits) + more).clamp(self.from, self.to))
    }
}

/// To so many digits.
fn rounded(number: f64, digits: i32) -> f64 {
    if number == 0.0 {
        return number;
    }
    let unit = 10f64.powi(number.abs().log10().floor() as i32 + 1 - digits);
    match unit >= 1.0 {
        true => (number / unit).round() * unit,
        // A power of ten below 1 is not exact, its inverse is.
        false => (number * unit.recip().round()).round() / unit.recip().round(),
    }
}

/// A knob's default as a number: for a time slice without one, that of 8 CPUs.
pub fn default_of(knob: &Knob) -> f64 {
    const SLICE_NS: f64 = 3e6;
    match knob.unit {
        Unit::Slice { .. } if knob.variable.default == 0 => SLICE_NS,
        _ => knob.variable.default as f64,
    }
}

/// Whether values between two of a knob's are values, too.
fn is_ordered(knob: &Knob) -> bool {
    !matches!(knob.unit, Unit::Switch | Unit::Choice(_))
}

/// The error for a value in a file.
pub fn bad(file: &str, key: &str, why: impl std::fmt::Display) -> Failure {
    Failure::input(format!("{file}: {key}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let table: toml::Table = toml::from_str(&format!("it = {text}")).unwrap();
        let choice = Choice::read(&table["it"], Scale::Number, Some([1.0, 3.0]))?;
        Ok(match choice.levels() {
            Some(levels) => levels.iter().map(|level| level.text.clone()).collect(),
            None => [0.0, 0.5, 0.999_999].map(|part| choice.at(part).text).to_vec(),
        })
    }

    #[test]
    fn values_are_listed_or_a_range() {
        assert_eq!(read("5").unwrap(), ["5"]);
        assert_eq!(read("[1, 2.5]").unwrap(), ["1", "2.5"]);
        assert_eq!(
            read("{ from = 1, to = 100, scale = 'log', steps = 3 }").unwrap(),
            ["1", "10", "100"]
        );
        assert_eq!(read("{ from = 0, to = 8 }").unwrap()[1], "4");
        assert_eq!(read("'range'").unwrap()[0], "1");
    }

    #[test]
    fn a_bad_choice_says_what_is_wrong() {
        for (text, why) in [
            ("[]", "empty"),
            ("[1, 1]", "named twice"),
            ("['fast']", "expected a number"),
            ("{ from = 1 }", "needs `to`"),
            ("{ from = 2, to = 1 }", "less than"),
            ("{ from = 0, to = 1, scale = 'log' }", "above 0"),
            ("{ from = 0, to = 1, steps = 1 }", "from 2 to 1000"),
            ("{ from = 0, to = 1, step = 1 }", "no `step`"),
            ("[[1]]", "not a array"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
