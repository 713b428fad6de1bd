//! Tables in Markdown.

use super::format::escaped;
use super::table::Table;
use super::{Report, Row, scenario};

/// The whole report as Markdown.
pub(crate) fn render(report: &Report) -> String {
    let from = format!("{}, commit {}", escaped(&report.machine), escaped(&report.commit));
    let mut lines = vec![format!("# {}", escaped(&report.title)), String::new(), from];
    for (name, rows) in report.by_scenario() {
        lines.extend(section(name, &rows));
    }
    lines.extend(list("Notes", &report.notes));
    lines.extend(list("Left out", &report.left_out));
    lines.join("\n") + "\n"
}

fn section(name: &str, rows: &[&Row]) -> Vec<String> {
    let table = Table::of(rows);
    let mut lines = heading(scenario::title(name));
    let reading = scenario::words(name).reading;
    if !reading.is_empty() {
        lines.extend([reading.to_owned(), String::new()]);
    }
    if let Some(shared) = table.shared_in_words(escaped) {
        lines.extend([shared, String::new()]);
    }
    lines.push(table.grid.table_in_markdown().trim_end().to_owned());
    lines
}

fn heading(text: &str) -> Vec<String> {
    vec![String::new(), format!("## {}", escaped(text)), String::new()]
}

fn list(title: &str, items: &[String]) -> Vec<String> {
    if items.is_empty() {
        return Vec::new();
    }
    heading(title).into_iter().chain(items.iter().map(|item| format!("- {}", escaped(item)))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::column::Key;
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn every_line_of_a_table_has_as_many_cells_as_its_header() {
        let text = render(&sample());
        let mut cells = None;
        for line in text.lines() {
            if !line.starts_with('|') {
                cells = None;
                continue;
            }
            let here = line.replace("\\|", "").matches('|').count();
            assert_eq!(*cells.get_or_insert(here), here, "{line}");
        }
        assert!(text.contains("| ---: |"), "{text}");
    }

    #[test]
    fn a_hostile_name_stays_in_its_cell() {
        let row = Row::new("lane", "v").with(Key::Op, "a|b <b>*x*</b>\n[l](u)");
        let text = render(&Report { rows: vec![row], ..Report::default() });
        assert!(text.contains(r"| a\|b \<b\>\*x\*\</b\>"), "{text}");
        assert!(text.contains(r"\[l\](u) |"), "{text}");
    }

    #[test]
    fn notes_and_gaps_are_listed() {
        let text = render(&sample());
        assert!(text.contains("\n## Notes\n\n- "), "{text}");
        assert!(text.contains("\n## Left out\n\n- "), "{text}");
    }
}
