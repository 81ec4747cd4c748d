// SPDX-License-Identifier: GPL-2.0-only
//! A heat map as inline SVG: how many times a value is that of the first column, cell by cell.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::plot::{INK, titled};
use crate::text::digits;

const CELL: (i32, i32) = (66, 30);
/// Room for a letter of the names of rows, and of columns above, and around them.
const LETTER: i32 = 7;
const AROUND: i32 = 20;
/// A narrower picture would be shown larger than others.
const LEAST_WIDE: i32 = 720;
/// Better than the first column, and worse: colour-blind readers can tell them apart (Okabe and Ito).
const BETTER: RGBColor = RGBColor(0, 114, 178);
const WORSE: RGBColor = RGBColor(213, 94, 0);
/// The factor, either way, from which on a colour is full.
const FULL: f64 = 2.0;

/// A row for each entry, with a factor for each column or none: 1 is the same, above 1 is better.
pub fn heat(title: &str, columns: &[String], rows: &[(String, Vec<Option<f64>>)]) -> String {
    let mut svg = String::new();
    if columns.is_empty() || rows.is_empty() {
        return svg;
    }
    let room = |name: &String| LETTER * name.chars().count() as i32 + AROUND;
    let left_most = rows.iter().map(|(name, _)| room(name)).max().unwrap_or(0);
    let top_most = columns.iter().map(room).max().unwrap_or(0);
    let wide = (left_most + CELL.0 * columns.len() as i32).max(LEAST_WIDE);
    let high = top_most + CELL.1 * rows.len() as i32;
    {
        let area =
            SVGBackend::with_string(&mut svg, (wide as u32, high as u32)).into_drawing_area();
        let text = ("sans-serif", 13).into_font().color(&INK);
        let beside = text.pos(Pos::new(HPos::Right, VPos::Center));
        let inside = text.pos(Pos::new(HPos::Center, VPos::Center));
        let upright = ("sans-serif", 13).into_font().transform(FontTransform::Rotate270);
        let above = upright.color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
        let put = |words: &str, at: (i32, i32), style: &TextStyle| {
            let drawn = area.draw(&Text::new(words.to_string(), at, style.clone()));
            drawn.expect("an SVG in memory can be drawn");
        };
        for (at, name) in columns.iter().enumerate() {
            put(name, (left_most + CELL.0 * at as i32 + CELL.0 / 2, top_most - 8), &above);
        }
        for (row, (name, factors)) in rows.iter().enumerate() {
            let top = top_most + CELL.1 * row as i32;
            put(name, (left_most - 8, top + CELL.1 / 2), &beside);
            for (at, factor) in factors.iter().enumerate() {
                let left = left_most + CELL.0 * at as i32;
                let corners = [(left + 1, top + 1), (left + CELL.0 - 1, top + CELL.1 - 1)];
                let Some(factor) = factor else {
                    put("–", (left + CELL.0 / 2, top + CELL.1 / 2), &inside);
                    continue;
                };
                let cell = Rectangle::new(corners, color(*factor).filled());
                area.draw(&cell).expect("an SVG in memory can be drawn");
                put(&digits(*factor), (left + CELL.0 / 2, top + CELL.1 / 2), &inside);
            }
        }
        area.present().expect("an SVG in memory can be drawn");
    }
    titled(&svg, title)
}

/// The colour of a factor: none at 1, full at [`FULL`] or its inverse.
fn color(factor: f64) -> RGBAColor {
    let strength = (factor.max(1e-9).ln() / FULL.ln()).clamp(-1.0, 1.0);
    let side = if strength < 0.0 { WORSE } else { BETTER };
    side.mix(strength.abs() * 0.6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_shows_its_factor_and_an_unknown_one_none() {
        let columns = ["default".to_string(), "cas".to_string()];
        let svg = heat("speed", &columns, &[("forks".into(), vec![Some(1.0), None])]);
        assert!(svg.contains("forks") && svg.contains("1.00") && svg.contains('–'), "{svg}");
        assert!(heat("speed", &columns, &[]).is_empty());
    }

    #[test]
    fn colours_grow_with_the_distance_from_one_and_stop_at_double() {
        assert_eq!(color(1.0).3, 0.0);
        assert!(color(1.2).3 < color(1.5).3);
        assert_eq!(color(2.0), color(9.0));
        assert_eq!(color(0.5).3, color(2.0).3);
        assert_ne!((color(0.5).0, color(0.5).1), (color(2.0).0, color(2.0).1));
    }
}
