//! Which plots a scenario gets, and what is in them.

mod series;

use super::format::{bytes, micros, plain, rate, ratio, throughput};
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

fn size_axis() -> Axis {
    Axis::new("message size", Scale::Log2, |size| bytes(size.round() as u64))
}

fn load_axis() -> Axis {
    Axis::new("offered load, share of capacity", Scale::Linear, plain)
}

fn size(row: &Row) -> Option<f64> {
    Some(row.size? as f64)
}

fn median(row: &Row) -> Option<f64> {
    Some(row.total_us?.p50)
}

fn tail(row: &Row) -> Option<f64> {
    Some(row.total_us?.p99)
}

fn cpu(row: &Row) -> Option<f64> {
    Some(row.cpu_us_per_op?.total())
}

/// Crypto: a small plot for each operation, over sizes where it was run at several.
fn by_operation(rows: &[&Row]) -> Group {
    let series = Series::of(rows, &["op", "size", "load"]);
    let mut palette = Palette::default();
    let up = Axis::new("operations a second", Scale::Log10, rate);
    let figures = grouped(rows, |row| row.op.as_deref()).into_iter().map(|(op, rows)| {
        let drawn = series.lines(&mut palette, &rows, size, |row| row.ops_per_s);
        let svg = if drawn.iter().any(|line| line.points.len() > 1) {
            lines(SMALL, &size_axis(), &up, &drawn)
        } else {
            let across = Axis::new("operations a second", Scale::Linear, rate);
            value_bars(SMALL.0, &across, &series.bars(&mut palette, &rows, |row| row.ops_per_s, rate), None)
        };
        figure(op.unwrap_or("all operations"), svg)
    });
    let figures = figures.collect::<Vec<_>>();
    Group { legend: palette.legend(), figures: with_data(figures) }
}

/// OCF: payload over sizes, a line for each number of clients, a plot for each set of devices. A baseline has the
/// colour of what is measured against it.
fn by_size(rows: &[&Row]) -> Group {
    let baseline = rows.iter().find_map(|row| row.baseline.as_deref());
    let baseline = baseline.filter(|name| rows.iter().any(|row| row.variant == *name));
    let title = baseline.map_or_else(String::new, |name| format!("; dashed: {name}"));
    let shown = ["devices", "size", "load", "notify", "variant"];
    let series = Series::of(rows, if baseline.is_some() { &shown } else { &shown[..3] });
    let up = Axis::new("payload", Scale::Linear, throughput);
    let mut palette = Palette::default();
    let figures = panels(
        rows,
        |row| row.devices.clone(),
        &format!("Payload by message size{title}"),
        |rows| line_plot(LARGE, &size_axis(), &up, &series.lines(&mut palette, rows, size, Row::throughput)),
    );
    Group { legend: palette.legend(), figures }
}

/// Scaling: a line over the number of clients, or of devices where that is what changes.
fn by_number(rows: &[&Row]) -> Group {
    let clients_change = rows.iter().any(|row| row.clients != rows[0].clients);
    let (name, number): (_, Value) = if clients_change {
        ("clients", |row| row.clients.map(f64::from))
    } else {
        ("devices", |row| row.devices.as_ref()?.split(' ').next()?.parse().ok())
    };
    let series = Series::of(rows, &["op", "notify", name]);
    let (across, up) = (Axis::new(name, Scale::Linear, plain), Axis::new("operations a second", Scale::Linear, rate));
    let mut palette = Palette::default();
    // A single point is no line.
    let figures = if rows.iter().all(|row| number(row) == number(rows[0])) {
        Vec::new()
    } else {
        panels(
            rows,
            |row| row.op.clone(),
            &format!("Operations a second by {name}"),
            |rows| line_plot(LARGE, &across, &up, &series.lines(&mut palette, rows, number, |row| row.ops_per_s)),
        )
    };
    Group { legend: palette.legend(), figures }
}

/// Notify: latency and CPU time against load, and against each other.
fn against_load(rows: &[&Row]) -> Group {
    let rows: Vec<_> = rows.iter().copied().filter(|row| row.load.is_some()).collect();
    let rows = &rows[..];
    let series = Series::of(rows, &["load"]);
    let mut palette = Palette::default();
    let latency = Axis::new("latency", Scale::Log10, micros);
    let work = Axis::new("CPU time per operation", Scale::Log10, micros);
    let load = |row: &Row| row.load;
    let p50 = series.lines(&mut palette, rows, load, median);
    let p99 = series.lines(&mut palette, rows, load, tail);
    let spent = series.lines(&mut palette, rows, load, cpu);
    let plane = series.lines(&mut palette, rows, cpu, median);
    let figures = vec![
        figure("Median latency", line_plot(LARGE, &load_axis(), &latency, &p50)),
        figure("Latency, 99th percentile", line_plot(LARGE, &load_axis(), &latency, &p99)),
        figure("CPU time, clients and service together", line_plot(LARGE, &load_axis(), &work, &spent)),
        figure("Median latency against CPU time: down and left is better", line_plot(LARGE, &work, &latency, &plane)),
    ];
    Group { legend: palette.legend(), figures: with_data(figures) }
}

/// The rows whose times can be seen beside each other's.
fn short<'r>(rows: &[&'r Row]) -> Vec<&'r Row> {
    rows.iter().copied().filter(|row| row.total_us.is_some_and(|total| total.mean < LONG)).collect()
}

/// A figure of a row.
type Value = fn(&Row) -> Option<f64>;

/// The stages of a request that follow each other, with their mean times.
const STAGES: [(&str, Value); 3] = [
    ("queue: submitted to handed over", |row| Some(row.queue_us?.mean)),
    ("device: handed over to reply taken", |row| Some(row.device_us?.mean)),
    ("deliver: reply taken to received", |row| Some(row.deliver_us?.mean)),
];

/// Notify: mean stage times of each policy at one load.
fn stages(rows: &[&Row]) -> Group {
    let staged: Vec<_> = rows.iter().copied().filter(|row| STAGES.iter().all(|(_, of)| of(row).is_some())).collect();
    let typical = staged.iter().filter_map(|row| row.load).min_by(|a, b| {
        let far = |load: &f64| (load - TYPICAL_LOAD).abs();
        far(a).total_cmp(&far(b))
    });
    let rows: Vec<_> = staged.into_iter().filter(|row| row.load == typical).collect();
    let series = Series::of(&rows, &[]);
    let stacked = |row: &&Row| {
        let parts: Vec<_> =
            STAGES.iter().enumerate().filter_map(|(number, (_, of))| Some((number, of(row)?))).collect();
        let total = parts.iter().map(|part| part.1).sum();
        Bar { name: series.name(row), parts, text: micros(total) }
    };
    let bars: Vec<_> = rows.iter().map(stacked).collect();
    let at = typical.map_or(String::new(), |load| format!(", at load {}", plain(load)));
    let across = Axis::new("mean time", Scale::Linear, micros);
    let figures = vec![figure(&format!("Where the time goes{at}"), value_bars(2 * LARGE.0, &across, &bars, None))];
    let legend = STAGES.iter().enumerate().map(|(number, (name, _))| entry(number, false, name)).collect();
    Group { legend, figures: with_data(figures) }
}

/// Balance: a bar for each policy's ratio, and its 99th percentile against load; both for each mix.
fn by_policy(rows: &[&Row]) -> Group {
    // Where the variant is not the policy, it is the mix of requests.
    let mixes = rows.iter().any(|row| row.balance.as_ref().is_some_and(|policy| *policy != row.variant));
    let mix = |row: &'_ Row| mixes.then(|| row.variant.clone());
    let series = Series::of(rows, if mixes { &["variant", "devices", "size", "load"] } else { &["load"] });
    let latency = Axis::new("latency", Scale::Log10, micros);
    let mut palette = Palette::default();
    let mut figures = panels(rows, mix, &ratio_title(rows), |rows| ratio_bars(&series, &mut palette, rows));
    figures.extend(panels(rows, mix, "Latency, 99th percentile", |rows| {
        line_plot(LARGE, &load_axis(), &latency, &series.lines(&mut palette, rows, |row| row.load, tail))
    }));
    Group { legend: palette.legend(), figures }
}

/// Lane and a plan's own scenarios: bars of rates and of ratios, which carry their names themselves.
fn bare(rows: &[&Row]) -> Group {
    let series = Series::of(rows, &[]);
    let across = Axis::new("operations a second", Scale::Linear, rate);
    let mut palette = Palette::default();
    let rates = series.bars(&mut palette, rows, |row| row.ops_per_s, rate);
    let figures = vec![
        figure("Operations a second", value_bars(LARGE.0, &across, &rates, None)),
        figure(&ratio_title(rows), ratio_bars(&series, &mut palette, rows)),
    ];
    Group { legend: Vec::new(), figures: with_data(figures) }
}

fn ratio_bars(series: &Series<'_>, palette: &mut Palette, rows: &[&Row]) -> String {
    let across = Axis::new("ratio to the baseline", Scale::Linear, ratio);
    value_bars(LARGE.0, &across, &series.bars(palette, rows, |row| row.ratio, ratio), Some(1.0))
}

fn ratio_title(rows: &[&Row]) -> String {
    let mut names: Vec<_> = rows.iter().filter_map(|row| row.baseline.as_deref()).collect();
    names.dedup();
    match names[..] {
        [name] => format!("Ratio to the baseline: {name}"),
        _ => "Ratio to each row's baseline".to_owned(),
    }
}

/// A plot for each key of the rows, named by its key where there are several.
fn panels(
    rows: &[&Row],
    key: impl Fn(&Row) -> Option<String>,
    title: &str,
    mut plot: impl FnMut(&[&Row]) -> String,
) -> Vec<Figure> {
    let groups = grouped(rows, key);
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
        let crypto: Vec<_> = report.rows.iter().filter(|row| row.scenario == "crypto").collect();
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
