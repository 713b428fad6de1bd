//! A paper as a file: pairs of links that differ in one property, their loads, and published effects.

use super::contrast::Contrast;
use super::metric::Metric;
use crate::args::LinkProperties;
use crate::error::LabError;
use crate::net::link::Settings;
use crate::net::protocol::{Direction, Load, Transport};
use clap::Parser;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// Bytes of an IP packet that are not a datagram's payload, and Ethernet's overhead of a packet.
const HEADERS: u32 = 28;
const ETHERNET: u32 = 38;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Paper {
    /// Scenario of its rows. Those of its effects, parts and links have an ending.
    pub(super) scenario: String,
    pub(super) plan: Option<String>,
    pub(super) notes: Vec<String>,
    contrast: Vec<Pair>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    first: PaperLink,
    /// It is compared with the first.
    other: PaperLink,
    load: Vec<Spanned<PaperLoad>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PaperLink {
    pub(super) name: String,
    pub(super) link: Typed,
    /// Parameters of the plan for the same link. Without any, the plan has no such case.
    #[serde(default)]
    pub(super) plan: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PaperLoad {
    op: (Transport, Direction),
    /// Without any: datagrams fill a packet, at the pace of the line.
    #[serde(default)]
    sizes: Vec<usize>,
    connections: Vec<usize>,
    /// Whether `--quick` leaves it out.
    #[serde(default)]
    is_long: bool,
    /// Whether its metrics stand beside those of the link's other loads.
    #[serde(default)]
    pub(super) in_one_row: bool,
    /// Metrics without an effect.
    #[serde(default)]
    metrics: Vec<Metric>,
    #[serde(default)]
    pub(super) effects: Vec<Effect>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Effect {
    pub(super) name: String,
    pub(super) metric: Formula,
    /// The difference, us, and not the ratio.
    #[serde(default)]
    pub(super) is_difference: bool,
    pub(super) published: Option<Published>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Published {
    pub(super) first: f64,
    pub(super) other: f64,
    /// A file of `docs/published`; after `text: `, words of the paper.
    pub(super) source: String,
}

/// A metric, or the quotient of two.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Formula {
    pub(super) text: String,
    metrics: Vec<Metric>,
}

impl TryFrom<String> for Formula {
    type Error = LabError;

    fn try_from(text: String) -> Result<Self, LabError> {
        let metrics = text.splitn(2, '/').map(|name| Metric::try_from(name.to_owned())).collect::<Result<_, _>>()?;
        Ok(Self { text, metrics })
    }
}

/// A link in the options of `sidecore net link`.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Typed(pub(super) Settings);

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Options {
    #[command(flatten)]
    properties: LinkProperties,
}

impl TryFrom<String> for Typed {
    type Error = LabError;

    fn try_from(text: String) -> Result<Self, LabError> {
        let options = Options::try_parse_from(text.split_ascii_whitespace()).map_err(|error| {
            let said = error.to_string();
            let first = said.lines().next().unwrap_or_default();
            LabError::Usage(format!("{} among the options of `net link`", first.trim_start_matches("error: ")))
        })?;
        Settings::of(&options.properties).map(Self)
    }
}

impl Paper {
    /// `name` is that of the file, for errors.
    pub(super) fn read(name: &str, text: &str) -> Result<Self, LabError> {
        let wrong = |at: usize, why: &str| {
            let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
            LabError::Usage(format!("{name}:{line}: {why}"))
        };
        let read: Self =
            toml::from_str(text).map_err(|error| wrong(error.span().map_or(0, |at| at.start), error.message()))?;
        for pair in &read.contrast {
            for load in &pair.load {
                let all = pair.loads(load.get_ref()).flatten();
                let checked = all.into_iter().try_for_each(|load| load.check());
                checked.map_err(|why| wrong(load.span().start, &why.to_string()))?;
            }
        }
        Ok(read)
    }

    pub(super) fn contrasts(&self, quick: bool) -> Vec<Contrast<'_>> {
        let mut contrasts = Vec::new();
        for pair in &self.contrast {
            for load in pair.load.iter().map(Spanned::get_ref).filter(|load| !(quick && load.is_long)) {
                contrasts.extend(pair.loads(load).map(|both| Contrast::new(load, [&pair.first, &pair.other], both)));
            }
        }
        contrasts
    }
}

impl Pair {
    /// The load on each of the links, for all sizes and connections.
    fn loads<'p>(&'p self, load: &'p PaperLoad) -> impl Iterator<Item = [Load; 2]> + 'p {
        let sizes = load.sizes.iter().copied().map(Some).chain(load.sizes.is_empty().then_some(None));
        let both = |size, connections| [&self.first, &self.other].map(|link| load.on(&link.link.0, size, connections));
        sizes.flat_map(move |size| load.connections.iter().map(move |connections| both(size, *connections)))
    }
}

impl PaperLoad {
    fn on(&self, link: &Settings, size: Option<usize>, connections: usize) -> Load {
        let (transport, direction) = self.op;
        let pace = |bits: u64| bits as f64 / 8.0 / f64::from(link.mtu + ETHERNET);
        let rate = link.rate_bits_per_s.map(pace).filter(|_| size.is_none());
        let full = link.mtu.saturating_sub(HEADERS) as usize;
        Load { rate, ..Load::new(transport, direction, size.unwrap_or(full), connections) }
    }

    pub(super) fn metrics(&self) -> impl Iterator<Item = Metric> + '_ {
        self.metrics.iter().chain(self.effects.iter().flat_map(|effect| &effect.metric.metrics)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::papers::FILES;
    use std::fs;

    const GOOD: &str = r#"scenario = "net-hoti"
notes = []
[[contrast]]
first = { name = "one", link = "--no-offload" }
other = { name = "other", link = "--no-offload --mtu 9000" }
[[contrast.load]]
op = ["Udp", "Send"]
connections = [1]
effects = [{ name = "change", metric = "cpu_percent/udp_sent_mbit_per_s" }]
"#;

    #[test]
    fn a_bad_file_is_refused_with_its_line() {
        Paper::read("paper.toml", GOOD).unwrap();
        for (good, bad, why) in [
            ("notes = []", "notes = [", "paper.toml:"),
            ("notes = []", "", "paper.toml:1: missing field `notes`"),
            ("notes = []", "notes = []\ncolour = 1", "paper.toml:3: unknown field `colour`"),
            ("--no-offload\"", "--offload\"", "paper.toml:4: unexpected argument '--offload' found"),
            ("--mtu 9000", "--mtu 10", "paper.toml:5: --mtu is 68"),
            ("\"Send", "\"Shout", "paper.toml:7: unknown variant `Shout`"),
            ("cpu_percent/", "colour/", "paper.toml:9: no metric is called \"colour\""),
            ("[1]", "[65]", "paper.toml:6: there are 1 to 64 connections"),
            ("op =", "sizes = [70000]\nop =", "paper.toml:6: "),
        ] {
            let text = GOOD.replacen(good, bad, 1);
            let said = Paper::read("paper.toml", &text).unwrap_err().to_string();
            assert!(said.starts_with(why), "{bad}: {said}");
        }
    }

    #[test]
    fn datagrams_fill_a_packet_at_the_pace_of_the_line() {
        let text = GOOD.replace("--mtu 9000", "--mtu 9000 --rate-mbit 1000");
        let paper = Paper::read("paper.toml", &text).unwrap();
        let loads: Vec<_> = paper.contrast[0].loads(paper.contrast[0].load[0].get_ref()).flatten().collect();
        assert_eq!(loads.iter().map(|load| load.size).collect::<Vec<_>>(), [1_472, 8_972]);
        assert_eq!((loads[0].rate, loads[1].rate.map(f64::round)), (None, Some(13_830.0)));
    }

    /// The cell of a table whose rows or whose columns are links.
    fn cell(table: &str, link: &str, metric: &str) -> Option<f64> {
        let mut lines = table.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(','));
        let columns: Vec<_> = lines.next()?.collect();
        lines.find_map(|mut line| {
            let row = line.next()?;
            let column = columns.iter().position(|known| [link, metric].contains(known))?;
            [link, metric].contains(&row).then(|| line.nth(column - 1)?.parse().ok()).flatten()
        })
    }

    #[test]
    fn what_is_called_published_was_published() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/published/");
        let mut compared = 0;
        for (_, name, text) in FILES {
            for contrast in Paper::read(name, text).unwrap().contrasts(true) {
                for effect in &contrast.load.effects {
                    let Some(published) = effect.published.as_ref().filter(|from| !from.source.starts_with("text: "))
                    else {
                        continue;
                    };
                    let table = fs::read_to_string(folder.to_owned() + &published.source).unwrap();
                    for (side, value) in contrast.sides.iter().zip([published.first, published.other]) {
                        let link = side.link.name.trim_end_matches(", free line");
                        let mut known = effect.metric.text.split('/').map(|metric| cell(&table, link, metric).unwrap());
                        let first = known.next().unwrap();
                        let expected = first / known.next().unwrap_or(1.0);
                        assert!((value / expected - 1.0).abs() < 1e-3, "{}: {value} and {expected}", effect.name);
                        compared += 1;
                    }
                }
            }
        }
        assert_eq!(compared, 22);
    }

    #[test]
    fn each_effect_has_one_name_and_runs_also_in_short() {
        for (_, name, text) in FILES {
            let paper = Paper::read(name, text).unwrap();
            let [short, long] = [true, false].map(|quick| {
                let all = paper.contrasts(quick);
                let names = all.iter().flat_map(|contrast| &contrast.load.effects).map(|effect| effect.name.clone());
                names.collect::<Vec<_>>()
            });
            assert_eq!(short, long, "{name}");
            let mut once = long.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), long.len(), "{name}");
        }
    }
}
