//! One self-contained page: headline figures, plots and tables. Nothing is loaded from elsewhere and nothing runs.

use std::fmt;

use super::column::Better;
use super::figures::{Entry, Figure, Group, figures};
use super::format::clean;
use super::grid::{Grid, Heading};
use super::headline::{Headline, headlines};
use super::table::Table;
use super::{Report, Row, scenario};

/// The whole report as a page.
pub(crate) fn render(report: &Report) -> String {
    let title = Escaped(&report.title);
    let style = include_str!("html/page.css");
    let scenarios = report.by_scenario();
    let links: String = scenarios.iter().map(|(name, _)| link(name)).collect();
    let sections: String = scenarios.iter().map(|(name, rows)| section(name, rows)).collect();
    let tiles: String = headlines(report).iter().map(tile).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n\
         <header>\n<h1>{title}</h1>\n<p>{machine} · commit <code>{commit}</code></p>\n<nav>{links}</nav>\n</header>\n\
         <main>\n<div class=\"tiles\">\n{tiles}</div>\n{sections}{notes}{left_out}{READING}</main>\n</body>\n</html>\n",
        machine = Escaped(&report.machine),
        commit = Escaped(&report.commit),
        notes = list("Notes", &report.notes),
        left_out = list("Left out", &report.left_out),
    )
}

/// Tables of more rows than this are folded.
const MOST_OPEN_ROWS: usize = 30;

const READING: &str = "\
<section>
<h2>How to read this</h2>
<dl>
<dt>total</dt><dd>from the client's submission until the client has the completion; p50 and p99 are its percentiles</dd>
<dt>queue</dt><dd>submitted until handed to the device</dd>
<dt>device</dt><dd>handed over until the reply is taken</dd>
<dt>deliver</dt><dd>reply taken until the client has it</dd>
<dt>client CPU, service CPU</dt><dd>CPU time that one operation costs in the processes that ask and in the service</dd>
<dt>wake-ups, saved</dt><dd>wake-ups sent, and those not needed because the other side was awake</dd>
<dt>↑, ↓</dt><dd>more is better, less is better</dd>
<dt>ratio</dt><dd>this row's figure divided by its baseline's, measured in the same run</dd>
<dt>spread</dt><dd>largest less smallest of the repeats, divided by their median: differences below it mean nothing</dd>
</dl>
</section>
";

/// Text in a page: no character of it is markup.
struct Escaped<'t>(&'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in clean(self.0).chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

fn link(name: &str) -> String {
    let name = Escaped(name);
    format!("<a href=\"#{name}\">{name}</a> ")
}

fn tile(headline: &Headline) -> String {
    format!(
        "<div class=\"tile\"><b>{}</b><span>{}</span><small>{}</small></div>\n",
        Escaped(&headline.value),
        Escaped(&headline.label),
        Escaped(&headline.detail)
    )
}

fn section(name: &str, rows: &[&Row]) -> String {
    let plots: String = figures(name, rows).iter().map(group).collect();
    format!(
        "<section id=\"{}\">\n<h2>{}</h2>\n<p class=\"reading\">{}</p>\n{plots}{}</section>\n",
        Escaped(name),
        Escaped(scenario::title(name)),
        Escaped(scenario::words(name).reading),
        table(&Table::of(rows))
    )
}

fn group(group: &Group) -> String {
    let entries: String = group.legend.iter().map(legend_entry).collect();
    let legend = if entries.is_empty() { entries } else { format!("<ul class=\"legend\">{entries}</ul>\n") };
    let figures: String = group.figures.iter().map(figure).collect();
    format!("{legend}<div class=\"figures\">\n{figures}</div>\n")
}

fn legend_entry(entry: &Entry) -> String {
    let line = if entry.dashed { "dashed" } else { "solid" };
    format!("<li><i style=\"border-top:3px {line} {}\"></i>{}</li>", entry.colour, Escaped(&entry.name))
}

fn figure(figure: &Figure) -> String {
    // The drawing escapes its own text.
    format!("<figure><figcaption>{}</figcaption>\n{}</figure>\n", Escaped(&figure.title), figure.svg)
}

fn table(table: &Table) -> String {
    let Grid { headings, rows, .. } = &table.grid;
    let open = if rows.len() > MOST_OPEN_ROWS { "" } else { " open" };
    let shared = table.shared_in_words(|value| format!("<b>{}</b>", Escaped(value)));
    let shared = shared.map_or_else(String::new, |shared| format!("<p>{shared}</p>\n"));
    let header: String = headings.iter().map(|heading| cell("th", heading, &heading.text)).collect();
    let cells = |row: &Vec<String>| headings.iter().zip(row).map(|(heading, text)| cell("td", heading, text)).collect();
    let lines: String = rows.iter().map(|row| tagged("tr", &String::from_iter::<Vec<String>>(cells(row)))).collect();
    format!(
        "<details{open}><summary>{} rows</summary>\n{shared}<div class=\"wide\"><table>\n<thead>{}</thead>\n\
         <tbody>\n{lines}</tbody>\n</table></div></details>\n",
        rows.len(),
        tagged("tr", &header)
    )
}

fn tagged(tag: &str, inside: &str) -> String {
    format!("<{tag}>{inside}</{tag}>\n")
}

/// A heading says with an arrow which way is better.
fn cell(tag: &str, heading: &Heading, text: &str) -> String {
    let class = if heading.numeric { " class=\"n\"" } else { "" };
    let arrow = match heading.better {
        Better::More if tag == "th" => " ↑",
        Better::Less if tag == "th" => " ↓",
        _ => "",
    };
    format!("<{tag}{class}>{}{arrow}</{tag}>", Escaped(text))
}

fn list(heading: &str, items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items: String = items.iter().map(|item| list_item(item)).collect();
    format!("<section>\n<h2>{heading}</h2>\n<ul>\n{items}</ul>\n</section>\n")
}

fn list_item(text: &str) -> String {
    format!("<li>{}</li>\n", Escaped(text))
}

#[cfg(test)]
mod tests {
    use super::super::column::{COLUMNS, Key};
    use super::super::plot::{GRID, INK};
    use super::super::tests::{full_row, sample};
    use super::*;

    /// Elements that have no end.
    const VOID: [&str; 1] = ["meta"];

    /// Panics unless each element ends, within the element that it began in, and attributes are quoted.
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
        assert_well_formed(&render(&sample()));
        assert_well_formed(&render(&Report::default()));
        assert_well_formed(&render(&Report { rows: vec![full_row(); 40], ..Report::default() }));
    }

    #[test]
    fn the_page_loads_nothing_and_runs_nothing() {
        let page = render(&sample());
        for word in ["<script", "src=", "@import", "url(", "javascript:", "<link", "<iframe"] {
            assert!(!page.contains(word), "{word}");
        }
        let addresses = page.matches("http").count();
        assert_eq!(addresses, page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count());
    }

    /// Every field that holds text tries to break out of wherever it is written.
    fn hostile(scenario: &str) -> Row {
        let text = |field: &str| format!("{field}\"'><script>alert('{field}')</script><b {field}=&amp;");
        let columns = COLUMNS.iter().filter(|column| full_row().text(column.key).is_some());
        let row = columns.fold(full_row(), |row, column| row.with(column.key, text(column.name)));
        row.with(Key::Scenario, scenario)
    }

    #[test]
    fn hostile_text_cannot_inject_markup() {
        let evil = "\"'><img src=x onerror=alert(1)>";
        for scenario in ["lane", "crypto", "ocf", "notify", "balance", "scaling", evil] {
            let report = Report {
                title: evil.into(),
                machine: evil.into(),
                commit: evil.into(),
                rows: vec![hostile(scenario), hostile(scenario).with(Key::Clients, 77), full_row()],
                notes: vec![evil.into()],
                left_out: vec![evil.into()],
            };
            let page = render(&report);
            assert_well_formed(&page);
            assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("<b "), "{scenario}");
        }
    }

    #[test]
    fn each_scenario_has_its_section_its_plots_and_its_table() {
        let (report, page) = (sample(), render(&sample()));
        for (name, rows) in report.by_scenario() {
            let start = page.find(&format!("<section id=\"{name}\">")).expect(name);
            let section = &page[start..start + page[start..].find("</section>").unwrap()];
            assert!(section.contains("<svg ") && section.contains("</table>"), "{name}");
            assert_eq!(section.matches("<tr>").count(), rows.len() + 1, "{name}");
        }
    }

    #[test]
    fn the_style_sheet_replaces_the_plots_colours_in_a_dark_scheme() {
        let style = include_str!("html/page.css");
        assert!(style.contains("prefers-color-scheme: dark"));
        for colour in [GRID, INK] {
            assert!(style.contains(&format!("[stroke=\"{colour}\"]")), "{colour}");
        }
    }
}
