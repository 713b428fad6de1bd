//! Programs' reports on their sockets outside rings, with and without a request.

use crate::common::{
    Lender, OTHER, Program, answer, config, connect, connection, hung_up, open_to_all, own_user, readable, reports,
    rows, rows_by, say, start, until,
};
use sidecore_sockets::ask;
use sidecore_sockets::protocol::{Ask, MAX_REPORTED, NUMBERS, REPORTED, Reply, Report, Reported, Row, Seated};
use sidecore_streams::layout::{ROW, WHY};
use sidecore_streams::place::{LeaveRequest, PlaceState};
use sidecore_streams::rule::PathReason;
use sidecore_testing::skipped;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

/// Programs that end one after the other.
const CHURN: usize = 40;

fn socket(descriptor: u32) -> Reported {
    let peer = Some(([127, 0, 0, 1], 80).into());
    Reported { descriptor, why: PathReason::Special as u8, peer, bytes: Some(1000), seat: None }
}

fn report(descriptors: std::ops::Range<u32>) -> Report {
    Report { sockets: descriptors.map(socket).collect(), others: 0 }
}

fn is_asked(program: &Program) {
    assert!(matches!(answer(&program.control), Some((Reply::Describe, _))));
}

fn told(asking: &OwnedFd, program: &Program, report: Report) {
    assert_eq!(reports(asking, true).0, 1);
    is_asked(program);
    say(&program.control, &Ask::Report(report), &[]);
    until("it has arrived", || reports(asking, false).0 == 0);
}

#[test]
fn what_a_program_reports_is_listed_beside_what_is_in_rings() {
    let service = start(&config());
    let (asking, program) = (connect(service.socket()), Program::attach(&service));
    let (here, _there) = connection();
    let open = program.promote(0, 1, &here);
    open.until_state(PlaceState::Open);
    let left = program.promote(1, 1, &here);
    left.until_state(PlaceState::Open);
    left.word(ROW, WHY).store(PathReason::Special as u64, Ordering::Relaxed);
    left.wish(LeaveRequest::Leave);
    left.until_state(PlaceState::Free);
    let seat = |place, stream| Some(Seated { attachment: 1, place, stream });
    let seated = |descriptor, seat| Reported { seat, why: PathReason::Large as u8, ..socket(descriptor) };
    // The first is in its ring again, and the last one's place is another stream's by now.
    let sockets = vec![seated(5, seat(0, 1)), socket(9), socket(4), seated(6, seat(1, 1)), seated(7, seat(2, 1))];
    told(&asking, &program, Report { sockets, others: 3 });
    assert_eq!(reports(&asking, false), (0, 3));
    let rows = rows(service.socket());
    let of = |row: &Row| (row.place, row.open, row.why, row.kernel_bytes);
    let special = (PathReason::Special as u8, Some(1000));
    let expected = [
        (0, true, 0, None),
        (1, false, PathReason::Large as u8, Some(1000)),
        (REPORTED + 4, false, special.0, special.1),
        (REPORTED + 9, false, special.0, special.1),
    ];
    assert_eq!(rows.iter().map(of).collect::<Vec<_>>(), expected);
    assert_eq!((rows[3].descriptor, rows[3].peer.as_deref()), (9, Some("127.0.0.1:80")));
    // A new report replaces the last one.
    told(&asking, &program, report(0..MAX_REPORTED as u32));
    assert_eq!(rows_by(&asking).len(), 2 + MAX_REPORTED, "on several pages");
    told(&asking, &program, Report::default());
    assert_eq!((rows_by(&asking).len(), reports(&asking, false)), (2, (0, 0)));
}

#[test]
fn a_report_that_is_not_right_costs_its_program_the_connection_and_no_other_anything() {
    let service = start(&config());
    let (asking, neighbour) = (connect(service.socket()), Program::attach(&service));
    told(&asking, &neighbour, report(3..5));
    let one = |socket| Report { sockets: vec![socket], others: 0 };
    let too_large = Reported { descriptor: NUMBERS, ..socket(1) };
    let no_reason = Reported { why: 99, ..socket(1) };
    let wrong = [
        (false, report(3..4)),
        (true, report(0..MAX_REPORTED as u32 + 1)),
        (true, one(too_large)),
        (true, one(no_reason)),
    ];
    for (asks, wrong) in wrong {
        let program = Program::attach(&service);
        if asks {
            assert_eq!(reports(&asking, true).0, 2);
            is_asked(&program);
            is_asked(&neighbour);
            say(&neighbour.control, &Ask::Report(report(3..5)), &[]);
        }
        say(&program.control, &Ask::Report(wrong), &[]);
        let why = hung_up(&program.control).unwrap();
        assert!(why.contains("a report"), "{why}");
        until("nothing is owed", || reports(&asking, false).0 == 0);
        let listed = rows(service.socket());
        assert_eq!(listed.iter().map(|row| row.descriptor).collect::<Vec<_>>(), [3, 4]);
    }
    // A second answer to one request is refused.
    told(&asking, &neighbour, report(3..5));
    say(&neighbour.control, &Ask::Report(report(3..5)), &[]);
    assert!(hung_up(&neighbour.control).unwrap().contains("not asked for"));
}

#[test]
fn a_program_that_does_not_answer_is_asked_once_and_keeps_no_list_waiting() {
    let service = start(&config());
    let (asking, silent, other) = (connect(service.socket()), Program::attach(&service), Program::attach(&service));
    for descriptor in 3..30 {
        assert_eq!(reports(&asking, true).0, 2);
        is_asked(&other);
        say(&other.control, &Ask::Report(report(descriptor..descriptor + 1)), &[]);
        until("it has arrived", || reports(&asking, false).0 == 1);
        assert_eq!(rows(service.socket())[0].descriptor, descriptor);
    }
    // The command waits for a moment.
    is_asked(&silent);
    assert!(!readable(&silent.control), "it was asked once");
    let list = ask::list(service.socket()).unwrap();
    assert_eq!((list.rows.len(), list.others), (1, 0));
    drop(silent);
    is_asked(&other);
    say(&other.control, &Ask::Report(report(3..4)), &[]);
    until("it owes nothing any more", || reports(&asking, false).0 == 0);
}

#[test]
fn rows_of_programs_that_are_gone_are_few() {
    let service = start(&config());
    let asking = connect(service.socket());
    for number in 0..CHURN as u32 {
        let program = Program::attach(&service);
        told(&asking, &program, report(number * 100..number * 100 + 50));
        drop(program);
        until("it is gone", || rows(service.socket()).is_empty());
    }
    let gone = rows_by(&asking);
    let last = (CHURN as u32 - 16..CHURN as u32).flat_map(|number| number * 100..number * 100 + 16);
    assert_eq!(gone.iter().map(|row| row.descriptor).collect::<Vec<_>>(), last.collect::<Vec<_>>());
}

#[test]
fn programs_of_another_user_are_asked_by_root_alone() {
    if own_user() != 0 {
        return skipped("only root can: start programs of another user");
    }
    let service = start(&config());
    open_to_all(service.socket());
    let (_process, control) = Lender::start(service.socket(), OTHER);
    let [own, other] = [Program::attach(&service), Program::hello(control)];
    let (_process, theirs) = Lender::start(service.socket(), OTHER);
    assert_eq!(reports(&theirs, true).0, 1);
    is_asked(&other);
    assert!(!readable(&own.control));
    assert_eq!(reports(&connect(service.socket()), true).0, 2);
    is_asked(&own);
    say(&own.control, &Ask::Report(report(3..4)), &[]);
    say(&other.control, &Ask::Report(report(4..5)), &[]);
    until("both have", || reports(&theirs, false).0 == 0 && reports(&connect(service.socket()), false).0 == 0);
    let listed = |rows: Vec<Row>| rows.iter().map(|row| (row.uid, row.descriptor)).collect::<Vec<_>>();
    assert_eq!(listed(rows_by(&theirs)), [(OTHER, 4)]);
    assert_eq!(listed(rows(service.socket())).len(), 2);
}
