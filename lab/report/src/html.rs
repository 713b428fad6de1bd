//! One self-contained page: headline figures, plots and tables. It loads nothing and runs no script.

use super::column::Better;
use super::format::clean;
use super::grid::{Grid, Heading};
use super::report::CAVEATS;
use super::section::{Figure, Group, Headline, colour};
use super::{Report, Row};

impl Report {
    /// The page.
    pub fn to_html(&self) -> String {
        let title = escaped(&self.title);
        let about = each(self.about.lines(), |line| format!("<p>{}</p>\n", escaped(&line)));
        let style = include_str!("html/page.css");
        let scenarios = self.by_scenario();
        let links = each(&scenarios, |(name, _)| format!("<a href=\"#{0}\">{0}</a> ", escaped(name)));
        let sections = each(&scenarios, |(name, rows)| section(self, name, rows));
        let tiles = each(self.headlines(), |Headline { value, label, detail }| {
            let [value, label, detail] = [value, label, detail].map(|text| escaped(&text));
            format!("<div class=\"tile\"><b>{value}</b><span>{label}</span><small>{detail}</small></div>\n")
        });
        let caveats = each(self.caveats_in_words(), |caveat| format!("<li>{}</li>\n", escaped(&caveat)));
        let caveats = match caveats.as_str() {
            "" => caveats,
            _ => format!("<section class=\"doubts\">\n<h2>{CAVEATS}</h2>\n<ul>\n{caveats}</ul>\n</section>\n"),
        };
        let lists = each(self.lists(), |(heading, items)| {
            let items = each(items, |item| format!("<li>{}</li>\n", escaped(item)));
            format!("<section>\n<h2>{heading}</h2>\n<ul>\n{items}</ul>\n</section>\n")
        });
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n\
             <header>\n<h1>{title}</h1>\n{about}<nav>{links}</nav>\n</header>\n\
             <main>\n<div class=\"tiles\">\n{tiles}</div>\n{caveats}{sections}{lists}{READING}</main>\n</body>\n</html>\n"
        )
    }
}

/// Tables of more rows than this are folded.
const MAX_OPEN_ROWS: usize = 30;

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
<dt>doubt</dt><dd>why the row may be worth little, with what to do under Doubts</dd>
<dt>spread</dt><dd>largest less smallest of the repeats, divided by their median: differences below it mean nothing</dd>
</dl>
</section>
";

fn each<T>(of: impl IntoIterator<Item = T>, write: impl FnMut(T) -> String) -> String {
    of.into_iter().map(write).collect()
}

fn escaped(text: &str) -> String {
    let marks = [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&#39;")];
    marks.into_iter().fold(clean(text), |text, (mark, written)| text.replace(mark, written))
}

fn section(report: &Report, name: &str, rows: &[&Row]) -> String {
    let (title, reading) = report.words(name);
    let [id, title, reading] = [name, title, reading].map(escaped);
    let figures = report.section(name).map_or_else(Vec::new, |section| section.figures(rows));
    let (plots, table) = (each(figures, group), table(&Grid::of(rows)));
    format!("<section id=\"{id}\">\n<h2>{title}</h2>\n<p class=\"reading\">{reading}</p>\n{plots}{table}</section>\n")
}

fn group(Group { legend, figures }: Group) -> String {
    let entries = each(legend.iter().enumerate(), |(number, (name, dashed))| {
        let (colour, line) = (colour(number), if *dashed { "dashed" } else { "solid" });
        format!("<li><i style=\"border-top:3px {line} {colour}\"></i>{}</li>", escaped(name))
    });
    let legend = if entries.is_empty() { entries } else { format!("<ul class=\"legend\">{entries}</ul>\n") };
    let figures = each(figures, |Figure { title, svg }| {
        // The drawing escapes its own text.
        format!("<figure><figcaption>{}</figcaption>\n{svg}</figure>\n", escaped(&title))
    });
    format!("{legend}<div class=\"figures\">\n{figures}</div>\n")
}

fn table(grid: &Grid) -> String {
    let Grid { headings, rows, .. } = grid;
    let open = if rows.len() > MAX_OPEN_ROWS { "" } else { " open" };
    let shared = grid.shared_in_words(|value| format!("<b>{}</b>", escaped(value)));
    let shared = shared.map_or_else(String::new, |shared| format!("<p>{shared}</p>\n"));
    let header = each(headings, |heading| cell("th", heading, &heading.text));
    let lines = each(rows, |row| {
        let cells = each(headings.iter().zip(row), |(heading, text)| cell("td", heading, text));
        format!("<tr>{cells}</tr>\n")
    });
    format!(
        "<details{open}><summary>{} rows</summary>\n{shared}<div class=\"wide\"><table>\n\
         <thead><tr>{header}</tr>\n</thead>\n<tbody>\n{lines}</tbody>\n</table></div></details>\n",
        rows.len()
    )
}

/// An arrow in the heading shows the better direction.
fn cell(tag: &str, heading: &Heading, text: &str) -> String {
    let class = if heading.numeric { " class=\"n\"" } else { "" };
    let arrow = match heading.better {
        Better::More if tag == "th" => " ↑",
        Better::Less if tag == "th" => " ↓",
        _ => "",
    };
    format!("<{tag}{class}>{}{arrow}</{tag}>", escaped(text))
}
