//! Text and screen of a made-up farm.

use super::live::FarmScreen;
use super::render;
use crate::status::{Node, NodeState, Quantiles, Stages, Status, Totals};
use crate::status_watch::View;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use sidecore_terminal::screen::Screen;

fn node(name: &str) -> Node {
    Node {
        name: name.to_owned(),
        slots: 4,
        credit_ns: -2_500_000,
        window_ns: 12_000_000,
        way_us: 310,
        in_flight: 5,
        rate: 123.4,
        lag_ms: 61_250.0,
        done: 99,
        redone: 2,
        stages: Stages { work: Quantiles { p50_us: 1_200, p99_us: 34_000 }, ..Stages::default() },
        ..Node::default()
    }
}

fn view() -> View {
    let totals = Totals { seen: 1_000_000, committed: 999_995, redone: 7, dead: 1, ..Totals::default() };
    let nodes = vec![node("two"), Node { state: NodeState::Leaving, ..node("one") }];
    let status = Status {
        farm: "f".to_owned(),
        balance: "tokens".to_owned(),
        active: true,
        connected: true,
        queued: Some(5_000),
        unacknowledged: Some(120),
        rate: 25.0,
        left_s: Some(200.0),
        held: 120,
        held_bytes: 123_456,
        totals,
        nodes,
        ..Status::default()
    };
    View { active: Some(status), standing_by: 1 }
}

fn drawn(screen: &mut Screen<FarmScreen>, columns: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, 20)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn the_text_has_the_farm_and_a_line_for_each_node() {
    let text = render("f", &view());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "farm f, balance tokens; nodes: 2, slots: 8, dispatchers standing by: 1");
    assert_eq!(lines[1], "queue, up to a second ago: 5000 events, not acknowledged: 120; done in 200s at 25/s");
    assert_eq!(lines[2], "held: 120 events, 123kB; without a node: 0; results being committed: 0");
    assert_eq!(lines[3], "taken: 1000000, committed: 999995, committed before: 0");
    assert!(lines[4].starts_with("redone: 7, late: 0, dead: 1, "), "{text}");
    assert!(
        lines[6].starts_with("NODE  STATE    SLOTS  CREDIT  WINDOW    WAY  INFLIGHT  DONE/S  LAG  QUEUE p50/p99"),
        "{text}"
    );
    let words: Vec<&str> = lines[7].split_whitespace().collect();
    let expected = [
        "one",
        "leaving",
        "4",
        "-2.5ms",
        "12ms",
        "310us",
        "5",
        "123",
        "61s",
        "-",
        "-",
        "1.2ms/34ms",
        "-",
        "99",
        "2",
        "0",
        "0",
        "0",
    ];
    assert_eq!(words, expected, "{text}");
    assert!(lines[8].starts_with("two   up "), "{text}");
}

#[test]
fn what_holds_it_up_is_said() {
    let mut held = view();
    held.active.as_mut().unwrap().holds = "the result stream is full".to_owned();
    assert!(render("f", &held).contains("\nit does not go on: the result stream is full\n"));
    held.active.as_mut().unwrap().connected = false;
    assert!(render("f", &held).contains("\nthe dispatcher has no connection to JetStream\n"));
}

#[test]
fn without_a_dispatcher_it_says_what_to_do() {
    let nobody = "no dispatcher of farm f hands out events now; standing by: 2. One of them takes over, or says in its log why it cannot\n";
    assert_eq!(render("f", &View { active: None, standing_by: 2 }), nobody);
}

#[test]
fn the_screen_shows_the_newest_view_and_arrows_move_in_it() {
    let mut screen = Screen::new(FarmScreen { farm: "f".to_owned(), view: View::default() });
    assert!(drawn(&mut screen, 100).contains("nobody dispatches in farm f: "));
    screen.refresh(|| Ok(view()));
    let shown = drawn(&mut screen, 100);
    assert!(
        shown.contains("farm f, balance tokens") && shown.contains("leaving") && !shown.contains("REDONE"),
        "{shown}"
    );
    (0..30).for_each(|_| screen.key(KeyEvent::from(KeyCode::Right)));
    let shown = drawn(&mut screen, 100);
    assert!(shown.contains("one") && shown.contains("LATE") && !shown.contains("CREDIT"), "{shown}");
    screen.key(KeyEvent::from(KeyCode::Char('p')));
    screen.refresh(|| Ok(View::default()));
    assert!(drawn(&mut screen, 100).contains("two"), "it is paused");
    screen.key(KeyEvent::from(KeyCode::Char('p')));
    screen.refresh(|| Err("the connection is gone".to_owned()));
    assert!(drawn(&mut screen, 100).contains("the connection is gone"));
    assert!(!screen.quit());
    screen.key(KeyEvent::from(KeyCode::Char('q')));
    assert!(screen.quit());
}

#[test]
fn a_farm_without_nodes_says_how_one_gets_some() {
    let mut empty = view();
    empty.active.as_mut().unwrap().nodes.clear();
    assert!(!render("f", &empty).contains("NODE"));
    assert!(
        drawn(&mut Screen::new(FarmScreen { farm: "f".to_owned(), view: empty }), 100).contains("sidecore farm work")
    );
}
