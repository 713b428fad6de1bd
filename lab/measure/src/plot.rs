//! Plots as SVG: lines over two axes, and horizontal bars. [`super::figures`] decides the contents.
//!
//! The page has the titles and legends, because text can wrap there. Text and grid use [`INK`] and [`GRID`], which the
//! page's style sheet replaces in a dark scheme.

mod axis;

pub use axis::{Axis, Scale};

use std::io;

use axis::Span;
use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::{
    Cartesian2d, ChartBuilder, ChartContext, Circle, Color, DashedLineSeries, DrawingArea, ErrorBar, IntoDrawingArea,
    IntoFont, LineSeries, PathElement, RGBColor, Rectangle, SVGBackend, ShapeStyle, Text, TextStyle,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use sidecore_report::colour;
use sidecore_report::format::clean;

/// Colour of texts.
pub const INK: &str = "#1F2937";
/// Colour of grid lines.
pub const GRID: &str = "#E5E7EB";
/// Names of [`sidecore_report::COLOURS`].
const COLOUR_NAMES: [&str; 10] = ["blue", "red", "green", "amber", "violet", "teal", "pink", "olive", "brown", "grey"];

/// Width and height, pixels.
pub type Size = (u32, u32);

/// A line of a plot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Line {
    /// Index into [`sidecore_report::COLOURS`], modulo its length.
    pub colour: usize,
    /// Drawn with dashes, as baselines are.
    pub dashed: bool,
    /// In the order of the joining line.
    pub points: Vec<(f64, f64)>,
    /// Ranges of its points, drawn as error bars.
    pub ranges: Vec<Range>,
}

/// The least and the greatest value of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The point.
    pub at: (f64, f64),
    /// Least value.
    pub least: f64,
    /// Greatest value.
    pub most: f64,
}

/// A bar of one or more parts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bar {
    /// Written at its left.
    pub name: String,
    /// Colour and length of each.
    pub parts: Vec<(usize, f64)>,
    /// Written at its right.
    pub text: String,
    /// Least and greatest value of repeats.
    pub range: Option<(f64, f64)>,
}

/// Name of the colour of that number.
pub fn colour_name(number: usize) -> &'static str {
    COLOUR_NAMES[number % COLOUR_NAMES.len()]
}

/// Adds a white background, for pages of unknown colour.
pub fn on_white(svg: &str) -> String {
    svg.replacen('>', ">\n<rect width=\"100%\" height=\"100%\" fill=\"#FFFFFF\"/>", 1)
}

const LINE_PIXELS: i32 = 15;
const BAR_PIXELS: u32 = 11;
const RANGE_PIXELS: u32 = 7;
const AXIS_PIXELS: u32 = 42;
const LABEL_MARGIN: u32 = 8;
const TICK_PIXELS: u32 = 72;
/// Least number of marks on the axis of narrow bars: fewer give no sense of scale.
const FEWEST_TICKS: usize = 3;
const TICKS_UP: usize = 7;
const NAME_CHARACTERS: usize = 34;
const CHARACTER_PIXELS: u32 = 7;
/// plotters draws text at its size divided by 1.24.
const TEXT_SIZE: f64 = 12.0 * 1.24;

type Root<'s> = DrawingArea<SVGBackend<'s>, Shift>;
type Failed = DrawingAreaErrorKind<io::Error>;

/// Points that an axis cannot show, such as zero on a logarithmic one, are left out.
pub fn lines(size: Size, x: &Axis, y: &Axis, lines: &[Line]) -> String {
    let mut lines = lines.to_vec();
    for line in &mut lines {
        line.points.retain(|point| x.shows(point.0) && y.shows(point.1));
        line.ranges.retain(|range| x.shows(range.at.0) && y.shows(range.least) && y.shows(range.most));
    }
    let points = || lines.iter().flat_map(|line| &line.points);
    let ends = lines.iter().flat_map(|line| &line.ranges).flat_map(|range| [range.least, range.most]);
    let (across, up) = (x.span(points().map(|point| point.0)), y.span(points().map(|point| point.1).chain(ends)));
    drawn(size, |root| {
        let mut builder = ChartBuilder::on(root);
        builder.margin_top(8).margin_right(30).margin_left(LABEL_MARGIN);
        builder.x_label_area_size(AXIS_PIXELS).y_label_area_size(88);
        let mut chart = builder.build_cartesian_2d(across, up)?;
        draw_mesh(&mut chart, x, Some(y), (size.0 / TICK_PIXELS) as usize)?;
        lines.iter().try_for_each(|line| draw_line(&mut chart, line))
    })
}

/// Horizontal bars along an axis, with a dashed line at `reference`.
pub fn bars(width: u32, axis: &Axis, bars: &[Bar], reference: Option<f64>) -> String {
    let ends = bars.iter().map(|bar| bar.parts.iter().map(|part| part.1).sum());
    let ranges = bars.iter().filter_map(|bar| bar.range).flat_map(|(least, most)| [least, most]);
    let lines = bars.iter().flat_map(|bar| in_lines(&bar.name)).collect::<Vec<_>>();
    let names = text_pixels(lines.iter().map(String::as_str));
    let texts = text_pixels(bars.iter().map(|bar| bar.text.as_str()));
    let marks = (width.saturating_sub(names + texts) / TICK_PIXELS) as usize;
    let (across, rows) = (axis.span(ends.chain(ranges).chain(reference)), bars.len() as f64);
    let most_lines = bars.iter().map(|bar| in_lines(&bar.name).len()).max().unwrap_or(1);
    let height = BAR_PIXELS + LINE_PIXELS.unsigned_abs() * most_lines as u32;
    drawn((width, height * bars.len() as u32 + AXIS_PIXELS + 8), |root| {
        let mut builder = ChartBuilder::on(root);
        builder.margin_top(8).margin_right(texts).x_label_area_size(AXIS_PIXELS).y_label_area_size(names);
        let mut chart = builder.build_cartesian_2d(across, Span::Even((0.0..rows).into()))?;
        draw_mesh(&mut chart, axis, None, marks.max(FEWEST_TICKS))?;
        if let Some(value) = reference {
            chart.draw_series(DashedLineSeries::new([(value, 0.0), (value, rows)], 4, 3, pen(INK, 1)))?;
        }
        // Long names may leave the bars less room than the axis's name needs.
        let (across, down) = root.dim_in_pixel();
        let place = ((across / 2).cast_signed(), down.cast_signed() - 4);
        root.draw(&Text::new(axis.name.clone(), place, ink().pos(Pos::new(HPos::Center, VPos::Bottom))))?;
        bars.iter().enumerate().try_for_each(|(row, bar)| draw_bar(root, &mut chart, bar, rows - row as f64))
    })
}

/// A plot that cannot be drawn is empty: it must not cause the loss of a long measurement's rows.
fn drawn(size: Size, draw: impl FnOnce(&Root<'_>) -> Result<(), Failed>) -> String {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    let done = draw(&root).and_then(|()| root.present());
    drop(root);
    if done.is_ok() { svg } else { String::new() }
}

type Chart<'c, 's> = ChartContext<'c, SVGBackend<'s>, Cartesian2d<Span, Span>>;

/// Draws axes and grid, with about `marks` marks across. Bars have no vertical axis, and draw the name of the
/// horizontal one themselves.
fn draw_mesh(chart: &mut Chart<'_, '_>, x: &Axis, y: Option<&Axis>, marks: usize) -> Result<(), Failed> {
    let (across, up) = (|value: &f64| x.label(*value), |value: &f64| y.map_or_else(String::new, |y| y.label(*value)));
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(pen(GRID, 1)).light_line_style(pen(GRID, 0)).axis_style(pen(GRID, 1));
    mesh.set_all_tick_mark_size(5).label_style(ink()).axis_desc_style(ink());
    mesh.x_labels(marks).x_label_formatter(&across);
    match y {
        Some(y) => mesh.x_desc(x.name.as_str()).y_labels(TICKS_UP).y_label_formatter(&up).y_desc(y.name.as_str()),
        None => mesh.disable_y_mesh().disable_y_axis(),
    };
    mesh.draw()
}

fn draw_line(chart: &mut Chart<'_, '_>, line: &Line) -> Result<(), Failed> {
    let (points, style) = (line.points.iter().copied(), pen(colour(line.colour), 2));
    if line.dashed {
        chart.draw_series(DashedLineSeries::new(points.clone(), 6, 4, style))?;
    } else {
        chart.draw_series(LineSeries::new(points.clone(), style))?;
    }
    // The range's own middle mark lies under the point.
    let ranges = line.ranges.iter().map(|Range { at: (x, y), least, most }| {
        ErrorBar::new_vertical(*x, *least, *y, *most, pen(colour(line.colour), 1), RANGE_PIXELS)
    });
    chart.draw_series(ranges)?;
    chart.draw_series(points.map(|point| Circle::new(point, 3, style.filled()))).map(drop)
}

fn draw_bar(root: &Root<'_>, chart: &mut Chart<'_, '_>, bar: &Bar, top: f64) -> Result<(), Failed> {
    let mut end = 0.0;
    for &(number, length) in &bar.parts {
        let corners = [(end, top - 0.2), (end + length, top - 0.8)];
        end += length;
        chart.draw_series([Rectangle::new(corners, pen(colour(number), 1).filled())])?;
    }
    if let Some((least, most)) = bar.range {
        let ends = [(least, top - 0.5), (most, top - 0.5)];
        chart.draw_series([PathElement::new(ends, pen(INK, 1))])?;
        for end in ends {
            let (x, y) = chart.backend_coord(&end);
            let half = (RANGE_PIXELS / 2).cast_signed();
            root.draw(&PathElement::new([(x, y - half), (x, y + half)], pen(INK, 1)))?;
        }
        end = end.max(most);
    }
    let (left, middle) = chart.backend_coord(&(0.0, top - 0.5));
    let (right, _) = chart.backend_coord(&(end, top - 0.5));
    let lines = in_lines(&bar.name);
    let mut at = (left - 8, middle);
    at.1 -= lines.iter().skip(1).map(|_| LINE_PIXELS / 2).sum::<i32>();
    for line in lines {
        root.draw(&Text::new(line, at, ink().pos(Pos::new(HPos::Right, VPos::Center))))?;
        at.1 += LINE_PIXELS;
    }
    root.draw(&Text::new(bar.text.clone(), (right + 6, middle), ink().pos(Pos::new(HPos::Left, VPos::Center))))?;
    root.draw(&PathElement::new([(left, middle - 9), (left, middle + 9)], pen(GRID, 1)))
}

fn in_lines(name: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in clean(name).split(' ') {
        let letters: Vec<char> = word.chars().collect();
        for piece in letters.chunks(NAME_CHARACTERS).map(|piece| piece.iter().collect::<String>()) {
            let used = lines.last().map_or(0, |line| line.chars().count());
            match lines.last_mut() {
                Some(line) if used == 0 => line.push_str(&piece),
                Some(line) if used + 1 + piece.chars().count() <= NAME_CHARACTERS => line.extend([" ", &piece]),
                _ => lines.push(piece),
            }
        }
    }
    lines
}

fn text_pixels<'t>(texts: impl Iterator<Item = &'t str>) -> u32 {
    let longest = texts.map(|text| text.chars().count()).max().unwrap_or(0);
    longest as u32 * CHARACTER_PIXELS + 18
}

fn ink() -> TextStyle<'static> {
    ("sans-serif", TEXT_SIZE).into_font().color(&rgb(INK))
}

fn pen(colour: &str, width: u32) -> ShapeStyle {
    rgb(colour).stroke_width(width)
}

/// Of `#RRGGBB`.
fn rgb(colour: &str) -> RGBColor {
    let part = |from| colour.get(from..from + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).unwrap_or(0);
    RGBColor(part(1), part(3), part(5))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_report::COLOURS;
    use sidecore_report::format::{rate, ratio};

    fn axes() -> (Axis, Axis) {
        (Axis::new("size", Scale::Log2, |v| format!("{v}B")), Axis::new("ops/s", Scale::Log10, rate))
    }

    #[test]
    fn labels_are_text_elements_with_the_axis_words() {
        let (x, y) = axes();
        let line = Line { points: vec![(16.0, 1e6), (1024.0, 1e4)], ..Line::default() };
        let svg = lines((400, 250), &x, &y, &[line]);
        for word in ["size", "ops/s", "16B", "1 M/s"] {
            assert!(svg.contains(&format!(">\n{word}\n</text>")), "{word} in {svg}");
        }
        assert!(svg.contains(&format!(r#"stroke="{}""#, COLOURS[0])), "{svg}");
    }

    #[test]
    fn points_an_axis_cannot_show_are_left_out() {
        let (x, y) = axes();
        let points = vec![(0.0, 1e6), (16.0, f64::NAN), (64.0, 1e4)];
        let svg = lines((400, 250), &x, &y, &[Line { dashed: true, points, ..Line::default() }]);
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn a_bar_is_as_long_as_its_value() {
        let bar =
            |name: &str, value| Bar { name: name.into(), parts: vec![(0, value)], text: ratio(value), range: None };
        let axis = Axis::new("ratio", Scale::Linear, ratio);
        let svg = bars(500, &axis, &[bar("one", 1.0), bar("half", 0.5)], Some(1.0));
        let fill = format!(r#"fill="{}""#, COLOURS[0]);
        let widths: Vec<f64> = svg
            .lines()
            .filter(|line| line.starts_with("<rect") && line.contains(&fill))
            .map(|line| line.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(widths.len(), 2, "{svg}");
        assert!((widths[0] / widths[1] - 2.0).abs() < 0.02, "{widths:?}");
    }

    #[test]
    fn hostile_names_are_escaped_and_long_ones_are_whole() {
        let name = "<script>alert('&')</script> and much more of it";
        let bar = Bar { name: name.into(), ..Bar::default() };
        let svg = bars(500, &Axis::new("a", Scale::Linear, ratio), &[bar], None);
        assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;"), "{svg}");
        assert!(svg.contains("much more of it") && !svg.contains('…'), "{svg}");
        let long = format!("{} 4 emulated: 2 of 7 us + 11.8 ns/B, 2 of 25 us + 11.9 ns/B", "x".repeat(80));
        let lines = in_lines(&long);
        assert!(lines.iter().all(|line| (1..=NAME_CHARACTERS).contains(&line.chars().count())), "{lines:?}");
        assert_eq!(lines.concat().replace(' ', ""), long.replace(' ', ""));
        assert_eq!(in_lines("short"), ["short"]);
    }

    #[test]
    fn what_repeats_found_is_drawn_from_the_least_to_the_most() {
        let (x, y) = axes();
        let range = |least: f64| Range { at: (16.0, 1e6), least, most: 2e6 };
        let line = Line { points: vec![(16.0, 1e6), (64.0, 1e6)], ranges: vec![range(5e5)], ..Line::default() };
        let plain = Line { ranges: Vec::new(), ..line.clone() };
        let drawn = |line: &Line| lines((400, 250), &x, &y, std::slice::from_ref(line)).matches(COLOURS[0]).count();
        // A stroke, and one across each of its ends.
        assert!(drawn(&line) >= drawn(&plain) + 3, "{} {}", drawn(&line), drawn(&plain));
        let never = Line { ranges: vec![range(0.0)], ..plain.clone() };
        assert_eq!(drawn(&never), drawn(&plain), "zero has no place on this axis");
        let axis = Axis::new("ratio", Scale::Linear, ratio);
        let bar = Bar { name: "one".into(), parts: vec![(0, 1.0)], text: "1.00 x".into(), range: Some((0.5, 2.0)) };
        let place = |bar: Bar| {
            let svg = bars(500, &axis, &[bar, Bar { parts: vec![(0, 2.0)], ..Bar::default() }], None);
            let at = svg.split("1.00 x").next().unwrap().rfind("x=\"").unwrap();
            svg[at + 3..].split('"').next().unwrap().parse::<f64>().unwrap()
        };
        assert!(place(bar.clone()) > place(Bar { range: None, ..bar }) + 50.0, "words stand behind the range");
    }

    #[test]
    fn nothing_to_draw_is_no_error() {
        let (x, y) = axes();
        assert!(lines((400, 250), &x, &y, &[]).contains("</svg>"));
        assert!(bars(400, &x, &[], None).contains("</svg>"));
    }
}
