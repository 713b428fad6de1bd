//! Tables in Markdown.

use super::format::escaped;
use super::grid::Grid;
use super::{CAVEATS, Report, scenario};

impl Report {
    /// Includes every column that has data.
    pub(crate) fn to_markdown(&self) -> String {
        let mut lines = vec![format!("# {}", escaped(&self.title)), String::new()];
        lines.extend(self.about.lines().iter().map(|line| format!("- {}", escaped(line))));
        let caveats = self.caveats_in_words();
        if !caveats.is_empty() {
            lines.extend(heading(CAVEATS));
            lines.extend(caveats.iter().map(|caveat| format!("- {}", escaped(caveat))));
        }
        for (name, rows) in self.by_scenario() {
            let ((title, reading), grid) = (scenario::words(name), Grid::of(&rows));
            lines.extend(heading(title));
            let reading = (!reading.is_empty()).then(|| reading.to_owned());
            for said in [reading, grid.shared_in_words(escaped)].into_iter().flatten() {
                lines.extend([said, String::new()]);
            }
            lines.push(grid.table_in_markdown().trim_end().to_owned());
        }
        for (title, items) in self.lists() {
            lines.extend(heading(title));
            lines.extend(items.iter().map(|item| format!("- {}", escaped(item))));
        }
        lines.join("\n") + "\n"
    }
}

fn heading(text: &str) -> [String; 3] {
    [String::new(), format!("## {}", escaped(text)), String::new()]
}

#[cfg(test)]
mod tests {
    use super::super::Row;
    use super::super::column::Key;
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn every_line_of_a_table_has_as_many_cells_as_its_header() {
        let text = sample().to_markdown();
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
        let text = Report { rows: vec![row], ..Report::default() }.to_markdown();
        assert!(text.contains(r"| a\|b \<b\>\*x\*\</b\>"), "{text}");
        assert!(text.contains(r"\[l\](u) |"), "{text}");
    }

    #[test]
    fn notes_and_gaps_are_listed() {
        let text = sample().to_markdown();
        assert!(text.contains("\n## Notes\n\n- "), "{text}");
        assert!(text.contains("\n## Left out\n\n- "), "{text}");
    }
}
