//! `sidecore sockets`: sockets of programs whose small messages go through rings, the path of each, and why.

use crate::args;
use crate::error::CommandError;
use crate::programs::Counts;
use serde_json::json;
use sidecore_core::text::shown;
use sidecore_sockets::ask::{self, List, ListError};
use sidecore_sockets::protocol::{MAX_REPORTED, REPORTED, Row};
use sidecore_streams::rule::PathReason;
use sidecore_terminal::output;
use sidecore_terminal::table::Rows;
use sidecore_terminal::units::{amount, count, known, signed_time};
use sidecore_terminal::users::Users;
use std::cmp::Reverse;
use std::fmt::Write as _;
use std::path::Path;

pub(crate) const NO_SOCKETS: &str =
    "no sockets: programs that `sidecore run --sockets` starts have some once they send small messages\n";
const BUSIEST: usize = 50;
/// Headings, and whether the column holds numbers. A star marks values that the program reports.
const COLUMNS: [(&str, bool); 13] = [
    ("PROGRAM*", false),
    ("PID", true),
    ("USER", false),
    ("FD*", true),
    ("PEER", false),
    ("MESSAGES*", true),
    ("A SEND", true),
    ("KERNEL*", true),
    ("KBYTES*", true),
    ("BYTES", true),
    ("WAITING", true),
    ("SAVED*", true),
    ("PATH*", false),
];
const ALLEGED: &str = "* as the program itself says; KERNEL, KBYTES: messages that it gave to the kernel, and bytes that the kernel took; SAVED: \
                       CPU time, an estimate";

pub(crate) fn run(args: &args::List) -> Result<(), CommandError> {
    let List { mut rows, others } = listed(&args.service.socket)?;
    let busy = |row: &Row| (Reverse(row.messages), Reverse(row.kernel_bytes));
    rows.sort_by_key(|row| (row.gone_ns.is_some(), busy(row), row.pid, row.descriptor));
    let most = if args.all { rows.len() } else { BUSIEST };
    Ok(output::print(&if args.json { objects(&rows) } else { text(&rows, most, others) })?)
}

pub(crate) fn listed(socket: &Path) -> Result<List, ListError> {
    let mut list = ask::list(socket)?;
    list.rows.iter_mut().for_each(printable);
    Ok(list)
}

/// Programs choose their names, and this text may go to a terminal.
fn printable(row: &mut Row) {
    let clean = |text: &mut String| *text = text.chars().map(shown).collect();
    clean(&mut row.program);
    row.peer.iter_mut().for_each(clean);
}

/// A table of at most `most` rows. `others`: sockets beyond the limit of programs' reports.
fn text(rows: &[Row], most: usize, others: u64) -> String {
    if rows.is_empty() {
        return NO_SOCKETS.to_owned();
    }
    let users = Users::default();
    let (shown, more) = rows.split_at(rows.len().min(most));
    let mut text = Rows::new(COLUMNS, shown.iter().map(|row| cells(row, &users))).to_text() + "\n";
    if !more.is_empty() {
        // Numbers that programs report may be arbitrary.
        let messages = more.iter().fold(0_u64, |sum, row| sum.saturating_add(row.messages));
        // Writing to a string does not fail.
        let _ = writeln!(text, "and {} more with {} messages: --all", more.len(), count(messages));
    }
    if others > 0 {
        let _ = writeln!(text, "and {others} on the kernel of programs that have more than {MAX_REPORTED} there");
    }
    text + "\n" + ALLEGED + "\n"
}

fn cells(row: &Row, users: &Users) -> [String; 13] {
    [
        row.program.clone(),
        row.pid.to_string(),
        users.name(row.uid),
        row.descriptor.to_string(),
        known(row.peer.clone(), |peer| peer + if is_reported(row) { "*" } else { "" }),
        count(row.messages),
        known(Counts::of(row).messages_a_send(), amount),
        count(row.kernel_messages),
        known(row.kernel_bytes, count),
        count(row.bytes),
        count(row.waiting),
        known(row.saved_ns, signed_time),
        why(row),
    ]
}

fn is_reported(row: &Row) -> bool {
    row.place >= REPORTED
}

fn why(row: &Row) -> String {
    let why = PathReason::of(row.why.into());
    let words = why.map_or_else(|| format!("unknown ({})", row.why), |why| why.words().to_owned());
    match why {
        _ if row.gone_ns.is_none() => words,
        Some(PathReason::Row | PathReason::Closed) => "program gone".to_owned(),
        _ => format!("program gone; {words}"),
    }
}

fn objects(rows: &[Row]) -> String {
    let object = |row: &Row| {
        json!({
            "program": row.program,
            "pid": row.pid,
            "uid": row.uid,
            "descriptor": row.descriptor,
            "peer": row.peer,
            "reported": is_reported(row),
            "ring": row.open && PathReason::of(row.why.into()) == Some(PathReason::Row),
            "why": why(row),
            "messages": row.messages,
            "messages_a_send": Counts::of(row).messages_a_send(),
            "kernel_messages": row.kernel_messages,
            "kernel_bytes": row.kernel_bytes,
            "bytes": row.bytes,
            "waiting": row.waiting,
            "cpu_saved_s": row.saved_ns.map(|saved| saved as f64 / 1e9),
            "gone_s": row.gone_ns.map(|gone| gone as f64 / 1e9),
        })
    };
    rows.iter().map(|row| object(row).to_string() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::made_up;

    fn row(program: &str, descriptor: u32, why: u8) -> Row {
        Row {
            descriptor,
            open: why == 1,
            peer: (why == 1).then(|| "[::1]:1883".to_owned()),
            why,
            transfers: if why == 1 { 6 } else { 0 },
            drains: if why == 1 { 2 } else { 0 },
            saved_ns: [None, Some(2_500_000_000), Some(-60_000)][usize::from(why.min(2))],
            ..made_up::row(program, 77, 0)
        }
    }

    #[test]
    fn a_table_says_on_which_path_each_socket_is_and_why() {
        let reported =
            Row { place: REPORTED + 8, kernel_bytes: Some(5000), messages: 0, ..made_up::row("quiet", 78, 0) };
        let gone = |why| Row { gone_ns: Some(1_500_000_000), ..row("ended", 6, why) };
        let rows = [
            row("broker", 9, 1),
            row("shell", 7, 4),
            row("later", 5, 99),
            reported,
            gone(1),
            gone(2),
            row("past", 4, 11),
        ];
        let text = text(&rows, BUSIEST, 3);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1][..10], ["broker", "77", "root", "9", "[::1]:1883", "1000", "125", "6", "-", "64000"]);
        assert_eq!(lines[1][10..12], ["640", "2.5s"]);
        assert_eq!(lines[2][..7], ["shell", "77", "root", "7", "-", "1000", "-"]);
        assert_eq!(lines[2][11], "-60us", "work that was only moved");
        assert_eq!(lines[4][4..9], ["[::1]:1883*", "0", "0", "6", "5000"]);
        let path = |line: usize| lines[line][12..].join(" ");
        assert_eq!([5, 6, 7].map(path), ["program gone", "program gone; on the kernel: large sends", "closed"]);
        assert!(text.contains("\nand 3 on the kernel of programs that have more than 256 there\n"), "{text}");
        assert!(text.contains("ring: small sends in a row") && text.contains("on the kernel: forked"), "{text}");
        assert!(text.contains("unknown (99)") && text.ends_with(&format!("{ALLEGED}\n")), "{text}");
    }

    #[test]
    fn the_busiest_are_shown_and_the_others_counted() {
        let rows = vec![row("many", 3, 1); 60];
        assert!(text(&rows, BUSIEST, 0).contains("\nand 10 more with 10000 messages: --all\n"));
        assert_eq!(text(&rows, 60, 0).matches("many").count(), 60);
        assert!(text(&[], BUSIEST, 0).starts_with("no sockets"));
    }

    #[test]
    fn json_has_an_object_a_line_and_names_drive_no_terminal() {
        let mut hostile = row("\u{1b}[2Jx", 3, 1);
        printable(&mut hostile);
        assert_eq!(hostile.program, "\u{fffd}[2Jx");
        let json = objects(&[row("broker", 9, 1), row("shell", 7, 3)]);
        let lines: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["ring"], &lines[0]["messages_a_send"]), (&json!(true), &json!(125.0)));
        assert_eq!((&lines[1]["ring"], &lines[1]["peer"]), (&json!(false), &json!(null)));
        assert_eq!((&lines[0]["cpu_saved_s"], &lines[1]["cpu_saved_s"]), (&json!(2.5), &json!(-6e-5)));
        let new = text(&[row("new", 9, 0)], BUSIEST, 0);
        assert_eq!(new.lines().nth(1).unwrap().split_whitespace().nth(11), Some("-"));
        let gone = objects(&[Row { gone_ns: Some(1_500_000_000), open: false, ..row("ended", 6, 1) }]);
        assert!(gone.contains("\"gone_s\":1.5") && gone.contains("\"ring\":false"), "{gone}");
        assert_eq!((objects(&[]).as_str(), lines.len()), ("", 2));
    }
}
