//! Tables in Markdown, of the laboratory's scenarios.

use super::sample;
use crate::report::{Report, Row, column};

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
    let row = Row::new("lane", "v").with(column::OP, "a|b <b>*x*</b>\n[l](u)");
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
