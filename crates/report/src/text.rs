// SPDX-License-Identifier: GPL-2.0-only
//! Figures in a form for people, and text tables.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

/// How a text table is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Most columns a line may take.
    pub width: u16,
    /// Draw with box characters; if false, plain ASCII that other programs can cut.
    pub boxes: bool,
    /// Every figure, and the meaning of each.
    pub wide: bool,
    /// The terminal shows colours.
    pub color: bool,
}

impl Style {
    /// For a file or a pipe.
    pub const PLAIN: Style = Style { width: 100, boxes: false, wide: false, color: false };

    /// The same, with every figure.
    pub fn wide(self, wide: bool) -> Self {
        Style { wide, ..self }
    }

    /// Text in this style, line by line, if the terminal shows colours.
    pub fn painted(self, form: anstyle::Style, text: &str) -> String {
        match self.color {
            true => text.lines().map(|line| format!("{form}{line}{form:#}\n")).collect(),
            false => text.to_string(),
        }
    }
}

/// Ends with a full stop. It may begin with the name of a policy, which has no capital.
pub fn sentence(text: &str) -> String {
    let end = if text.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{text}{end}")
}

/// How many columns, from the left, fit the width without a broken word; at least two.
pub fn fitting(headings: &[&str], rows: &[Vec<String>], style: Style) -> usize {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| with_unit(cell)).collect()).collect();
    let mut least = least(headings, &rows, style);
    // Figures stay on one line.
    least.iter_mut().zip(widths(&vec![""; headings.len()], &rows)).skip(1).for_each(
        |(least, own)| {
            *least = own.max(*least);
        },
    );
    let taken = |columns: usize| least[..columns].iter().map(|own| own + 3).sum::<usize>() + 1;
    (2..=headings.len()).rev().find(|columns| taken(*columns) <= style.width as usize).unwrap_or(2)
}

/// The unit that fits a time: how many are in a second, its sign, and its name.
pub fn unit(seconds: f64) -> (f64, &'static str, &'static str) {
    match seconds.abs() {
        size if size == 0.0 || size >= 0.9995 => (1.0, "s", "seconds"),
        size if size >= 0.999_5e-3 => (1e3, "ms", "milliseconds"),
        size if size >= 0.999_5e-6 => (1e6, "µs", "microseconds"),
        _ => (1e9, "ns", "nanoseconds"),
    }
}

/// A time with three digits and a fitting unit.
pub fn time(seconds: f64) -> String {
    let (of_second, sign, _) = unit(seconds);
    match seconds {
        0.0 => "0 s".to_string(),
        _ => format!("{} {sign}", digits(seconds * of_second)),
    }
}

/// A count with a separator at the thousands.
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

/// Three significant digits.
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A figure, or a dash if it is not known.
pub fn known<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".to_string(), show)
}

/// Alignment of the columns behind the first; the first is aligned left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For figures.
    Right,
}

/// Text from other programs or users, made safe to show: no part of it can control the terminal.
pub fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A table with row names in its first column. If the figures do not fit beside each other, several tables, one below
/// the other.
pub fn table(headings: &[&str], rows: &[Vec<String>], align: Align, style: Style) -> String {
    let shown = |cell: &String| match align {
        Align::Left => visible(cell),
        Align::Right => with_unit(&visible(cell)),
    };
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(shown).collect()).collect();
    if align == Align::Left {
        return one_table(headings, &rows, None, style);
    }
    let least = least(headings, &rows, style);
    let mut tables: Vec<Vec<usize>> = vec![vec![0]];
    for column in 1..headings.len() {
        let beside = tables.last_mut().expect("there is a table");
        let taken: usize = beside.iter().chain([&column]).map(|column| least[*column] + 3).sum();
        match taken < style.width as usize || beside.len() == 1 {
            true => beside.push(column),
            false => tables.push(vec![0, column]),
        }
    }
    let part = |columns: &Vec<usize>| {
        let headings: Vec<&str> = columns.iter().map(|at| headings[*at]).collect();
        let least: Vec<usize> = columns.iter().map(|at| least[*at]).collect();
        let of =
            |row: &Vec<String>| columns.iter().filter_map(|at| row.get(*at).cloned()).collect();
        let rows: Vec<Vec<String>> = rows.iter().map(of).collect();
        one_table(&headings, &rows, Some(&least), style).replace(NO_BREAK, " ")
    };
    tables.iter().map(part).collect::<Vec<_>>().join("\n")
}

/// A space at which no line breaks.
const NO_BREAK: char = '\u{a0}';

/// Binds numbers to their units.
fn with_unit(cell: &str) -> String {
    let mut text = String::with_capacity(cell.len());
    let mut letters = cell.chars().peekable();
    while let Some(letter) = letters.next() {
        let unit = letters.peek().is_some_and(|next| next.is_alphabetic() || *next == '%');
        let bound = letter == ' ' && unit && text.ends_with(|digit: char| digit.is_ascii_digit());
        text.push(if bound { NO_BREAK } else { letter });
    }
    text
}

/// A table of words, or of figures; `least` is the least width of each column.
fn one_table(
    headings: &[&str],
    rows: &[Vec<String>],
    least: Option<&[usize]>,
    style: Style,
) -> String {
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
        table.add_row(row);
    }
    let (full, width) = (widths(headings, rows), style.width as usize);
    let taken: usize = full.iter().map(|own| own + 3).sum();
    match least {
        Some(least) if taken >= width => {
            let room = width.saturating_sub(3 * full.len() + 1);
            // Figures stay on one line; headings and names of rows wrap first.
            let mut figures = widths(&vec![""; full.len()], rows);
            figures[0] = least[0];
            let widths = widened(&widened(least, &figures, room), &full, room);
            for (column, width) in table.column_iter_mut().zip(widths) {
                // With a space on each side.
                let width = Width::Fixed(width as u16 + 2);
                column.set_constraint(ColumnConstraint::Absolute(width));
            }
        }
        None if taken > width => {
            // Words wrap. The row's name gets the room that the other columns leave, and two fifths of the line at
            // least.
            let first = full[0] + 3;
            let own = width.saturating_sub(taken - first).max(width * 2 / 5).min(first);
            let bound = ColumnConstraint::LowerBoundary(Width::Fixed(own as u16));
            table.column_mut(0).map(|column| column.set_constraint(bound));
        }
        _ => {}
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(match least {
            None => CellAlignment::Left,
            Some(_) => CellAlignment::Right,
        });
    }
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n") + "\n"
}

/// Letters in the widest cell of each column.
fn widths(headings: &[&str], rows: &[Vec<String>]) -> Vec<usize> {
    let widest = |(column, heading): (usize, &&str)| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([heading.chars().count()]).max().unwrap_or(0)
    };
    headings.iter().enumerate().map(widest).collect()
}

/// Widths that share the remaining room evenly, up to what each column wants.
fn widened(least: &[usize], wanted: &[usize], room: usize) -> Vec<usize> {
    let mut widths = least.to_vec();
    let mut rest = room.saturating_sub(widths.iter().sum());
    while rest > 0 && widths.iter().zip(wanted).any(|(width, wanted)| width < wanted) {
        for (width, wanted) in widths.iter_mut().zip(wanted) {
            if *width < *wanted && rest > 0 {
                (*width, rest) = (*width + 1, rest - 1);
            }
        }
    }
    widths
}

/// Width of each column at which none of its figures breaks; long names and headings may.
fn least(headings: &[&str], rows: &[Vec<String>], style: Style) -> Vec<usize> {
    const NAME: usize = 16;
    let word = |cell: &str| cell.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
    let least = |(column, heading): (usize, &&str)| {
        let most = if column == 0 { NAME } else { style.width as usize / 4 };
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| word(cell).min(most));
        cells.chain([word(heading).min(NAME)]).max().unwrap_or(0)
    };
    headings.iter().enumerate().map(least).collect()
}

/// Prose wrapped to the width, with a line end behind its last line.
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

/// A count with its noun, which takes an s: `1 CPU`, `2 CPUs`.
pub fn plural(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// Instances of a task are called `NAME-0`, `NAME-1` and so on.
pub(crate) fn program(task: &str) -> &str {
    match task.rsplit_once('-') {
        Some((name, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => task,
    }
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
    fn figures_of_many_columns_are_never_broken() {
        let policies: Vec<String> =
            (0..15).map(|at| format!("min-fair:target=0.{at},tenant=program")).collect();
        let headings: Vec<&str> =
            ["program"].into_iter().chain(policies.iter().map(String::as_str)).collect();
        let figure = |at: usize| format!("{at}1.70 ms ({at}0.92 ms – {at}1.05 ms)");
        let row: Vec<String> =
            ["nginx".to_string()].into_iter().chain((0..15).map(figure)).collect();
        for boxes in [false, true] {
            let text = table(
                &headings,
                std::slice::from_ref(&row),
                Align::Right,
                Style { boxes, ..Style::PLAIN },
            );
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
            for at in 0..15 {
                assert!(text.contains(&format!(" {at}1.70 ms ")), "{at}: {text}");
            }
            assert!(text.matches("nginx").count() > 1 && text.contains("\n\n"), "{text}");
        }
    }

    #[test]
    fn the_name_of_a_row_breaks_before_its_figures_do() {
        let row =
            ["flsched:slice=50ms,pull=true,defer=100ms,place=near", "4.31 ms – 4.42 ms", "1.00×"];
        let rows = [row.map(String::from).to_vec()];
        let headings = ["policy", "min – max", "elapsed / flsched:slice=50ms"];
        let style = Style { width: 60, ..Style::PLAIN };
        let text = table(&headings, &rows, Align::Right, style);
        assert!(text.contains("| 4.31 ms – 4.42 ms |"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn a_table_stays_within_its_width() {
        let long = "flsched:slice=50ms,pull=true,defer=100ms,place=near".repeat(3);
        let text =
            table(&["policy", "work"], &[vec![long, "1 s".into()]], Align::Right, Style::PLAIN);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
