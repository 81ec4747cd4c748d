// SPDX-License-Identifier: GPL-2.0-only
//! Pieces of HTML that pages are made of.

/// Most rows that the page shows of a long table; the data behind the link has all.
const ROWS_SHOWN: usize = 200;
/// Distinct colours; all further programs or threads share the last.
pub(crate) const COLORS: usize = 8;

/// Escapes text for HTML, in text and in quoted attributes.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            // A program's name may contain any character.
            letter if letter.is_control() && !letter.is_whitespace() => safe.push('\u{fffd}'),
            _ => safe.push(letter),
        }
    }
    safe
}

/// A table with a caption. Cells are text; the first of a row is its name.
pub fn table(caption: &str, headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut html = format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{0}\">\n<table>\n\
         <caption>{0}</caption>\n<thead><tr>",
        escape(caption)
    );
    for heading in headings {
        html += &format!("<th scope=\"col\">{}</th>", breaking(heading));
    }
    html += "</tr></thead>\n<tbody>\n";
    for row in rows.iter().take(ROWS_SHOWN) {
        html += "<tr>";
        for (column, cell) in row.iter().enumerate() {
            html += &match column {
                0 => format!("<th scope=\"row\">{}</th>", breaking(cell)),
                _ => format!("<td>{}</td>", escape(&solid(cell))),
            };
        }
        html += "</tr>\n";
    }
    html += "</tbody>\n</table>\n</div>\n";
    if rows.len() > ROWS_SHOWN {
        html += &format!("<p>{ROWS_SHOWN} of {} rows; the data has all.</p>\n", rows.len());
    }
    html
}

/// Lets the name of a row or column break behind its punctuation first: a policy between its knobs.
pub(crate) fn breaking(name: &str) -> String {
    escape(name).replace(',', ",<wbr>").replace(':', ":<wbr>")
}

/// Lets a figure break between its parts, but not between a number and its unit.
fn solid(cell: &str) -> String {
    match cell.starts_with(|letter: char| letter.is_ascii_digit()) {
        false => cell.to_string(),
        true => cell
            .replace(' ', "\u{a0}")
            .replace("\u{a0}(", " (")
            .replace("\u{a0}–\u{a0}", "\u{a0}– "),
    }
}

/// An item of a legend: a square of this class, and what its colour stands for.
pub(crate) fn swatch(class: &str, name: &str) -> String {
    format!(
        "<li><svg viewBox=\"0 0 10 10\" aria-hidden=\"true\"><path class=\"{class}\" \
         d=\"M0 0h10v10h-10z\"/></svg>{}</li>",
        escape(name)
    )
}

/// A plot with its caption.
pub fn figure(caption: &str, svg: &str) -> String {
    format!(
        "<figure>\n<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{0}\">{svg}</div>\n\
         <figcaption>{0}</figcaption>\n</figure>\n",
        escape(caption)
    )
}

/// A link that saves `data` as a file, from within the page.
pub fn download(name: &str, mime: &str, data: &str) -> String {
    let mut encoded = String::with_capacity(data.len() + data.len() / 4);
    for byte in data.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => encoded.push(byte as char),
            // JSON's punctuation is left as it is: escaped, it would take three times the room.
            b'-' | b'_' | b'.' | b'~' | b',' | b':' | b'"' | b'{' | b'}' | b'[' | b']' => {
                encoded.push(byte as char);
            }
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    let (name, shown) = (escape(name), breaking(name));
    format!("<a download=\"{name}\" href='data:{mime};charset=utf-8,{encoded}'>{shown}</a>")
}
