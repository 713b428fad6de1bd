//! Sections of reports about network paths.

mod papers;

use crate::net::columns;
use crate::report::figures::{Along, LARGE, Series, along, bar_chart, differ, figure};
use crate::report::plot::{Bar, Scale};
use crate::report::{Column, Group, Headline, Outcome, Row, Section, column, grouped, micros, section};
use sidecore_measure::about;
use sidecore_measure::export::{ExportError, export_about};
use sidecore_measure::files::Files;
use sidecore_report::About;

const CPU_BYTE: Along = ("CPU time per byte", Scale::Linear, columns::CPU_PER_BYTE);

pub(crate) const NET: Section = section(
    "net",
    "Net: a path",
    "Messages a second over a path, by size and number of connections, and what they cost. Packets and CPU time are those of the \
     near machine, others' work included.",
).plots(|rows| vec![loads(rows)]);

pub(crate) const PARTS: Section = section(
    "net-parts",
    "Net: where the CPU time of a packet goes",
    "CPU time for each packet of the near end by component, from samples: with both ends on this machine that of both.",
)
.plots(|rows| vec![packets(rows, kind)]);

// Its rows are not comparable with each other: no headline.
pub(crate) const LINK: Section = section(
    "link",
    "Link: a link with properties against how it is set",
    "What one TCP connection carries over a link without a rate, against what it is to carry and against veth. Of moderation: \
     packets that an interrupt announces and the time that it adds, against core's policy simulated on the same instants.",
).headline(|_, _| None);

pub(crate) const HOTI: Section = section(
    "net-hoti",
    "HOTI 2009: two interfaces",
    "What two links of this machine carry and cost that differ in what an access to a register takes: nothing, as on the \
     processor's chip, or 1 us, as behind a bus.",
).plots(|rows| vec![papers::links(rows)]);

pub(crate) const HOTI_WHERE: Section = section(
    "net-hoti-where",
    "HOTI 2009: where the time of a packet goes",
    "CPU time for each packet of the near end, by component, of both ends and of the link, whose threads count as the driver. No \
     processor sleeps meanwhile, so the other columns are not those of the table before.",
).plots(|rows| vec![packets(rows, |row| (row.text(column::OP).unwrap_or_default(), ""))]);

pub(crate) const HOTI_EFFECTS: Section = section(
    "net-hoti-effects",
    "HOTI 2009: from the chip to the bus",
    "How much a figure changes from the integrated interface to the discrete one, beside the change in the paper. \
     Intervals are each for itself.",
)
.plots(|rows| vec![papers::effects(rows)]);

pub(crate) const LHCB: Section = section(
    "net-lhcb",
    "LHCb: frame size and interrupt coalescence",
    "What a line carries that takes no time, and a line of 1 Gbit/s, and how long a question takes to be answered.",
)
.plots(|rows| vec![papers::links(rows)]);

pub(crate) const LHCB_LINKS: Section = section(
    "net-lhcb-links",
    "LHCb: TCP beside UDP",
    "Payload and CPU time for each byte on a line that takes no time: medians.",
);

pub(crate) const LHCB_EFFECTS: Section = section(
    "net-lhcb-effects",
    "LHCb: from small to large",
    "How much a figure changes with the frame size, the coalescence time or checksum offload, beside what the slides and their simulation say. \
     Intervals are each for itself.",
).plots(|rows| vec![papers::effects(rows)]);

pub(crate) const WHERE: Section = section(
    "net-where",
    "Where the time goes: a network path by component",
    "CPU time of all CPUs together, by what ran when it was sampled. Shares are of the work that is measured; idleness and \
     other programs stand apart. The ratio is the sum of the components by the CPU time that the kernel accounts.",
).plots(|rows| vec![components(rows)]).headline(|_, rows| largest(rows));

pub(crate) const TUNE: Section = section(
    "net-tune",
    "Tuning: what each setting does",
    "How much better the goal is with a change, against what is named beside it; from, to: at a confidence of 95 %. \
     What is taken back is compared with all that is recommended.",
)
.plots(|rows| vec![effects(rows), frontier(rows)])
.headline(|_, rows| recommended(rows));

pub(crate) const WHY: Section = section(
    "net-why",
    "Why: what limits the connection",
    "Causes with the part of the time that each limits a load. The notes have the evidence, and what helps.",
)
.headline(|_, rows| first_cause(rows));

pub(crate) const WHY_LOADS: Section = section(
    "net-why-loads",
    "Why: what it carried",
    "Payload of streams of 64 KiB writes, or of the watched connection; median of round trips of 64 bytes.",
);

pub(crate) static SECTIONS: [Section; 12] =
    [NET, PARTS, HOTI, HOTI_WHERE, HOTI_EFFECTS, LHCB, LHCB_LINKS, LHCB_EFFECTS, WHERE, TUNE, WHY, WHY_LOADS];

/// `path` are the settings that its figures depend on, for the header.
pub(super) fn export(title: &str, files: &Files, outcome: Outcome, path: String) -> Result<(), ExportError> {
    export_about(title, files, outcome, &SECTIONS, About { path, ..about::here() })
}

const BESIDE: [&str; 3] = ["sum", "elsewhere", "idle"];

fn components(rows: &[&Row]) -> Group {
    let is_part = |row: &&Row| row.text(columns::COMPONENT).is_some_and(|name| !BESIDE.contains(&name));
    let rows: Vec<_> = rows.iter().copied().filter(is_part).collect();
    let names: Vec<_> =
        grouped(&rows, |row| row.text(columns::COMPONENT)).into_iter().filter_map(|(name, _)| name).collect();
    let per_packet = rows.iter().all(|row| row.number(columns::US_PER_PACKET).is_some());
    let (along, title) = if per_packet {
        (("CPU time per packet", Scale::Linear, columns::US_PER_PACKET), "CPU time per packet, by component")
    } else {
        (("CPU time", Scale::Linear, columns::CPU_SECONDS), "CPU time, by component")
    };
    let series = Series::of(&rows, &[]);
    let stacked = |(name, rows): (String, Vec<&Row>)| {
        let colour = |row: &Row| names.iter().position(|known| Some(*known) == row.text(columns::COMPONENT));
        let parts: Vec<_> = rows.iter().filter_map(|row| Some((colour(row)?, row.number(along.2)?))).collect();
        Bar { name, text: along.2.writer()(parts.iter().map(|part| part.1).sum()), parts, range: None }
    };
    let bars: Vec<_> = grouped(&rows, |row| series.name(row)).into_iter().map(stacked).collect();
    let svg = bar_chart(2 * LARGE.0, along, &bars, None);
    Group { legend: names.iter().map(|name| ((*name).to_owned(), false)).collect(), figures: vec![figure(title, svg)] }
}

fn loads(rows: &[&Row]) -> Group {
    let mut series = Series::of(rows, &[column::OP, column::VARIANT, column::SIZE]);
    let figures = grouped(rows, kind).into_iter().map(|((op, variant), rows)| {
        let is_timed = rows.iter().any(|row| row.number(column::TOTAL_P50).is_some());
        let (what, shown) = if is_timed { ("Median latency", along::MEDIAN) } else { ("Payload", along::PAYLOAD) };
        let svg = if differ(&rows, column::SIZE) {
            series.line_plot(LARGE, &rows, along::SIZE, shown)
        } else {
            series.bar_plot(LARGE.0, &rows, (shown.0, Scale::Linear, shown.2), None)
        };
        figure(&format!("{what}, {op} {variant}"), svg)
    });
    let figures = figures.collect();
    Group { legend: series.names, figures }
}

fn kind(row: &Row) -> (&str, &str) {
    (row.text(column::OP).unwrap_or_default(), row.variant())
}

const PER_PACKET: [&Column; 10] = [
    columns::DRIVER_PER_PACKET,
    columns::PROTOCOL_PER_PACKET,
    columns::SOCKET_PER_PACKET,
    columns::BUFFERS_PER_PACKET,
    columns::COPY_PER_PACKET,
    columns::SCHEDULER_PER_PACKET,
    columns::ENTRY_PER_PACKET,
    columns::PROGRAM_PER_PACKET,
    columns::OTHER_PER_PACKET,
    columns::UNPLACED_PER_PACKET,
];

fn packets(rows: &[&Row], by: fn(&Row) -> (&str, &str)) -> Group {
    let of = |row: &Row| -> Vec<_> { PER_PACKET.iter().filter_map(|key| row.number(key)).enumerate().collect() };
    let rows: Vec<_> = rows.iter().copied().filter(|row| !of(row).is_empty()).collect();
    let along = ("CPU time per packet", Scale::Linear, columns::US_PER_PACKET);
    let figures = grouped(&rows, by).into_iter().map(|((op, variant), rows)| {
        let series = Series::of(&rows, &[]);
        let stacked = |row: &&Row| {
            let parts = of(row);
            Bar { name: series.name(row), text: micros(parts.iter().map(|part| part.1).sum()), parts, range: None }
        };
        let bars: Vec<_> = rows.iter().map(stacked).collect();
        let title = format!("CPU time per packet, {op} {variant}");
        figure(title.trim_end(), bar_chart(2 * LARGE.0, along, &bars, None))
    });
    let names = PER_PACKET.map(|key| key.place().1.unwrap_or_default().to_owned());
    Group { figures: figures.collect(), legend: names.map(|name| (name, false)).into() }
}

fn effects(rows: &[&Row]) -> Group {
    let rows: Vec<_> = rows.iter().copied().filter(|row| is_of(row, &["tried", "recommended"])).collect();
    let mut series = Series::of(&rows, &[]);
    let svg = series.bar_plot(2 * LARGE.0, &rows, along::RATIO, Some(1.0));
    Group { legend: Vec::new(), figures: vec![figure("How much better the goal is", svg)] }
}

fn frontier(rows: &[&Row]) -> Group {
    let rows: Vec<_> = rows.iter().copied().filter(|row| is_of(row, &["start", "recommended", "frontier"])).collect();
    let mut series = Series::of(&rows, &[column::VARIANT]);
    let payload = ("payload", Scale::Linear, column::MBIT_PER_S);
    let figures = vec![
        figure(
            "Payload against latency: up and left is better",
            series.line_plot(LARGE, &rows, along::MEDIAN, payload),
        ),
        figure("Payload against CPU time: up and left is better", series.line_plot(LARGE, &rows, CPU_BYTE, payload)),
    ];
    Group { legend: series.names, figures }
}

fn is_of(row: &Row, kinds: &[&str]) -> bool {
    row.text(column::OP).is_some_and(|kind| kinds.contains(&kind))
}

fn largest(rows: &[&Row]) -> Option<Headline> {
    let shares = rows.iter().filter_map(|row| Some((row.number(columns::CPU_SHARE)?, row)));
    let (_, row) = shares.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let words = |key: &'static Column| key.cell(row);
    let label = format!("of the CPU time goes into: {}", row.text(columns::COMPONENT)?);
    Some(Headline {
        value: words(columns::CPU_SHARE)?,
        label,
        detail: format!("95 % within {}", words(columns::SHARE_BOUNDS)?),
    })
}

fn first_cause(rows: &[&Row]) -> Option<Headline> {
    let row = rows.first()?;
    let label = format!("of the time limited by {}", row.variant());
    Some(Headline { value: columns::LIMITS.cell(row)?, label, detail: row.text(column::OP)?.to_owned() })
}

fn recommended(rows: &[&Row]) -> Option<Headline> {
    let row = rows.iter().find(|row| row.text(column::OP) == Some("recommended"))?;
    let words = |key: &'static Column| key.cell(row);
    let label = format!("the gain of what is recommended: {}", row.variant());
    Some(Headline { value: words(column::RATIO)?, label, detail: format!("95 % within {}", words(column::INTERVAL)?) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Times;

    fn figures(scenario: &str, rows: &[&Row]) -> Vec<Group> {
        SECTIONS.iter().find(|section| section.name == scenario).unwrap().figures(rows)
    }

    fn titles(groups: &[Group]) -> Vec<&str> {
        groups.iter().flat_map(|group| &group.figures).map(|figure| figure.title.as_str()).collect()
    }

    #[test]
    fn a_path_is_a_bar_of_its_components() {
        let row = |run: &str, component: &str, us: f64| {
            let row = Row::new("net-where", run).with(columns::COMPONENT, component).with(columns::US_PER_PACKET, us);
            row.with(columns::CPU_SECONDS, us)
        };
        let rows =
            [row("tcp", "copy", 3.0), row("tcp", "sum", 4.0), row("tcp", "idle", 50.0), row("udp", "driver", 1.0)];
        let group = &figures("net-where", &rows.iter().collect::<Vec<_>>())[0];
        assert_eq!(group.legend, [("copy".to_owned(), false), ("driver".to_owned(), false)]);
        assert_eq!(group.figures[0].title, "CPU time per packet, by component");
        let svg = &group.figures[0].svg;
        assert!(svg.contains("\n3.00 us\n") && svg.contains("\n1.00 us\n"), "{svg}");
        let unknown = row("tcp", "copy", f64::NAN).with(columns::CPU_SECONDS, 2.0);
        assert_eq!(titles(&figures("net-where", &[&unknown])), ["CPU time, by component"]);
    }

    #[test]
    fn a_path_has_curves_over_sizes_and_bars_of_what_was_taken_apart() {
        let row = |op: &str, size: u32| {
            Row::new("net", "send").with(column::OP, op).with(column::SIZE, size).with(column::MBIT_PER_S, 10.0)
        };
        let part = |op: &str, size| PER_PACKET.iter().fold(row(op, size), |row, key| row.with(key, 0.5));
        let times = Times { mean: 2.0, p50: 1.0, p99: 3.0 };
        let trip = Row::new("net", "round trip").with(column::OP, "tcp").with_times(column::TOTAL, Some(times));
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
    fn the_largest_component_speaks_for_a_path() {
        let row = |component: &str, share: f64| {
            let row =
                Row::new("net-where", "iperf3").with(columns::COMPONENT, component).with(columns::CPU_SHARE, share);
            row.with(columns::SHARE_LOW, share - 0.01).with(columns::SHARE_HIGH, share + 0.01)
        };
        let (a, b, sum) = (row("socket", 0.2), row("copy", 0.4), Row::new("net-where", "v").with(column::RATIO, 1.0));
        let headline = largest(&[&a, &b, &sum]).unwrap();
        assert_eq!((headline.value.as_str(), headline.detail.as_str()), ("40.0 %", "95 % within 39.0 % to 41.0 %"));
        assert!(headline.label.ends_with("copy"), "{headline:?}");
    }

    #[test]
    fn what_is_recommended_speaks_for_a_tuning() {
        let row =
            |op: &str, ratio: f64| Row::new("net-tune", "mtu 9000").with(column::OP, op).with(column::RATIO, ratio);
        let (alone, all) =
            (row("tried", 0.5), row("recommended", 2.0).with(column::RATIO_LOW, 1.5).with(column::RATIO_HIGH, 3.0));
        let found = recommended(&[&alone, &all]).unwrap();
        assert_eq!((found.value.as_str(), found.detail.as_str()), ("2.00 x", "95 % within 1.50 x to 3.00 x"));
        assert_eq!(recommended(&[&alone]), None);
    }
}
