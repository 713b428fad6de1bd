//! Which plots a scenario gets, and what is in them.

mod series;

use super::column::Key;
use super::format::{micros, plain};
use super::plot::{Axis, Bar, Line, Scale, Size, bars, colour, lines};
use super::{Row, grouped};
use series::{Palette, Series};

/// Plots that share a legend.
#[derive(Debug)]
pub(crate) struct Group {
    /// What the colours mean.
    pub(crate) legend: Vec<Entry>,
    /// The plots.
    pub(crate) figures: Vec<Figure>,
}

/// One plot.
#[derive(Debug)]
pub(crate) struct Figure {
    /// Heading.
    pub(crate) title: String,
    /// The drawing.
    pub(crate) svg: String,
}

/// A line of a legend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Of the series, as `#RRGGBB`.
    pub(crate) colour: &'static str,
    /// Yardsticks are dashed.
    pub(crate) dashed: bool,
    /// Of the series.
    pub(crate) name: String,
}

/// The plots for the rows of the scenario of that name. Plots without data are not made.
pub(crate) fn figures(scenario: &str, rows: &[&Row]) -> Vec<Group> {
    let groups = match scenario {
        "crypto" | "keys" => vec![by_operation(rows)],
        "keys-waiting" => vec![bare(rows), stages(&short(rows))],
        "ocf" => vec![by_size(rows)],
        "notify" => vec![against_load(rows), stages(rows)],
        "balance" => vec![by_policy(rows)],
        "scaling" => vec![by_number(rows)],
        _ => vec![bare(rows)],
    };
    groups.into_iter().filter(|group| !group.figures.is_empty()).collect()
}

const SMALL: Size = (364, 250);
const LARGE: Size = (556, 330);
/// A chart of more bars than this says less than the table.
const MOST_BARS: usize = 40;
/// Mean times from here on would leave nothing to see of the others, us.
const LONG: f64 = 3000.0;
/// Where stage times are shown if there are several loads: busy, not saturated.
const TYPICAL_LOAD: f64 = 0.5;

/// An axis for the values of a column.
fn axis(name: &str, scale: Scale, key: Key) -> Axis {
    Axis::new(name, scale, key.column().writer())
}

fn size_axis() -> Axis {
    axis("message size", Scale::Log2, Key::Size)
}

fn load_axis() -> Axis {
    axis("offered load, share of capacity", Scale::Linear, Key::Load)
}

fn rate_axis(scale: Scale) -> Axis {
    axis("operations a second", scale, Key::OpsPerS)
}

fn of(key: Key) -> impl Fn(&Row) -> Option<f64> {
    move |row| row.number(key)
}

/// Crypto: a small plot for each operation, over sizes where it was run at several.
fn by_operation(rows: &[&Row]) -> Group {
    let series = Series::of(rows, &[Key::Op, Key::Size, Key::Load]);
    let mut palette = Palette::default();
    let figures = grouped(rows, |row| row.text(Key::Op)).into_iter().map(|(op, rows)| {
        let drawn = series.lines(&mut palette, &rows, of(Key::Size), of(Key::OpsPerS));
        let svg = if drawn.iter().any(|line| line.points.windows(2).any(|pair| pair[0].0 < pair[1].0)) {
            lines(SMALL, &size_axis(), &rate_axis(Scale::Log10), &drawn)
        } else {
            let bars = series.bars(&mut palette, &rows, Key::OpsPerS);
            value_bars(SMALL.0, &rate_axis(Scale::Linear), &bars, None)
        };
        figure(op.unwrap_or("all operations"), svg)
    });
    let figures = figures.collect::<Vec<_>>();
    Group { legend: palette.legend(), figures: with_data(figures) }
}

/// OCF: payload over sizes, a line for each number of clients, a plot for each set of devices. A baseline has the
/// colour of what is measured against it.
fn by_size(rows: &[&Row]) -> Group {
    let baseline = rows.iter().find_map(|row| row.text(Key::Baseline));
    let baseline = baseline.filter(|name| rows.iter().any(|row| row.variant() == *name));
    let title = baseline.map_or_else(String::new, |name| format!("; dashed: {name}"));
    let shown = [Key::Devices, Key::Size, Key::Load, Key::Notify, Key::Variant];
    let series = Series::of(rows, if baseline.is_some() { &shown } else { &shown[..3] });
    let up = axis("payload", Scale::Linear, Key::MbitPerS);
    let mut palette = Palette::default();
    let title = format!("Payload by message size{title}");
    let figures = panels(rows, Key::Devices, &title, |rows| {
        line_plot(LARGE, &size_axis(), &up, &series.lines(&mut palette, rows, of(Key::Size), Row::throughput))
    });
    Group { legend: palette.legend(), figures }
}

/// Scaling: a line over the number of clients, or of devices where that is what changes.
fn by_number(rows: &[&Row]) -> Group {
    let clients_change = rows.iter().any(|row| row.number(Key::Clients) != rows[0].number(Key::Clients));
    let of_devices = |row: &Row| row.text(Key::Devices)?.split(' ').next()?.parse().ok();
    let (key, number): (_, Value) =
        if clients_change { (Key::Clients, |row| row.number(Key::Clients)) } else { (Key::Devices, of_devices) };
    let series = Series::of(rows, &[Key::Op, Key::Notify, key]);
    let name = key.column().header;
    let across = axis(name, Scale::Linear, key);
    let mut palette = Palette::default();
    // A single point is no line.
    let figures = if rows.iter().all(|row| number(row) == number(rows[0])) {
        Vec::new()
    } else {
        panels(rows, Key::Op, &format!("Operations a second by {name}"), |rows| {
            let drawn = series.lines(&mut palette, rows, number, of(Key::OpsPerS));
            line_plot(LARGE, &across, &rate_axis(Scale::Linear), &drawn)
        })
    };
    Group { legend: palette.legend(), figures }
}

/// Notify: latency and CPU time against load, and against each other.
fn against_load(rows: &[&Row]) -> Group {
    let rows: Vec<_> = rows.iter().copied().filter(|row| row.number(Key::Load).is_some()).collect();
    let series = Series::of(&rows, &[Key::Load]);
    let mut palette = Palette::default();
    let latency = axis("latency", Scale::Log10, Key::TotalP50);
    let work = axis("CPU time per operation", Scale::Log10, Key::ClientCpu);
    let mut over_load = |title, up: &Axis, value: &dyn Fn(&Row) -> Option<f64>| {
        let drawn = series.lines(&mut palette, &rows, of(Key::Load), value);
        figure(title, line_plot(LARGE, &load_axis(), up, &drawn))
    };
    let mut figures = vec![
        over_load("Median latency", &latency, &of(Key::TotalP50)),
        over_load("Latency, 99th percentile", &latency, &of(Key::TotalP99)),
        over_load("CPU time, clients and service together", &work, &Row::cpu),
    ];
    let plane = series.lines(&mut palette, &rows, Row::cpu, of(Key::TotalP50));
    let title = "Median latency against CPU time: down and left is better";
    figures.push(figure(title, line_plot(LARGE, &work, &latency, &plane)));
    Group { legend: palette.legend(), figures: with_data(figures) }
}

/// The rows whose times can be seen beside each other's.
fn short<'r>(rows: &[&'r Row]) -> Vec<&'r Row> {
    rows.iter().copied().filter(|row| row.number(Key::TotalMean).is_some_and(|mean| mean < LONG)).collect()
}

/// A figure of a row.
type Value = fn(&Row) -> Option<f64>;

/// The stages of a request that follow each other, with their mean times.
const STAGES: [(&str, Key); 3] = [
    ("queue: submitted to handed over", Key::QueueMean),
    ("device: handed over to reply taken", Key::DeviceMean),
    ("deliver: reply taken to received", Key::DeliverMean),
];

/// Notify: mean stage times of each policy at one load.
fn stages(rows: &[&Row]) -> Group {
    let is_staged = |row: &&Row| STAGES.iter().all(|(_, key)| row.number(*key).is_some());
    let staged: Vec<_> = rows.iter().copied().filter(is_staged).collect();
    let far = |load: &f64| (load - TYPICAL_LOAD).abs();
    let loads = staged.iter().filter_map(|row| row.number(Key::Load));
    let typical = loads.min_by(|a, b| far(a).total_cmp(&far(b)));
    let rows: Vec<_> = staged.into_iter().filter(|row| row.number(Key::Load) == typical).collect();
    let series = Series::of(&rows, &[]);
    let across = axis("mean time", Scale::Linear, Key::TotalMean);
    let stacked = |row: &&Row| {
        let part = |(number, (_, key)): (usize, &(&str, Key))| Some((number, row.number(*key)?));
        let parts: Vec<_> = STAGES.iter().enumerate().filter_map(part).collect();
        let total = parts.iter().map(|part| part.1).sum();
        Bar { name: series.name(row), parts, text: micros(total) }
    };
    let bars: Vec<_> = rows.iter().map(stacked).collect();
    let at = typical.map_or(String::new(), |load| format!(", at load {}", plain(load)));
    let figures = vec![figure(&format!("Where the time goes{at}"), value_bars(2 * LARGE.0, &across, &bars, None))];
    let legend = STAGES.iter().enumerate().map(|(number, (name, _))| entry(number, false, name)).collect();
    Group { legend, figures: with_data(figures) }
}

/// Balance: a bar for each policy's ratio, and its 99th percentile against load; both for each mix.
fn by_policy(rows: &[&Row]) -> Group {
    // Where the variant is not the policy, it is the mix of requests.
    let mixes = rows.iter().any(|row| row.text(Key::Balance).is_some_and(|policy| policy != row.variant()));
    let apart = [Key::Load, Key::Variant, Key::Devices, Key::Size];
    let series = Series::of(rows, if mixes { &apart } else { &apart[..1] });
    // Without mixes all rows are of one panel: none of them has this.
    let mix = if mixes { Key::Variant } else { Key::Limit };
    let latency = axis("latency", Scale::Log10, Key::TotalP99);
    let mut palette = Palette::default();
    let mut figures = panels(rows, mix, &ratio_title(rows), |rows| ratio_bars(&series, &mut palette, rows));
    figures.extend(panels(rows, mix, "Latency, 99th percentile", |rows| {
        let drawn = series.lines(&mut palette, rows, of(Key::Load), of(Key::TotalP99));
        line_plot(LARGE, &load_axis(), &latency, &drawn)
    }));
    Group { legend: palette.legend(), figures }
}

/// Lane and a plan's own scenarios: bars of rates and of ratios, which carry their names themselves.
fn bare(rows: &[&Row]) -> Group {
    let series = Series::of(rows, &[]);
    let mut palette = Palette::default();
    let rates = series.bars(&mut palette, rows, Key::OpsPerS);
    let figures = vec![
        figure("Operations a second", value_bars(LARGE.0, &rate_axis(Scale::Linear), &rates, None)),
        figure(&ratio_title(rows), ratio_bars(&series, &mut palette, rows)),
    ];
    Group { legend: Vec::new(), figures: with_data(figures) }
}

fn ratio_bars(series: &Series<'_>, palette: &mut Palette, rows: &[&Row]) -> String {
    let across = axis("ratio to the baseline", Scale::Linear, Key::Ratio);
    value_bars(LARGE.0, &across, &series.bars(palette, rows, Key::Ratio), Some(1.0))
}

fn ratio_title(rows: &[&Row]) -> String {
    let mut names: Vec<_> = rows.iter().filter_map(|row| row.text(Key::Baseline)).collect();
    names.dedup();
    match names[..] {
        [name] => format!("Ratio to the baseline: {name}"),
        _ => "Ratio to each row's baseline".to_owned(),
    }
}

/// A plot for each key of the rows, named by its key where there are several.
fn panels(rows: &[&Row], key: Key, title: &str, mut plot: impl FnMut(&[&Row]) -> String) -> Vec<Figure> {
    let groups = grouped(rows, |row| row.text(key));
    let alone = groups.len() == 1;
    let figures = groups.into_iter().map(|(key, rows)| {
        let title = key.filter(|_| !alone).map_or_else(|| title.to_owned(), |key| format!("{title}, {key}"));
        figure(&title, plot(&rows))
    });
    with_data(figures.collect())
}

fn line_plot(size: Size, x: &Axis, y: &Axis, drawn: &[Line]) -> String {
    if drawn.iter().any(|line| !line.points.is_empty()) { lines(size, x, y, drawn) } else { String::new() }
}

fn value_bars(width: u32, axis: &Axis, drawn: &[Bar], reference: Option<f64>) -> String {
    if (1..=MOST_BARS).contains(&drawn.len()) { bars(width, axis, drawn, reference) } else { String::new() }
}

fn figure(title: &str, svg: String) -> Figure {
    Figure { title: title.to_owned(), svg }
}

fn with_data(figures: Vec<Figure>) -> Vec<Figure> {
    figures.into_iter().filter(|figure| !figure.svg.is_empty()).collect()
}

fn entry(number: usize, dashed: bool, name: &str) -> Entry {
    Entry { colour: colour(number), dashed, name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    fn titles(groups: &[Group]) -> Vec<&str> {
        groups.iter().flat_map(|group| &group.figures).map(|figure| figure.title.as_str()).collect()
    }

    #[test]
    fn each_scenario_gets_its_plots() {
        let report = sample();
        for (name, rows) in report.by_scenario() {
            let groups = figures(name, &rows);
            let expected: &[&str] = match name {
                "lane" => &["Operations a second", "Ratio to the baseline: bare ping-pong"],
                "crypto" => &["aes-256-gcm", "sha-256", "rsa-2048-sign"],
                "ocf" => &["Payload by message size, 4 hifn-7751", "Payload by message size, 4 bcm-5820"],
                "notify" => &[
                    "Median latency",
                    "Latency, 99th percentile",
                    "CPU time, clients and service together",
                    "Median latency against CPU time: down and left is better",
                    "Where the time goes, at load 0.5",
                ],
                "balance" => &["Ratio to the baseline: linear program", "Latency, 99th percentile"],
                _ => &["Operations a second by clients"],
            };
            assert_eq!(titles(&groups), expected, "{name}");
        }
    }

    #[test]
    fn a_baseline_is_dashed_in_the_legend() {
        let report = sample();
        let crypto: Vec<_> = report.rows.iter().filter(|row| row.scenario() == "crypto").collect();
        let legend = &figures("crypto", &crypto)[0].legend;
        let dashed: Vec<_> = legend.iter().filter(|entry| entry.dashed).map(|entry| entry.name.as_str()).collect();
        assert!(dashed.iter().all(|name| name.starts_with("in process")) && !dashed.is_empty(), "{legend:?}");
    }

    #[test]
    fn rows_without_figures_make_no_plots() {
        for name in ["lane", "crypto", "ocf", "notify", "balance", "scaling", "plan"] {
            assert!(figures(name, &[&Row::new(name, "bare")]).is_empty(), "{name}");
        }
    }
}
