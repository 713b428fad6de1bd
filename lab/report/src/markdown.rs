//! Tables in Markdown.

use super::Report;
use super::format::escaped;
use super::grid::Grid;
use super::report::CAVEATS;

impl Report {
    /// Includes every column that has data.
    pub fn to_markdown(&self) -> String {
        let mut lines = vec![format!("# {}", escaped(&self.title)), String::new()];
        lines.extend(self.about.lines().iter().map(|line| format!("- {}", escaped(line))));
        let caveats = self.caveats_in_words();
        if !caveats.is_empty() {
            lines.extend(heading(CAVEATS));
            lines.extend(caveats.iter().map(|caveat| format!("- {}", escaped(caveat))));
        }
        for (name, rows) in self.by_scenario() {
            let ((title, reading), grid) = (self.words(name), Grid::of(&rows));
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
