// SPDX-License-Identifier: GPL-2.0-only
//! Plots as inline SVG.
//!
//! Colours of text, axes and grid are placeholders that the page's style sheet replaces ([`crate::html`]), so that one
//! plot serves light and dark pages. Series colours are those of Okabe and Ito: colour-blind readers can tell them
//! apart on both. Lines beyond the last colour reuse the colours from the first on, dashed and with hollow dots.

use plotters::coord::ranged1d::{BoldPoints, SegmentedCoord};
use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Placeholder of text and axes.
pub const INK: RGBColor = RGBColor(1, 1, 1);
/// Placeholder of grid lines.
pub const GRID: RGBColor = RGBColor(2, 2, 2);

const SERIES: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
];

/// Lengths of dashes and gaps, in px, of lines that reuse the colours: one pattern for each reuse. Dashes of the first
/// pattern are long enough for two of them in a legend.
const DASHES: [(i32, i32); 3] = [(7, 4), (2, 4), (12, 3)];

/// The colour of a line, and its dashes if an earlier line has this colour unbroken.
fn style(index: usize) -> (RGBColor, Option<(i32, i32)>) {
    let round = (index / SERIES.len()).checked_sub(1);
    (SERIES[index % SERIES.len()], round.map(|round| DASHES[round % DASHES.len()]))
}

/// One line of a line plot.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// A dot for each run, a bar for their median; one row for each label.
pub fn strips(title: &str, axis: &str, rows: &[(String, Vec<f64>)]) -> String {
    let most = rows.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max);
    let names: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
    horizontal(title, axis, &names, most, |row, draw| {
        let (_, values) = &rows[row];
        let color = SERIES[row % SERIES.len()];
        if let Some(middle) = crate::stats::median(values) {
            draw.bar(row, middle, color.mix(0.35));
        }
        values.iter().for_each(|value| draw.dot(row, *value, color));
    })
}

/// A bar for each label.
pub fn bars(title: &str, axis: &str, rows: &[(String, f64)]) -> String {
    let most = rows.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let names: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
    horizontal(title, axis, &names, most, |row, draw| {
        draw.bar(row, rows[row].1, SERIES[row % SERIES.len()].mix(0.7));
    })
}

/// Start and end on the x axis, and the number of the colour.
pub type Band = (f64, f64, usize);

/// Stretches of a common x axis, each in the colour of its number; one row for each label.
pub fn bands(title: &str, axis: &str, rows: &[(String, Vec<Band>)]) -> String {
    let ends = rows.iter().flat_map(|(_, bands)| bands).map(|(_, to, _)| *to);
    let most = ends.fold(0.0, f64::max);
    let names: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
    horizontal(title, axis, &names, most, |row, draw| {
        for (from, to, number) in &rows[row].1 {
            draw.band(row, *from, *to, SERIES[number % SERIES.len()].mix(0.8));
        }
    })
}

/// Lines over a common x axis, with a legend below.
pub fn lines(title: &str, x_axis: &str, y_axis: &str, series: &[Line]) -> String {
    drawn_lines(title, x_axis, y_axis, series, None)
}

/// [`lines`] with names instead of numbers below the x axis.
pub fn lines_named(
    title: &str,
    x_axis: &str,
    y_axis: &str,
    series: &[Line],
    x_name: fn(f64) -> String,
) -> String {
    drawn_lines(title, x_axis, y_axis, series, Some(x_name))
}

/// Axes and grid of a plot of two numbers.
type Mesh<'a, 'b, B> = plotters::chart::MeshStyle<'a, 'b, RangedCoordf64, RangedCoordf64, B>;

/// How axes of two numbers look.
pub(crate) fn styled<'m, 'a, 'b, 's>(
    mesh: &'m mut Mesh<'a, 'b, SVGBackend<'s>>,
) -> &'m mut Mesh<'a, 'b, SVGBackend<'s>> {
    mesh.label_style(("sans-serif", 13).into_font().color(&INK))
        .axis_desc_style(("sans-serif", 14).into_font().color(&INK))
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
}

fn drawn_lines(
    title: &str,
    x_axis: &str,
    y_axis: &str,
    series: &[Line],
    x_name: Option<fn(f64) -> String>,
) -> String {
    let points = || series.iter().flat_map(|line| line.points.iter().copied());
    let left = points().map(|(x, _)| x).fold(f64::INFINITY, f64::min);
    let right = points().map(|(x, _)| x).fold(f64::NEG_INFINITY, f64::max);
    let top = points().map(|(_, y)| y).fold(0.0, f64::max);
    let mut svg = String::new();
    if left > right {
        return svg;
    }
    let right = if right > left { right } else { left + 1.0 };
    let (x_ticks, y_ticks) = (Ticks::new(left, right, 11), Ticks::new(0.0, headroom(top), 11));
    {
        let area = SVGBackend::with_string(&mut svg, (720, 380)).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(10)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d(left..right, 0.0..headroom(top))
            .expect("an SVG in memory can be drawn");
        styled(&mut chart.configure_mesh())
            .x_desc(x_axis)
            .y_desc(y_axis)
            .x_labels(x_ticks.most)
            .y_labels(y_ticks.most)
            .x_label_formatter(&|x| x_name.map_or_else(|| x_ticks.name(*x), |name| name(*x)))
            .y_label_formatter(&|y| y_ticks.name(*y))
            .draw()
            .expect("an SVG in memory can be drawn");
        for (index, line) in series.iter().enumerate() {
            let (color, dashes) = style(index);
            let points = || line.points.iter().copied();
            let key = |(x, y)| [(x, y), (x + 18, y)];
            let drawn = match dashes {
                None => {
                    let line = LineSeries::new(points(), color.stroke_width(2)).point_size(3);
                    chart.draw_series(line).map(|drawn| {
                        drawn.legend(move |at| PathElement::new(key(at), color.stroke_width(3)))
                    })
                }
                Some((dash, gap)) => {
                    let line = DashedLineSeries::new(points(), dash, gap, color.stroke_width(2));
                    let dots = points().map(|at| Circle::new(at, 3, color.stroke_width(1)));
                    chart.draw_series(dots).expect("an SVG in memory can be drawn");
                    chart.draw_series(line).map(|drawn| {
                        drawn.legend(move |at| {
                            DashedPathElement::new(key(at), dash, gap, color.stroke_width(3))
                        })
                    })
                }
            };
            drawn.expect("an SVG in memory can be drawn").label(&line.name);
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .label_font(("sans-serif", 13).into_font().color(&INK))
            .draw()
            .expect("an SVG in memory can be drawn");
        area.present().expect("an SVG in memory can be drawn");
    }
    titled(&svg, title)
}

type Rows<'a> = ChartContext<
    'a,
    SVGBackend<'a>,
    Cartesian2d<RangedCoordf64, SegmentedCoord<plotters::coord::types::RangedCoordusize>>,
>;

struct Draw<'a, 'b> {
    chart: &'b mut Rows<'a>,
    /// Index of the last row. Rows are drawn from the top, but the axis counts from the bottom.
    last: usize,
}

impl<'a> Draw<'a, '_> {
    fn bar(&mut self, row: usize, value: f64, color: RGBAColor) {
        self.band(row, 0.0, value, color);
    }

    fn band(&mut self, row: usize, from: f64, to: f64, color: RGBAColor) {
        let row = self.last - row;
        let corners = [(from, SegmentValue::Exact(row)), (to, SegmentValue::Exact(row + 1))];
        let mut bar = Rectangle::new(corners, color.filled());
        bar.set_margin(7, 7, 0, 0);
        self.put(bar);
    }

    fn dot(&mut self, row: usize, value: f64, color: RGBColor) {
        let row = self.last - row;
        self.put(Circle::new((value, SegmentValue::CenterOf(row)), 4, color.filled()));
    }

    /// The left end of a row on paper, at half its height.
    fn middle(&self, row: usize) -> (i32, i32) {
        let place = (0.0, SegmentValue::CenterOf(self.last - row));
        self.chart.plotting_area().map_coordinate(&place)
    }

    fn put<E>(&mut self, element: E)
    where
        for<'e> &'e E: plotters::element::PointCollection<'e, (f64, SegmentValue<usize>)>,
        E: plotters::element::Drawable<SVGBackend<'a>>,
    {
        let drawn = self.chart.plotting_area().draw(&element);
        drawn.expect("an SVG in memory can be drawn");
    }
}

/// Most letters in a line of a row's name.
const LETTERS: usize = 20;
/// Width of a letter and height of a line. On a phone, text is larger in relation to its plot.
const LETTER: u32 = 13;
const LINE: u32 = 22;

fn horizontal(
    title: &str,
    axis: &str,
    names: &[&str],
    most: f64,
    draw_row: impl Fn(usize, &mut Draw),
) -> String {
    let mut svg = String::new();
    let names: Vec<Vec<String>> = names.iter().map(|name| broken(name)).collect();
    // An axis of one segment has no length, so a lone row stands above an empty one.
    let segments = names.len().max(2);
    if names.is_empty() {
        return svg;
    }
    let letters = names.iter().flatten().map(|line| line.chars().count()).max().unwrap_or(0) as u32;
    let lines = names.iter().map(Vec::len).max().unwrap_or(1) as u32;
    let row = (16 + LINE * lines).max(38);
    let ticks = Ticks::new(0.0, headroom(most), 6);
    {
        let size = (720, 72 + row * segments as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .margin_right(24)
            .x_label_area_size(56)
            .y_label_area_size(20 + letters * LETTER)
            .build_cartesian_2d(0.0..headroom(most), (0..segments - 1).into_segmented())
            .expect("an SVG in memory can be drawn");
        let text = ("sans-serif", 14).into_font().color(&INK);
        chart
            .configure_mesh()
            .x_desc(axis)
            .x_labels(ticks.most)
            .y_labels(segments)
            .y_label_formatter(&|_| String::new())
            .x_label_formatter(&|x| ticks.name(*x))
            .label_style(text.clone())
            .axis_desc_style(text.clone())
            .axis_style(INK)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .disable_y_mesh()
            .draw()
            .expect("an SVG in memory can be drawn");
        let beside = text.pos(Pos::new(HPos::Right, VPos::Center));
        for (row, name) in names.iter().enumerate() {
            let mut draw = Draw { chart: &mut chart, last: segments - 1 };
            draw_row(row, &mut draw);
            let (x, middle) = draw.middle(row);
            let top = middle - (LINE as usize * (name.len() - 1) / 2) as i32;
            for (line, y) in name.iter().zip((top..).step_by(LINE as usize)) {
                let line = Text::new(line.as_str(), (x - 10, y), beside.clone());
                area.draw(&line).expect("an SVG in memory can be drawn");
            }
        }
        area.present().expect("an SVG in memory can be drawn");
    }
    titled(&svg, title).replacen("<svg ", "<svg class=\"rows\" ", 1)
}

/// Lines of a name, broken behind punctuation if possible.
fn broken(name: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut room = LETTERS;
    for part in name.split_inclusive([',', ':', ' ']) {
        if part.trim_end().chars().count() > room && room < LETTERS {
            lines.push(String::new());
            room = LETTERS;
        }
        for letter in part.chars() {
            if room == 0 && letter != ' ' {
                lines.push(String::new());
                room = LETTERS;
            }
            lines.last_mut().expect("there is a line").push(letter);
            room = room.saturating_sub(1);
        }
    }
    lines.iter().map(|line| line.trim_end().to_string()).collect()
}

/// Adds a title that tells screen readers what the plot shows.
pub(crate) fn titled(svg: &str, title: &str) -> String {
    let title = crate::markup::escape(title);
    svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{title}\" "), 1)
}

fn headroom(most: f64) -> f64 {
    if most > 0.0 { most * 1.08 } else { 1.0 }
}

/// How the numbers of an axis are written: in one unit, with enough decimals to tell each from the next.
struct Ticks {
    most: usize,
    step: f64,
    unit: f64,
    letter: &'static str,
    decimals: usize,
}

impl Ticks {
    fn new(from: f64, to: f64, most: usize) -> Self {
        const SHORTER: [(f64, &str); 3] = [(1e9, " G"), (1e6, " M"), (1e3, " k")];
        let points = RangedCoordf64::from(from..to).key_points(BoldPoints(most));
        let last = points.last().copied().unwrap_or(to).abs();
        let step = points.windows(2).map(|two| two[1] - two[0]).fold(f64::INFINITY, f64::min);
        let step = if step.is_finite() { step } else { to - from };
        let long = |(unit, _): &&(f64, &str)| last >= 10.0 * unit;
        let (unit, letter) = SHORTER.iter().find(long).copied().unwrap_or((1.0, ""));
        let whole = |decimals: &usize| {
            let steps = step / unit * 10f64.powi(*decimals as i32);
            steps > 0.5 && (steps - steps.round()).abs() < 1e-3
        };
        Ticks { most, step, unit, letter, decimals: (0..12).find(whole).unwrap_or(12) }
    }

    fn name(&self, value: f64) -> String {
        match value.abs() < self.step / 2.0 {
            true => "0".to_string(),
            false => format!("{:.*}{}", self.decimals, value / self.unit, self.letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_lines_look_alike() {
        let looks: Vec<_> = (0..4 * SERIES.len()).map(style).collect();
        for (at, look) in looks.iter().enumerate() {
            assert!(!looks[..at].contains(look), "line {at}");
        }
    }

    #[test]
    fn no_two_ticks_of_an_axis_read_alike() {
        for exponent in -6..=5 {
            for (first, most) in (10..100).flat_map(|first| [(first, 6), (first, 11)]) {
                let top = headroom(f64::from(first) / 10.0 * 10f64.powi(exponent));
                let ticks = Ticks::new(0.0, top, most);
                let points = RangedCoordf64::from(0.0..top).key_points(BoldPoints(most));
                let names: Vec<String> = points.iter().map(|at| ticks.name(*at)).collect();
                for (at, name) in names.iter().enumerate() {
                    assert!(!names[..at].contains(name), "to {top}: {names:?}");
                }
                assert!(names.len() > 1 && names.iter().all(|name| name.len() < 10), "{names:?}");
            }
        }
    }

    #[test]
    fn names_that_differ_at_their_end_differ_in_a_plot() {
        let names = ["program", "cgroup"]
            .map(|tenant| format!("min-fair:target=0.9,slice=10ms,tenant={tenant}"));
        assert_eq!(broken(&names[0]), ["min-fair:target=0.9,", "slice=10ms,", "tenant=program"]);
        assert_eq!(broken(&names[1]).concat(), names[1]);
        assert_eq!(broken(&"m".repeat(45)).concat(), "m".repeat(45));
        assert!(broken(&"m".repeat(45)).iter().all(|line| line.len() <= LETTERS));
        assert_eq!(
            broken("nginx and 2 of x265 on a machine"),
            ["nginx and 2 of x265", "on a machine"]
        );
        assert_eq!(broken(""), [""]);
    }

    #[test]
    fn lines_beyond_the_last_colour_are_dashed_and_so_are_they_in_the_legend() {
        let line = |at: usize| Line {
            name: format!("line {at}"),
            points: vec![(0.0, at as f64), (1.0, at as f64 + 1.0)],
        };
        let svg = |count| lines("title", "x", "y", &(0..count).map(line).collect::<Vec<_>>());
        // Paths in the first colour with this stroke width: lines and legend samples differ by it.
        let paths = |svg: &str, width: u32| {
            let of = |path: &&str| {
                path.contains("#0072B2") && path.contains(&format!("stroke-width=\"{width}\""))
            };
            svg.split('<').filter(|path| path.starts_with("polyline")).filter(of).count()
        };
        let (seven, eight) = (svg(SERIES.len()), svg(SERIES.len() + 1));
        assert_eq!((paths(&seven, 2), paths(&seven, 3)), (1, 1));
        assert!(paths(&eight, 2) > 10 && paths(&eight, 3) == 3, "{eight}");
    }
}
