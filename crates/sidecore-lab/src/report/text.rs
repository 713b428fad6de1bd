//! Tables for a terminal.

use super::format::clean;
use super::table::Table;
use super::{Report, Row, scenario};

/// Width that tables keep to where they can.
const WIDTH: usize = 100;

/// The whole report as text.
pub(crate) fn render(report: &Report) -> String {
    let from = format!("{}, commit {}", clean(&report.machine), clean(&report.commit));
    let mut lines = vec![clean(&report.title), from];
    for (name, rows) in report.by_scenario() {
        lines.extend(section(name, &rows));
    }
    lines.extend(list("Notes", &report.notes));
    lines.extend(list("Left out", &report.left_out));
    lines.join("\n") + "\n"
}

fn section(name: &str, rows: &[&Row]) -> Vec<String> {
    let table = Table::of(rows);
    let (drawn, dropped) = table.grid.drawn(WIDTH);
    let mut lines = vec![String::new(), clean(scenario::title(name))];
    lines.extend(table.shared_in_words(str::to_owned));
    lines.extend([String::new(), drawn]);
    if !dropped.is_empty() {
        lines.extend(wrapped(&format!("No room here, but in the other formats: {}", dropped.join(", "))));
    }
    lines
}

/// The words in lines of that width.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn list(heading: &str, items: &[String]) -> Vec<String> {
    if items.is_empty() {
        return Vec::new();
    }
    let items = items.iter().map(|item| format!("- {}", clean(item)));
    [String::new(), heading.to_owned()].into_iter().chain(items).collect()
}

#[cfg(test)]
mod tests {
    use super::super::column::Key;
    use super::super::tests::{full_row, sample};
    use super::*;

    #[test]
    fn every_scenario_has_a_table_of_its_rows() {
        let report = sample();
        let text = render(&report);
        for (name, rows) in report.by_scenario() {
            assert!(text.contains(scenario::title(name)), "{name} in\n{text}");
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
        let text = render(&report);
        let table: Vec<_> = text.lines().filter(|line| !line.contains("All rows")).collect();
        assert!(table.iter().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("No room here, but in the other formats: empty polls"), "{text}");
        let sample = render(&sample());
        assert!(sample.lines().all(|line| line.chars().count() <= WIDTH), "{sample}");
    }

    #[test]
    fn a_hostile_name_cannot_drive_the_terminal() {
        let rows = vec![Row::new("la\u{1b}ne", "a\rb").with(Key::Op, "\u{1b}]0;owned\u{7}")];
        let text = render(&Report { rows, notes: vec!["\u{1b}[2J".into()], ..Report::default() });
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }
}
