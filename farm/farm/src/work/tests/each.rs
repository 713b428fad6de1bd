//! A program for each event.

use super::{LONG, MAX_RESULT_BYTES, done, failed, line, task};
use crate::node::task::{Outcome, Task, Work};
use crate::work::each::Each;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::fs;
use std::path::Path;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(200);

fn each(words: &[&str], limit: Duration) -> Each {
    Each::new(line(words), false, limit, MAX_RESULT_BYTES).unwrap()
}

fn shell(script: &str) -> Each {
    limited(script, LONG)
}

fn limited(script: &str, limit: Duration) -> Each {
    each(&["sh", "-c", script], limit)
}

async fn gone(file: &Path) {
    let number: i32 = fs::read_to_string(file).unwrap().trim().parse().unwrap();
    let begun = std::time::Instant::now();
    while test_kill_process(Pid::from_raw(number).unwrap()).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(60), "process {number} lives on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_event_goes_in_and_the_result_comes_out() {
    assert_eq!(each(&["cat"], LONG).run(&task("a-1", "some bytes\0")).await, done("some bytes\0"));
    assert_eq!(shell("echo $FARM_ID $FARM_KIND").run(&task("a-2", "")).await, done("a-2 kind\n"));
    // More than a pipe holds, both ways.
    let large = vec![7; MAX_RESULT_BYTES];
    assert_eq!(each(&["cat"], LONG).run(&task("a-3", large.clone())).await, done(large));
    assert_eq!(shell("cat >&2; echo done").run(&task("a-4", vec![b'x'; MAX_RESULT_BYTES])).await, done("done\n"));
}

#[tokio::test]
async fn each_line_is_an_argument_where_that_is_asked_for() {
    let script = "cat; for argument; do echo \"<$argument>\"; done";
    let each = Each::new(line(&["sh", "-c", script, "sh", "first"]), true, LONG, MAX_RESULT_BYTES).unwrap();
    for (body, rest) in [("", ""), ("\n", ""), ("-x", "<-x>\n"), ("a b\n\n$(c)\n", "<a b>\n<>\n<$(c)>\n")] {
        assert_eq!(each.run(&task("a-1", body)).await, done(format!("<first>\n{rest}")), "{body:?}");
    }
    assert_eq!(each.run(&task("a-2", "a\0b")).await, failed("an argument cannot have a zero byte"));
    let long = vec![b'x'; 200_000];
    assert_eq!(each.run(&task("a-3", long)).await, failed("its arguments are longer than the kernel takes"));
}

#[tokio::test]
async fn many_run_at_a_time() {
    let each = shell("read a; sleep 0.1; echo $a");
    let tasks: Vec<Task> = (0..20).map(|i| task(&format!("a-{i}"), format!("{i}\n"))).collect();
    let outcomes = futures_util::future::join_all(tasks.iter().map(|task| each.run(task))).await;
    for (i, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(outcome, done(format!("{i}\n")));
    }
}

#[tokio::test]
async fn how_it_ended_is_the_reason() {
    for (script, reason) in [
        ("exit 3", "exit code 3"),
        ("echo first >&2; printf 'last \\033[2J words' >&2; exit 1", "exit code 1: last [2J words"),
        ("kill -SEGV $$", "ended by SIGSEGV"),
        ("echo out of luck >&2; kill -9 $$", "ended by SIGKILL: out of luck"),
        ("exec no-such-program 2>/dev/null", "exit code 127"),
    ] {
        assert_eq!(shell(script).run(&task("a-1", "body")).await, failed(reason), "{script}");
    }
}

#[tokio::test]
async fn a_program_need_not_read_its_event() {
    let large = vec![7; 10 * MAX_RESULT_BYTES];
    for (script, result) in
        [("echo done", "done\n"), ("exec <&-; echo closed", "closed\n"), ("head -c 3", "\u{7}\u{7}\u{7}")]
    {
        assert_eq!(shell(script).run(&task("a-1", large.clone())).await, done(result), "{script}");
    }
    let outcome = shell("exec <&-; exit 4").run(&task("a-1", large)).await;
    assert_eq!(outcome, failed("exit code 4"));
}

#[tokio::test]
async fn a_result_that_is_too_large_fails_the_event() {
    let reason = "its result has more than 100000 bytes";
    assert_eq!(shell("yes").run(&task("a-1", "")).await, failed(reason), "however long it would go on");
    assert_eq!(shell("head -c 100001 /dev/zero").run(&task("a-1", "")).await, failed(reason));
    assert_eq!(shell("head -c 100000 /dev/zero").run(&task("a-1", "")).await, done(vec![0; MAX_RESULT_BYTES]));
}

#[tokio::test]
async fn the_limit_ends_the_whole_group() {
    let scratch = tempfile::tempdir().unwrap();
    let (leader, other) = (scratch.path().join("leader"), scratch.path().join("other"));
    let script = format!(
        "trap '' TERM; echo $$ > {}; sleep 600 & echo $! > {}; echo waiting >&2; wait",
        leader.display(),
        other.display()
    );
    let outcome = limited(&script, Duration::from_secs(2)).run(&task("a-1", "")).await;
    assert_eq!(outcome, failed("took longer than 2s: waiting"));
    gone(&leader).await;
    gone(&other).await;
    let short = Task { limit: SHORT, ..task("a-1", "") };
    assert_eq!(shell("exec sleep 600").run(&short).await, failed("took longer than 200ms"), "the event's own limit");
}

#[tokio::test]
async fn what_a_program_leaves_running_does_not_hold_its_result_up() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("left");
    let left = format!("sleep 600 & echo $! > {}; echo done", file.display());
    assert_eq!(shell(&left).run(&task("a-1", "")).await, done("done\n"), "in the group");
    gone(&file).await;
    // A new session is another group, which the node does not kill, and it holds the pipes.
    let away = format!("setsid sleep 600 & echo $! > {}; echo done", file.display());
    assert_eq!(shell(&away).run(&task("a-1", "")).await, done("done\n"), "out of the group");
    let number = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    // The shell may not have become `setsid` yet, and has died with the group.
    let _ = kill_process(Pid::from_raw(number).unwrap(), Signal::KILL);
}

#[tokio::test]
async fn an_event_that_is_given_up_ends_its_program() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("leader");
    let each = shell(&format!("echo $$ > {}; echo begun >&2; sleep 600", file.display()));
    let event = task("a-1", "");
    let mut run = Box::pin(each.run(&event));
    while fs::read_to_string(&file).unwrap_or_default().is_empty() {
        let moment = tokio::time::timeout(Duration::from_millis(5), &mut run).await;
        assert!(moment.is_err());
    }
    drop(run);
    gone(&file).await;
}

#[tokio::test]
async fn a_program_that_went_away_is_the_nodes_fault_and_names_that_cannot_be_passed_are_the_events() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("program");
    sidecore_testing::copy_program("/bin/cat", &file);
    let one = each(&[file.to_str().unwrap()], LONG);
    assert!(matches!(one.run(&task("a\0b", "")).await, Outcome::Failed(_)));
    assert!(matches!(one.run(&task(&"x".repeat(1 << 20), "")).await, Outcome::Failed(_)));
    fs::remove_file(&file).unwrap();
    let Outcome::Refused(why) = one.run(&task("a-1", "")).await else { panic!("it cannot be done here") };
    assert!(why.starts_with("cannot start") && why.contains("No such file"), "{why}");
}

#[tokio::test]
async fn a_program_hears_of_pipes_that_nobody_reads() {
    let Outcome::Done(status) = shell("exec cat /proc/$$/status").run(&task("a-1", "")).await else {
        panic!("no result")
    };
    let status = String::from_utf8(status.to_vec()).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    assert_eq!(ignored & 1 << (Signal::PIPE.as_raw() - 1), 0, "the node ignores SIGPIPE, its programs do not");
}
