//! The plots of each scenario and their contents.

mod papers;
mod series;

use super::column::Key;
use super::format::{counted, micros, plain};
use super::plot::{Bar, Scale, Size};
use super::{Row, grouped};
use series::{Along, Series, bar_chart, differ};

/// Plots that share a legend.
#[derive(Debug)]
pub(crate) struct Group {
    /// Names in the order of the colours, each with whether it is dashed: baselines are.
    pub(crate) legend: Vec<(String, bool)>,
    pub(crate) figures: Vec<Figure>,
}

#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) title: String,
    /// The drawing; empty without data.
    pub(crate) svg: String,
}

/// The plots for the rows of that scenario, without empty ones.
pub(crate) fn figures(scenario: &str, rows: &[&Row]) -> Vec<Group> {
    let mut groups = match scenario {
        "lane" => vec![exchanges(rows), ratios(rows)],
        "crypto" | "keys" => vec![by_operation(rows)],
        "sockets" => vec![by_connections(rows), payload_curves(rows)],
        // Rates of unrelated operations are not comparable.
        "keys-reach" | "keys-packaged" => vec![ratios(rows)],
        "keys-waiting" => vec![bare(rows), stages(&short(rows))],
        "ocf" => vec![by_size(rows)],
        "notify" => vec![against_load(rows), stages(rows)],
        "balance" => vec![by_policy(rows)],
        "scaling" => vec![by_number(rows)],
        "net" => vec![loads(rows)],
        "net-parts" => vec![packets(rows)],
        "net-where" => vec![components(rows)],
        "net-hoti" | "net-lhcb" => vec![papers::links(rows)],
        "net-hoti-where" => vec![papers::components(rows)],
        "net-hoti-effects" | "net-lhcb-effects" => vec![papers::effects(rows)],
        "net-tune" => vec![effects(rows), frontier(rows)],
        _ => vec![bare(rows)],
    };
    for group in &mut groups {
        group.figures.retain(|figure| !figure.svg.is_empty());
    }
    groups.retain(|group| !group.figures.is_empty());
    groups
}

const SMALL: Size = (364, 290);
const LARGE: Size = (556, 330);
/// Longest mean time to plot, us: longer ones would make the others invisible.
const LONG: f64 = 3000.0;
/// Load whose stage times are shown if there are several: busy, not saturated.
const TYPICAL_LOAD: f64 = 0.5;

const SIZE: Along = ("message size", Scale::Log2, Key::Size);
const LOAD: Along = ("offered load, share of capacity", Scale::Linear, Key::Load);
const RATE: Along = ("operations a second", Scale::Linear, Key::OpsPerS);
const PAYLOAD: Along = ("payload", Scale::Log10, Key::MbitPerS);
const RATIO: Along = ("ratio, more is better", Scale::Linear, Key::Ratio);
const RATIO_OF_TIMES: Along = ("ratio, less is better", Scale::Linear, Key::Ratio);
const RATIO_OF_BOTH: Along = ("ratio", Scale::Linear, Key::Ratio);
const MEDIAN: Along = ("latency", Scale::Log10, Key::TotalP50);
const TAIL: Along = ("latency", Scale::Log10, Key::TotalP99);
const CPU_BYTE: Along = ("CPU time per byte", Scale::Linear, Key::CpuPerByte);
const CPU: Along = ("CPU time per operation", Scale::Log10, Key::ClientCpu);

/// Crypto: a small plot for each operation, over sizes if there are several.
fn by_operation(rows: &[&Row]) -> Group {
    let mut series = Series::of(rows, &[Key::Op, Key::Size, Key::Load]);
    let figures = grouped(rows, |row| row.text(Key::Op))
        .into_iter()
        .map(|(op, rows)| figure(op.unwrap_or("all operations"), rates(&mut series, &rows)));
    let figures = figures.collect();
    Group { legend: series.names, figures }
}

/// Sockets: the same for each number of connections, with a line for each way of sending.
fn by_connections(rows: &[&Row]) -> Group {
    let mut series = Series::of(rows, &[Key::Op, Key::Size, Key::Load, Key::Clients]);
    let panels = grouped(rows, |row| (row.text(Key::Op), row.number(Key::Clients)));
    let figures = panels.into_iter().map(|((op, clients), rows)| {
        let clients = clients.map_or_else(String::new, |clients| format!(", {}", counted(clients, "connection")));
        figure(&format!("{}{clients}", op.unwrap_or("all traffic")), rates(&mut series, &rows))
    });
    let figures = figures.collect();
    Group { legend: series.names, figures }
}

/// Operations a second over sizes if there are several, otherwise a bar for each row.
fn rates(series: &mut Series<'_>, rows: &[&Row]) -> String {
    let drawn = series.lines(rows, Key::Size, Key::OpsPerS);
    if drawn.iter().any(|line| line.points.windows(2).any(|pair| pair[0].0 < pair[1].0)) {
        series.line_plot(SMALL, rows, SIZE, (RATE.0, Scale::Log10, RATE.2))
    } else {
        series.bar_plot(SMALL.0, rows, RATE, None)
    }
}

/// Sockets: payload over sizes on one connection, in one direction and as round trips, as in `NetPIPE`'s plots.
fn payload_curves(rows: &[&Row]) -> Group {
    let mut rows = rows.to_vec();
    rows.retain(|row| row.number(Key::Clients) == Some(1.0));
    let mut series = Series::of(&rows, &[Key::Op, Key::Size]);
    let curves = [("stream", "Payload on one connection"), ("echo", "Payload of echoes on one connection")];
    let figures = curves.map(|(op, title)| {
        let rows: Vec<_> = rows.iter().copied().filter(|row| row.text(Key::Op) == Some(op)).collect();
        figure(title, series.line_plot(LARGE, &rows, SIZE, PAYLOAD))
    });
    Group { legend: series.names, figures: figures.into() }
}

/// OCF: payload over sizes, a line for each number of clients, a plot for each set of devices. A baseline shares the
/// colour of its comparison.
fn by_size(rows: &[&Row]) -> Group {
    let baseline = rows.iter().find_map(|row| row.text(Key::Baseline));
    let baseline = baseline.filter(|name| rows.iter().any(|row| row.variant() == *name));
    let dashed = baseline.map_or_else(String::new, |name| format!("; dashed: {name}"));
    let shown = [Key::Devices, Key::Size, Key::Load, Key::Notify, Key::Variant];
    let mut series = Series::of(rows, if baseline.is_some() { &shown } else { &shown[..3] });
    let figures = panels(rows, Key::Devices, &format!("Payload by message size{dashed}"), |rows| {
        series.line_plot(LARGE, rows, SIZE, ("payload", Scale::Linear, Key::MbitPerS))
    });
    Group { legend: series.names, figures }
}

/// Scaling: a line over the number of clients, or over devices if only these differ.
fn by_number(rows: &[&Row]) -> Group {
    let key = if differ(rows, Key::Clients) { Key::Clients } else { Key::Devices };
    let name = key.column().header;
    let mut series = Series::of(rows, &[Key::Op, Key::Notify, key]);
    // A single point is no line.
    let rows = if differ(rows, key) { rows } else { &[] };
    let figures = panels(rows, Key::Op, &format!("Operations a second by {name}"), |rows| {
        series.line_plot(LARGE, rows, (name, Scale::Linear, key), RATE)
    });
    Group { legend: series.names, figures }
}

/// Notify: latency and CPU time against load, and against each other.
fn against_load(rows: &[&Row]) -> Group {
    let rows: Vec<_> = rows.iter().copied().filter(|row| row.number(Key::Load).is_some()).collect();
    let mut series = Series::of(&rows, &[Key::Load]);
    let plots = [
        ("Median latency", LOAD, MEDIAN),
        ("Latency, 99th percentile", LOAD, TAIL),
        ("CPU time, clients and service together", LOAD, CPU),
        ("Median latency against CPU time", CPU, MEDIAN),
    ];
    let figures = plots.map(|(title, x, y)| figure(title, series.line_plot(LARGE, &rows, x, y))).into();
    Group { legend: series.names, figures }
}

/// The rows whose times are visible in a common plot.
fn short<'r>(rows: &[&'r Row]) -> Vec<&'r Row> {
    rows.iter().copied().filter(|row| row.number(Key::TotalMean).is_some_and(|mean| mean < LONG)).collect()
}

/// Consecutive stages of a request, with their mean times.
const STAGES: [(&str, Key); 3] = [
    ("queue: submitted to handed over", Key::QueueMean),
    ("device: handed over to reply taken", Key::DeviceMean),
    ("deliver: reply taken to received", Key::DeliverMean),
];

/// Notify: mean stage times of each policy at one load.
fn stages(rows: &[&Row]) -> Group {
    let is_staged = |row: &&Row| STAGES.iter().all(|(_, key)| row.number(*key).is_some());
    let mut rows: Vec<_> = rows.iter().copied().filter(is_staged).collect();
    let far = |load: &f64| (load - TYPICAL_LOAD).abs();
    let loads = rows.iter().filter_map(|row| row.number(Key::Load));
    let typical = loads.min_by(|a, b| far(a).total_cmp(&far(b)));
    rows.retain(|row| row.number(Key::Load) == typical);
    let series = Series::of(&rows, &[]);
    let stacked = |row: &&Row| {
        let parts: Vec<_> = STAGES.iter().filter_map(|(_, key)| row.number(*key)).enumerate().collect();
        Bar { name: series.name(row), text: micros(parts.iter().map(|part| part.1).sum()), parts, range: None }
    };
    let bars: Vec<_> = rows.iter().map(stacked).collect();
    let at = typical.map_or(String::new(), |load| format!(", at load {}", plain(load)));
    let svg = bar_chart(2 * LARGE.0, ("mean time", Scale::Linear, Key::TotalMean), &bars, None);
    let legend = STAGES.map(|(name, _)| (name.to_owned(), false)).into();
    Group { legend, figures: vec![figure(&format!("Where the time goes{at}"), svg)] }
}

/// Rows that are not components of a path's CPU time.
const BESIDE: [&str; 3] = ["sum", "elsewhere", "idle"];

/// A network path: a bar for each run, composed of its components.
fn components(rows: &[&Row]) -> Group {
    let is_part = |row: &&Row| row.text(Key::Component).is_some_and(|name| !BESIDE.contains(&name));
    let rows: Vec<_> = rows.iter().copied().filter(is_part).collect();
    let names: Vec<_> =
        grouped(&rows, |row| row.text(Key::Component)).into_iter().filter_map(|(name, _)| name).collect();
    let per_packet = rows.iter().all(|row| row.number(Key::UsPerPacket).is_some());
    let (along, title) = if per_packet {
        (("CPU time per packet", Scale::Linear, Key::UsPerPacket), "CPU time per packet, by component")
    } else {
        (("CPU time", Scale::Linear, Key::CpuSeconds), "CPU time, by component")
    };
    let series = Series::of(&rows, &[]);
    let stacked = |(name, rows): (String, Vec<&Row>)| {
        let colour = |row: &Row| names.iter().position(|known| Some(*known) == row.text(Key::Component));
        let parts: Vec<_> = rows.iter().filter_map(|row| Some((colour(row)?, row.number(along.2)?))).collect();
        Bar { name, text: along.2.column().writer()(parts.iter().map(|part| part.1).sum()), parts, range: None }
    };
    let bars: Vec<_> = grouped(&rows, |row| series.name(row)).into_iter().map(stacked).collect();
    let svg = bar_chart(2 * LARGE.0, along, &bars, None);
    Group { legend: names.iter().map(|name| ((*name).to_owned(), false)).collect(), figures: vec![figure(title, svg)] }
}

/// A path under load: payload, or latency of round trips, over sizes if there are several; a plot for each kind of
/// traffic.
fn loads(rows: &[&Row]) -> Group {
    let mut series = Series::of(rows, &[Key::Op, Key::Variant, Key::Size]);
    let figures = grouped(rows, kind).into_iter().map(|((op, variant), rows)| {
        let is_timed = rows.iter().any(|row| row.number(Key::TotalP50).is_some());
        let (what, shown) = if is_timed { ("Median latency", MEDIAN) } else { ("Payload", PAYLOAD) };
        let svg = if differ(&rows, Key::Size) {
            series.line_plot(LARGE, &rows, SIZE, shown)
        } else {
            series.bar_plot(LARGE.0, &rows, (shown.0, Scale::Linear, shown.2), None)
        };
        figure(&format!("{what}, {op} {variant}"), svg)
    });
    let figures = figures.collect();
    Group { legend: series.names, figures }
}

/// The kind of traffic of a row, and its direction.
fn kind(row: &Row) -> (&str, &str) {
    (row.text(Key::Op).unwrap_or_default(), row.variant())
}

/// The components of a network path in rows of loads.
const PER_PACKET: [Key; 10] = [
    Key::DriverPerPacket,
    Key::ProtocolPerPacket,
    Key::SocketPerPacket,
    Key::BuffersPerPacket,
    Key::CopyPerPacket,
    Key::SchedulerPerPacket,
    Key::EntryPerPacket,
    Key::ProgramPerPacket,
    Key::OtherPerPacket,
    Key::UnplacedPerPacket,
];

/// A path under load: a bar for each sampled load, composed of its components; a chart for each kind of traffic.
fn packets(rows: &[&Row]) -> Group {
    let of = |row: &Row| -> Vec<_> { PER_PACKET.iter().filter_map(|key| row.number(*key)).enumerate().collect() };
    let rows: Vec<_> = rows.iter().copied().filter(|row| !of(row).is_empty()).collect();
    let along = ("CPU time per packet", Scale::Linear, Key::UsPerPacket);
    let figures = grouped(&rows, kind).into_iter().map(|((op, variant), rows)| {
        let series = Series::of(&rows, &[]);
        let stacked = |row: &&Row| {
            let parts = of(row);
            Bar { name: series.name(row), text: micros(parts.iter().map(|part| part.1).sum()), parts, range: None }
        };
        let bars: Vec<_> = rows.iter().map(stacked).collect();
        let title = format!("CPU time per packet, {op} {variant}");
        figure(&title, bar_chart(2 * LARGE.0, along, &bars, None))
    });
    let names = PER_PACKET.map(|key| key.column().place().1.unwrap_or_default().to_owned());
    Group { figures: figures.collect(), legend: names.map(|name| (name, false)).into() }
}

/// Balance: a bar for each policy's ratio, and its 99th percentile against load; both for each mix.
fn by_policy(rows: &[&Row]) -> Group {
    // If the variant differs from the policy, it is the mix of requests.
    let mixes = rows.iter().any(|row| row.text(Key::Balance).is_some_and(|policy| policy != row.variant()));
    let apart = [Key::Load, Key::Variant, Key::Devices, Key::Size];
    let mut series = Series::of(rows, if mixes { &apart } else { &apart[..1] });
    // Without mixes all rows share one panel: none of them has this key.
    let mix = if mixes { Key::Variant } else { Key::Limit };
    let mut figures = panels(rows, mix, &ratio_title(rows), |rows| series.bar_plot(LARGE.0, rows, RATIO, Some(1.0)));
    figures.extend(panels(rows, mix, "Latency, 99th percentile", |rows| series.line_plot(LARGE, rows, LOAD, TAIL)));
    Group { legend: series.names, figures }
}

/// Tuning: effects of single changes, and of the recommended ones.
fn effects(rows: &[&Row]) -> Group {
    let rows: Vec<_> = rows.iter().copied().filter(|row| is_of(row, &["alone", "recommended"])).collect();
    let mut series = Series::of(&rows, &[]);
    let svg = series.bar_plot(2 * LARGE.0, &rows, RATIO, Some(1.0));
    Group { legend: Vec::new(), figures: vec![figure("How much better the goal is", svg)] }
}

/// Tuning: points that no other one beats in all figures, with the original and the recommended settings.
fn frontier(rows: &[&Row]) -> Group {
    let rows: Vec<_> = rows.iter().copied().filter(|row| is_of(row, &["start", "recommended", "frontier"])).collect();
    let mut series = Series::of(&rows, &[Key::Variant]);
    let payload = ("payload", Scale::Linear, Key::MbitPerS);
    let figures = vec![
        figure("Payload against latency: up and left is better", series.line_plot(LARGE, &rows, MEDIAN, payload)),
        figure("Payload against CPU time: up and left is better", series.line_plot(LARGE, &rows, CPU_BYTE, payload)),
    ];
    Group { legend: series.names, figures }
}

fn is_of(row: &Row, kinds: &[&str]) -> bool {
    row.text(Key::Op).is_some_and(|kind| kinds.contains(&kind))
}

/// Other scenarios and those of plans: bars of rates, and of ratios, labelled with names.
fn bare(rows: &[&Row]) -> Group {
    let rates = figure("Operations a second", Series::of(rows, &[]).bar_plot(LARGE.0, rows, RATE, None));
    let Group { figures, .. } = ratios(rows);
    Group { legend: Vec::new(), figures: [rates].into_iter().chain(figures).collect() }
}

/// Lane: separate plots for round trips and for pipelined messages.
fn exchanges(rows: &[&Row]) -> Group {
    let figures = grouped(rows, |row| row.number(Key::Jobs)).into_iter().map(|(jobs, rows)| {
        let title = match jobs {
            Some(1.0) => "Round trips a second, one after the other".to_owned(),
            Some(jobs) => format!("Messages a second, {jobs} in flight"),
            None => "Operations a second".to_owned(),
        };
        figure(&title, Series::of(&rows, &[Key::Jobs]).bar_plot(LARGE.0, &rows, RATE, None))
    });
    Group { legend: Vec::new(), figures: figures.collect() }
}

/// Bars of ratios, separately for rates, where more is better, and for times.
fn ratios(rows: &[&Row]) -> Group {
    let rows: Vec<_> = rows.iter().copied().filter(|row| row.number(Key::Ratio).is_some()).collect();
    let figures = grouped(&rows, |row| row.text(Key::RatioBetter)).into_iter().map(|(better, rows)| {
        let along = match better {
            Some("more") => RATIO,
            Some(_) => RATIO_OF_TIMES,
            None => RATIO_OF_BOTH,
        };
        figure(&ratio_title(&rows), Series::of(&rows, &[]).bar_plot(LARGE.0, &rows, along, Some(1.0)))
    });
    Group { legend: Vec::new(), figures: figures.collect() }
}

fn ratio_title(rows: &[&Row]) -> String {
    let mut names: Vec<_> = rows.iter().filter_map(|row| row.text(Key::Baseline)).collect();
    names.dedup();
    match names[..] {
        [name] => format!("Ratio to the baseline: {name}"),
        _ => "Ratio to each row's baseline".to_owned(),
    }
}

/// A plot for each value of the key. Several ones are named by it.
fn panels(rows: &[&Row], key: Key, title: &str, mut plot: impl FnMut(&[&Row]) -> String) -> Vec<Figure> {
    let groups = grouped(rows, |row| row.text(key));
    let alone = groups.len() == 1;
    let figures = groups.into_iter().map(|(key, rows)| {
        let title = key.filter(|_| !alone).map_or_else(|| title.to_owned(), |key| format!("{title}, {key}"));
        figure(&title, plot(&rows))
    });
    figures.collect()
}

fn figure(title: &str, svg: String) -> Figure {
    Figure { title: title.to_owned(), svg }
}

#[cfg(test)]
mod tests {
    use super::super::Times;
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
                "lane" => &[
                    "Round trips a second, one after the other",
                    "Messages a second, 128 in flight",
                    "Ratio to the baseline: bare ping-pong",
                    "Ratio to the baseline: bare echo",
                ],
                "crypto" => &["aes-256-gcm", "sha-256", "rsa-2048-sign"],
                "ocf" => &["Payload by message size, 4 hifn-7751", "Payload by message size, 4 bcm-5820"],
                "notify" => &[
                    "Median latency",
                    "Latency, 99th percentile",
                    "CPU time, clients and service together",
                    "Median latency against CPU time",
                    "Where the time goes, at load 0.5",
                ],
                "balance" => &["Ratio to the baseline: linear program", "Latency, 99th percentile"],
                _ => &["Operations a second by clients"],
            };
            assert_eq!(titles(&groups), expected, "{name}");
        }
    }

    #[test]
    fn sockets_get_a_curve_one_way_and_one_there_and_back() {
        let row = |op: &str, clients: u32, size: u32| {
            let row = Row::new("sockets", "direct").with(Key::Op, op).with(Key::Clients, clients).with(Key::Size, size);
            row.with(Key::OpsPerS, 1e3).with(Key::MbitPerS, f64::from(size) * 8e-3)
        };
        let rows: Vec<_> = ["stream", "echo"].iter().flat_map(|op| [row(op, 1, 64), row(op, 1, 128)]).collect();
        let all: Vec<_> = rows.iter().collect();
        let curves = ["Payload on one connection", "Payload of echoes on one connection"];
        let found = figures("sockets", &all);
        assert_eq!(titles(&found)[..2], ["stream, 1 connection", "echo, 1 connection"]);
        assert_eq!(titles(&found)[2..], curves);
        let several = [row("echo", 4, 64), row("echo", 4, 128)];
        assert_eq!(titles(&figures("sockets", &several.iter().collect::<Vec<_>>())), ["echo, 4 connections"]);
    }

    #[test]
    fn no_chart_shows_ratios_of_times_beside_ratios_of_rates() {
        let report = sample();
        let lane: Vec<_> = report.rows.iter().filter(|row| row.scenario() == "lane").collect();
        let charts = ratios(&lane).figures;
        let words = |figure: &Figure| ["more is better", "less is better"].map(|words| figure.svg.contains(words));
        assert_eq!(charts.iter().map(words).collect::<Vec<_>>(), [[false, true], [true, false]]);
        // All other charts of the bench name the better direction, and only one.
        for (name, rows) in report.by_scenario() {
            for figure in figures(name, &rows).iter().flat_map(|group| &group.figures) {
                assert!(words(figure).contains(&true) && words(figure).contains(&false), "{name}: {}", figure.title);
            }
        }
    }

    #[test]
    fn a_baseline_is_dashed_in_the_legend() {
        let report = sample();
        let crypto: Vec<_> = report.rows.iter().filter(|row| row.scenario() == "crypto").collect();
        let legend = &figures("crypto", &crypto)[0].legend;
        let dashed: Vec<_> = legend.iter().filter(|(_, dashed)| *dashed).map(|(name, _)| name.as_str()).collect();
        assert!(dashed.iter().all(|name| name.starts_with("in process")) && !dashed.is_empty(), "{legend:?}");
    }

    #[test]
    fn a_path_is_a_bar_of_its_components() {
        let row = |run: &str, component: &str, us: f64| {
            let row = Row::new("net-where", run).with(Key::Component, component).with(Key::UsPerPacket, us);
            row.with(Key::CpuSeconds, us)
        };
        let rows =
            [row("tcp", "copy", 3.0), row("tcp", "sum", 4.0), row("tcp", "idle", 50.0), row("udp", "driver", 1.0)];
        let group = &figures("net-where", &rows.iter().collect::<Vec<_>>())[0];
        assert_eq!(group.legend, [("copy".to_owned(), false), ("driver".to_owned(), false)]);
        assert_eq!(group.figures[0].title, "CPU time per packet, by component");
        let svg = &group.figures[0].svg;
        assert!(svg.contains("\n3.00 us\n") && svg.contains("\n1.00 us\n"), "{svg}");
        let unknown = row("tcp", "copy", f64::NAN).with(Key::CpuSeconds, 2.0);
        assert_eq!(titles(&figures("net-where", &[&unknown])), ["CPU time, by component"]);
    }

    #[test]
    fn a_path_has_curves_over_sizes_and_bars_of_what_was_taken_apart() {
        let row = |op: &str, size: u32| {
            Row::new("net", "send").with(Key::Op, op).with(Key::Size, size).with(Key::MbitPerS, 10.0)
        };
        let part = |op: &str, size| PER_PACKET.iter().fold(row(op, size), |row, key| row.with(*key, 0.5));
        let times = Times { mean: 2.0, p50: 1.0, p99: 3.0 };
        let trip = Row::new("net", "round trip").with(Key::Op, "tcp").with_times(Key::TotalMean, Some(times));
        let rows = [row("tcp", 64), row("tcp", 128), row("udp", 64), trip];
        let groups = figures("net", &rows.iter().collect::<Vec<_>>());
        let loads = ["Payload, tcp send", "Payload, udp send", "Median latency, tcp round trip"];
        assert_eq!(titles(&groups), loads);
        assert!(
            groups[0].figures[0].svg.contains("message size") && !groups[0].figures[1].svg.contains("message size")
        );
        let rows = [part("tcp", 64), part("tcp", 128), part("udp", 64)];
        let groups = figures("net-parts", &rows.iter().collect::<Vec<_>>());
        assert_eq!(titles(&groups), ["CPU time per packet, tcp send", "CPU time per packet, udp send"]);
        assert_eq!((groups[0].legend.len(), groups[0].legend[9].0.as_str()), (10, "unplaced"));
        assert_eq!(groups[0].figures[0].svg.matches("\n5.00 us\n").count(), 2);
    }

    #[test]
    fn rows_without_figures_make_no_plots() {
        for name in ["lane", "crypto", "ocf", "notify", "balance", "scaling", "sockets", "net", "net-where", "plan"] {
            assert!(figures(name, &[&Row::new(name, "bare")]).is_empty(), "{name}");
        }
    }
}
