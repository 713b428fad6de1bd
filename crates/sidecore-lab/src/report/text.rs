//! Tables for a terminal.

use super::format::clean;
use super::grid::Grid;
use super::{CAVEATS, Report, scenario};
use rustix::termios::tcgetwinsize;
use std::io::stdout;
use std::ops::RangeInclusive;

/// Default width, and that of tables without a terminal.
const WIDTH: usize = 100;
/// Widths of terminals that tables adapt to.
const WIDTHS: RangeInclusive<usize> = 60..=240;

/// The width of the terminal on standard output, if there is one.
pub(crate) fn width() -> usize {
    let columns = tcgetwinsize(stdout()).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    columns.map_or(WIDTH, |columns| columns.clamp(*WIDTHS.start(), *WIDTHS.end()))
}

impl Report {
    /// Tables of `width` columns, if possible.
    pub(crate) fn to_text(&self, width: usize) -> String {
        let wrapped = |text: &str| wrapped(text, width);
        let mut lines = vec![clean(&self.title)];
        lines.extend(self.about.lines().iter().map(|line| wrapped(&clean(line))));
        let caveats = self.caveats_in_words();
        if !caveats.is_empty() {
            lines.extend([String::new(), CAVEATS.to_owned()]);
            lines.extend(caveats.iter().map(|caveat| wrapped(&format!("- {}", clean(caveat)))));
        }
        for (name, rows) in self.by_scenario() {
            let grid = Grid::of(&rows);
            let (drawn, dropped) = grid.drawn(width);
            lines.extend([String::new(), clean(scenario::words(name).0)]);
            lines.extend(grid.shared_in_words(str::to_owned).map(|shared| wrapped(&shared)));
            lines.extend([String::new(), drawn]);
            if !dropped.is_empty() {
                lines.push(wrapped(&format!("No room here, but in the other formats: {}", dropped.join(", "))));
            }
        }
        for (heading, items) in self.lists() {
            lines.extend([String::new(), heading.to_owned()]);
            lines.extend(items.iter().map(|item| wrapped(&format!("- {}", clean(item)))));
        }
        lines.join("\n") + "\n"
    }
}

fn wrapped(text: &str, width: usize) -> String {
    text.split(' ').fold(String::new(), |mut lines, word| {
        let used = lines.lines().last().map_or(0, |line| line.chars().count());
        if !lines.is_empty() {
            lines.push(if used + 1 + word.chars().count() <= width { ' ' } else { '\n' });
        }
        lines + word
    })
}

#[cfg(test)]
mod tests {
    use super::super::column::Key;
    use super::super::tests::{full_row, sample};
    use super::super::{Caveat, Reason, Row, Times, caveat};
    use super::*;

    #[test]
    fn every_scenario_has_a_table_of_its_rows() {
        let report = sample();
        let text = report.to_text(WIDTH);
        for (name, rows) in report.by_scenario() {
            assert!(text.contains(scenario::words(name).0), "{name} in\n{text}");
            for row in rows {
                assert!(text.contains(row.variant()), "{} in\n{text}", row.variant());
            }
        }
        assert!(text.contains("17.2 M/s"), "{text}");
        assert!(text.contains("Left out\n- "), "{text}");
    }

    #[test]
    fn tables_keep_to_the_width_and_say_which_columns_did_not_fit() {
        let report = Report { rows: vec![full_row(), full_row()], ..Report::default() };
        let text = report.to_text(WIDTH);
        let table: Vec<_> = text.lines().filter(|line| !line.contains("All rows")).collect();
        assert!(table.iter().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("No room here, but in the other formats: empty polls"), "{text}");
        for width in [80, WIDTH] {
            let sample = sample().to_text(width);
            assert!(sample.lines().all(|line| line.chars().count() <= width), "{sample}");
        }
    }

    #[test]
    fn a_narrow_table_keeps_spread_and_doubt() {
        let times = Times { mean: 1_234.5, p50: 1_230.0, p99: 45_678.9 };
        let row = |variant: &str, spread: f64| {
            let row = Row::new("lane", variant).with(Key::Op, "aes-256-gcm-decrypt").with(Key::Size, spread);
            let row = row.with_times(Key::TotalMean, Some(times)).with_times(Key::QueueMean, Some(times));
            let row = row.with(Key::OpsPerS, 1e6).with(Key::Ratio, 1.5).with(Key::Baseline, "a long baseline's name");
            row.with(Key::Spread, spread).with(Key::Doubts, caveat::to_json(&[Caveat::new(Reason::Spread, "20 %")]))
        };
        let rows = vec![row("one", 0.2), row("other", 0.4), Row::new("lane", "plain")];
        let text = Report { rows, ..Report::default() }.to_text(80);
        let heading = text.lines().find(|line| line.starts_with("variant")).unwrap();
        assert!(heading.contains("spread") && heading.contains("doubt"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_hostile_name_cannot_drive_the_terminal() {
        let rows = vec![Row::new("la\u{1b}ne", "a\rb").with(Key::Op, "\u{1b}]0;owned\u{7}")];
        let text = Report { rows, notes: vec!["\u{1b}[2J".into()], ..Report::default() }.to_text(WIDTH);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }
}
