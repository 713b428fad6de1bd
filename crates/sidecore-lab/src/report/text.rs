//! Tables for a terminal.

use super::format::clean;
use super::grid::Grid;
use super::{Report, scenario};

/// Width that tables keep to where they can.
const WIDTH: usize = 100;

impl Report {
    /// Tables for a terminal, 100 columns wide where that is possible.
    pub(crate) fn to_text(&self) -> String {
        let from = format!("{}, commit {}", clean(&self.machine), clean(&self.commit));
        let mut lines = vec![clean(&self.title), from];
        for (name, rows) in self.by_scenario() {
            let grid = Grid::of(&rows);
            let (drawn, dropped) = grid.drawn(WIDTH);
            lines.extend([String::new(), clean(scenario::words(name).0)]);
            lines.extend(grid.shared_in_words(str::to_owned));
            lines.extend([String::new(), drawn]);
            if !dropped.is_empty() {
                lines.push(wrapped(&format!("No room here, but in the other formats: {}", dropped.join(", "))));
            }
        }
        for (heading, items) in self.lists() {
            lines.extend([String::new(), heading.to_owned()]);
            lines.extend(items.iter().map(|item| format!("- {}", clean(item))));
        }
        lines.join("\n") + "\n"
    }
}

/// The words in lines of that width.
fn wrapped(text: &str) -> String {
    text.split(' ').fold(String::new(), |mut lines, word| {
        let used = lines.lines().last().map_or(0, |line| line.chars().count());
        if !lines.is_empty() {
            lines.push(if used + 1 + word.chars().count() <= WIDTH { ' ' } else { '\n' });
        }
        lines + word
    })
}

#[cfg(test)]
mod tests {
    use super::super::Row;
    use super::super::column::Key;
    use super::super::tests::{full_row, sample};
    use super::*;

    #[test]
    fn every_scenario_has_a_table_of_its_rows() {
        let report = sample();
        let text = report.to_text();
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
        let text = report.to_text();
        let table: Vec<_> = text.lines().filter(|line| !line.contains("All rows")).collect();
        assert!(table.iter().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("No room here, but in the other formats: empty polls"), "{text}");
        let sample = sample().to_text();
        assert!(sample.lines().all(|line| line.chars().count() <= WIDTH), "{sample}");
    }

    #[test]
    fn a_hostile_name_cannot_drive_the_terminal() {
        let rows = vec![Row::new("la\u{1b}ne", "a\rb").with(Key::Op, "\u{1b}]0;owned\u{7}")];
        let text = Report { rows, notes: vec!["\u{1b}[2J".into()], ..Report::default() }.to_text();
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }
}
