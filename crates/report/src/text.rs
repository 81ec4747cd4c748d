// SPDX-License-Identifier: GPL-2.0-only
//! Figures as a person reads them, and text tables.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

/// How a text table is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Most columns a line may take.
    pub width: u16,
    /// Draw with box characters; without, plain ASCII that other programs can cut.
    pub boxes: bool,
}

impl Style {
    /// For a file or a pipe.
    pub const PLAIN: Style = Style { width: 100, boxes: false };
}

/// A time with three digits and a fitting unit.
pub fn time(seconds: f64) -> String {
    let size = seconds.abs();
    match size {
        0.0 => "0 s".to_string(),
        _ if size >= 0.9995 => format!("{} s", digits(seconds)),
        _ if size >= 0.999_5e-3 => format!("{} ms", digits(seconds * 1e3)),
        _ if size >= 0.999_5e-6 => format!("{} µs", digits(seconds * 1e6)),
        _ => format!("{} ns", digits(seconds * 1e9)),
    }
}

/// A count with thousands set apart.
pub fn count(value: f64) -> String {
    let whole = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < -0.5 { format!("-{text}") } else { text }
}

/// A part of a whole as a percentage.
pub fn percent(part: f64) -> String {
    let value = part * 100.0;
    match value.abs() {
        0.0 => "0 %".to_string(),
        size if size < 0.01 => "<0.01 %".to_string(),
        size if size < 9.995 => format!("{value:.2} %"),
        _ => format!("{value:.1} %"),
    }
}

/// Three digits that mean something.
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A figure, or a dash where it is not known.
pub fn known<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".to_string(), show)
}

/// Where the columns behind the first stand; the first stands left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For figures.
    Right,
}

/// What others named or wrote, as it can be shown: nothing of it may command the terminal.
pub fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A table whose first column names its rows.
pub fn table(headings: &[&str], rows: &[Vec<String>], align: Align, style: Style) -> String {
    let mut table = Table::new();
    table.load_style(if style.boxes {
        presets::UTF8_BORDERS_ONLY
    } else {
        presets::ASCII_MARKDOWN
    });
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(style.width);
    table.set_header(headings);
    for row in rows {
        table.add_row(row.iter().map(|cell| visible(cell)));
    }
    let (first, rest) = widths(headings, rows);
    if align == Align::Left && first + rest > style.width as usize {
        // Words wrap; what names the row gets what the figures leave, and half at least.
        let own = (style.width as usize).saturating_sub(rest).max(style.width as usize * 2 / 5);
        let bound = ColumnConstraint::LowerBoundary(Width::Fixed(own.min(first) as u16));
        if let Some(column) = table.column_mut(0) {
            column.set_constraint(bound);
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(match align {
            Align::Left => CellAlignment::Left,
            Align::Right => CellAlignment::Right,
        });
    }
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n") + "\n"
}

/// Columns that the first cells would take, and all others together, borders included.
fn widths(headings: &[&str], rows: &[Vec<String>]) -> (usize, usize) {
    let columns = headings.len();
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
        let all = cells.chain([headings[column]]).map(|cell| cell.chars().count());
        all.max().unwrap_or(0) + 3
    };
    (if columns > 0 { widest(0) } else { 0 }, (1..columns).map(widest).sum())
}

/// Prose that keeps to the width; ends its last line.
pub fn wrapped(line: &str, style: Style) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in line.split_whitespace().map(visible) {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > style.width as usize {
            text.push('\n');
            column = 0;
        }
        if column > 0 {
            text.push(' ');
            column += 1;
        }
        text += &word;
        column += length;
    }
    text + "\n"
}

/// So many of something that takes an s: `1 CPU`, `2 CPUs`.
pub fn plural(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_more_than_one() {
        assert_eq!(
            [plural(0, "CPU"), plural(1, "CPU"), plural(2, "CPU")],
            ["0 CPUs", "1 CPU", "2 CPUs"]
        );
    }

    #[test]
    fn figures_keep_three_digits_and_name_their_unit() {
        assert_eq!(time(0.0), "0 s");
        assert_eq!(time(1.2345), "1.23 s");
        assert_eq!(time(0.9999), "1.00 s");
        assert_eq!(time(0.04567), "45.7 ms");
        assert_eq!(time(123e-6), "123 µs");
        assert_eq!(time(15e-9), "15.0 ns");
        assert_eq!(count(1234567.0), "1,234,567");
        assert_eq!(count(999.0), "999");
        assert_eq!(percent(0.00005), "<0.01 %");
        assert_eq!(percent(0.123), "12.3 %");
    }

    #[test]
    fn a_table_stays_within_its_width() {
        let long = "flsched:slice=50ms,pull=true,defer=100ms,place=near".repeat(3);
        let text =
            table(&["policy", "work"], &[vec![long, "1 s".into()]], Align::Right, Style::PLAIN);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
