//! Tables for a terminal.

use super::Report;
use super::format::clean;
use super::grid::Grid;
use super::report::CAVEATS;

impl Report {
    /// Tables of `width` columns, if possible.
    pub fn to_text(&self, width: usize) -> String {
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
            lines.extend([String::new(), clean(self.words(name).0)]);
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
