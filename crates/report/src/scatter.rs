// SPDX-License-Identifier: GPL-2.0-only
//! Named points in a plane, as inline SVG.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::plot::{INK, styled, titled};
use crate::text::digits;

const SIZE: (u32, u32) = (720, 420);
/// The points that stand out, and the others (Okabe and Ito).
const BEST: RGBColor = RGBColor(0, 114, 178);
const OTHER: RGBColor = RGBColor(150, 150, 150);

/// A point of a plot.
#[derive(Clone, Debug)]
pub struct Dot {
    /// Its name, beside it.
    pub name: String,
    /// Its place.
    pub at: (f64, f64),
    /// It stands out.
    pub best: bool,
}

/// All points, with the names of those that stand out.
pub fn scatter(title: &str, x_axis: &str, y_axis: &str, dots: &[Dot]) -> String {
    let mut svg = String::new();
    let (Some(x), Some(y)) = (range(dots, |dot| dot.at.0), range(dots, |dot| dot.at.1)) else {
        return svg;
    };
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(10)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d(x.clone(), y)
            .expect("an SVG in memory can be drawn");
        styled(&mut chart.configure_mesh())
            .x_desc(x_axis)
            .y_desc(y_axis)
            .x_labels(8)
            .y_labels(8)
            .x_label_formatter(&|x| digits(*x))
            .y_label_formatter(&|y| digits(*y))
            .draw()
            .expect("an SVG in memory can be drawn");
        let middle = f64::midpoint(x.start, x.end);
        let text = ("sans-serif", 12).into_font().color(&INK);
        for dot in dots {
            let color = if dot.best { BEST } else { OTHER };
            let point = Circle::new(dot.at, 4, color.filled());
            chart.draw_series([point]).expect("an SVG in memory can be drawn");
            if dot.best {
                // Towards the middle, where there is room.
                let (side, by) = match dot.at.0 > middle {
                    true => (HPos::Right, -8),
                    false => (HPos::Left, 8),
                };
                let style = text.pos(Pos::new(side, VPos::Center));
                let name = EmptyElement::at(dot.at) + Text::new(dot.name.clone(), (by, 0), style);
                chart.draw_series([name]).expect("an SVG in memory can be drawn");
            }
        }
        area.present().expect("an SVG in memory can be drawn");
    }
    titled(&svg, title)
}

/// Where all points are, with room around them. None: there is no point.
fn range(dots: &[Dot], of: impl Fn(&Dot) -> f64) -> Option<std::ops::Range<f64>> {
    let low = dots.iter().map(&of).reduce(f64::min)?;
    let high = dots.iter().map(&of).reduce(f64::max)?;
    let room = ((high - low) * 0.08).max(high.abs() * 0.02).max(1e-9);
    Some(low - room..high + room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_drawn_and_those_that_stand_out_are_named() {
        let dot = |name: &str, at, best| Dot { name: name.into(), at, best };
        let dots = [dot("fast", (1.0, 1.2), true), dot("slow", (1.5, 1.0), false)];
        let svg = scatter("gain and wait", "wait", "gain", &dots);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains("fast") && !svg.contains("slow"), "{svg}");
        assert!(scatter("none", "x", "y", &[]).is_empty());
    }
}
