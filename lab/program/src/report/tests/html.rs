//! Pages of the laboratory's scenarios.

use super::{columns, full_row, sample};
use crate::report::plot::{GRID, INK};
use crate::report::{Caveat, Reason, Report, Row, column};
use sidecore_report::About;

const VOID: [&str; 1] = ["meta"];

fn assert_well_formed(page: &str) {
    let body = page.strip_prefix("<!doctype html>").expect("a doctype");
    let mut open: Vec<&str> = Vec::new();
    for piece in body.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap_or_else(|| panic!("no end of the tag in {piece}"));
        assert!(!text.contains('>'), "a bare > in {piece}");
        assert_eq!(tag.matches('"').count() % 2, 0, "an open quote in {tag}");
        let name = tag.trim_matches('/').split_whitespace().next().unwrap_or_default();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{piece}");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} not ended");
}

#[test]
fn the_page_is_well_formed() {
    assert_well_formed(&sample().to_html());
    assert_well_formed(&Report::default().to_html());
    assert_well_formed(&Report { rows: vec![full_row(); 40], ..Report::default() }.to_html());
}

#[test]
fn the_page_loads_nothing_and_runs_nothing() {
    let page = sample().to_html();
    for word in ["<script", "src=", "@import", "url(", "javascript:", "<link", "<iframe"] {
        assert!(!page.contains(word), "{word}");
    }
    let addresses = page.matches("http").count();
    assert_eq!(addresses, page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count());
}

fn hostile(scenario: &str) -> Row {
    let text = |field: &str| format!("{field}\"'><script>alert('{field}')</script><b {field}=&amp;");
    let columns = columns().filter(|column| full_row().text(column).is_some());
    let row = columns.fold(full_row(), |row, column| row.with(column, text(column.name)));
    row.with(column::SCENARIO, scenario)
}

#[test]
fn hostile_text_cannot_inject_markup() {
    let evil = "\"'><img src=x onerror=alert(1)>";
    for scenario in ["lane", "crypto", "ocf", "notify", "balance", "scaling", evil] {
        let report = Report {
            sections: sample().sections,
            title: evil.into(),
            about: About { command: evil.into(), machine: evil.into(), commit: evil.into(), ..About::default() },
            caveats: vec![Caveat::new(Reason::Busy, evil)],
            rows: vec![hostile(scenario), hostile(scenario).with(column::CLIENTS, 77), full_row()],
            notes: vec![evil.into()],
            left_out: vec![evil.into()],
        };
        let page = report.to_html();
        assert_well_formed(&page);
        assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("<b "), "{scenario}");
    }
}

#[test]
fn each_scenario_has_its_section_its_plots_and_its_table() {
    let (report, page) = (sample(), sample().to_html());
    for (name, rows) in report.by_scenario() {
        let start = page.find(&format!("<section id=\"{name}\">")).expect(name);
        let section = &page[start..start + page[start..].find("</section>").unwrap()];
        assert!(section.contains("<svg ") && section.contains("</table>"), "{name}");
        assert_eq!(section.matches("<tr>").count(), rows.len() + 1, "{name}");
    }
}

#[test]
fn the_style_sheet_replaces_the_plots_colours_in_a_dark_scheme() {
    let style = sample().to_html();
    assert!(style.contains("prefers-color-scheme: dark"));
    for colour in [GRID, INK] {
        assert!(style.contains(&format!("[stroke=\"{colour}\"]")), "{colour}");
    }
}
