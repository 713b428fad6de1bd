//! Long-lived programs.

use super::{LONG, MAX_RESULT_BYTES, done, failed, line, task};
use crate::node::task::Work;
use crate::work::pipe::Pipes;
use std::fs;
use std::time::Duration;

/// Answers events of one byte with the number of events so far.
const COUNT: &str =
    "n=0; while [ -n \"$(head -c 5 | tail -c 1)\" ]; do n=$((n+1)); printf '\\000\\000\\000\\001%d' $n; DO; done";

async fn shell(script: &str) -> Pipes {
    limited(script, LONG).await
}

async fn limited(script: &str, limit: Duration) -> Pipes {
    Pipes::start(line(&["sh", "-c", script]), 1, limit, MAX_RESULT_BYTES).await.unwrap()
}

#[tokio::test]
async fn events_go_through_a_program_that_lives_on() {
    // `cat` returns each event with its length.
    let pipes = Pipes::start(line(&["cat"]), 2, LONG, MAX_RESULT_BYTES).await.unwrap();
    for body in [&b"some bytes\0"[..], b"", &vec![7; MAX_RESULT_BYTES]] {
        assert_eq!(pipes.run(&task("a-1", body.to_vec())).await, done(body.to_vec()));
    }
    let counting = shell(&COUNT.replace("DO", ":")).await;
    for n in 1..5 {
        assert_eq!(counting.run(&task("a-1", "x")).await, done(n.to_string()), "it is the same program");
    }
}

#[tokio::test]
async fn each_event_at_a_time_has_a_program_of_its_own() {
    let pipes = Pipes::start(line(&["cat"]), 4, LONG, MAX_RESULT_BYTES).await.unwrap();
    let tasks: Vec<_> = (0..4).map(|i| task("a", vec![i; 50_000])).collect();
    let outcomes = futures_util::future::join_all(tasks.iter().map(|task| pipes.run(task))).await;
    for (i, outcome) in (0..).zip(outcomes) {
        assert_eq!(outcome, done(vec![i; 50_000]));
    }
}

#[tokio::test]
async fn a_program_that_ends_fails_its_event_and_another_takes_its_place() {
    let pipes =
        shell(&COUNT.replace("DO", "if [ $n = 2 ]; then head -c 5 >/dev/null; echo no more >&2; exit 3; fi")).await;
    for _ in 0..3 {
        assert_eq!(pipes.run(&task("a-1", "x")).await, done("1"));
        assert_eq!(pipes.run(&task("a-2", "x")).await, done("2"));
        assert_eq!(pipes.run(&task("a-3", "x")).await, failed("exit code 3: no more"));
    }
    for (script, reason) in [
        ("head -c 5 >/dev/null", "it ended without a result"),
        ("head -c 5 >/dev/null; printf '\\000\\000\\000\\011half'", "it ended without a result"),
        ("head -c 5 >/dev/null; kill -ABRT $$", "ended by SIGABRT"),
        ("exit 7", "exit code 7"),
    ] {
        let pipes = shell(script).await;
        for _ in 0..2 {
            let outcome = pipes.run(&task("a-1", "x")).await;
            assert_eq!(outcome, failed(reason), "{script}");
        }
    }
}

#[tokio::test]
async fn a_last_answer_before_the_end_counts() {
    for _ in 0..10 {
        let pipes = shell("head -c 5 >/dev/null; printf '\\000\\000\\000\\003bye'").await;
        assert_eq!(pipes.run(&task("a-1", "x")).await, done("bye"));
    }
}

#[tokio::test]
async fn rubbish_fails_the_event() {
    let wrong = "it says that its result has 1751477356 bytes, more than 100000, or it writes no length before it";
    for (script, reason) in [
        ("head -c 5 >/dev/null; echo hello; sleep 600", wrong),
        ("head -c 5 >/dev/null; yes hell", wrong),
        ("head -c 5 >/dev/null; printf '\\000\\000\\000\\001xyz'; sleep 600", "it wrote more than its result"),
    ] {
        assert_eq!(shell(script).await.run(&task("a-1", "x")).await, failed(reason), "{script}");
    }
    let early = shell("head -c 5 >/dev/null; printf '\\000\\000\\000\\001x'; sleep 600").await;
    let outcome = early.run(&task("a-1", vec![7; 10 * MAX_RESULT_BYTES])).await;
    assert_eq!(outcome, failed("it answered before it had read the event"));
}

#[tokio::test]
async fn what_nobody_asked_for_is_not_taken_for_the_next_result() {
    let scratch = tempfile::tempdir().unwrap();
    let said = scratch.path().join("said");
    // The program answers the first event twice, and later ones once.
    let more =
        format!("if [ ! -e {0} ]; then sleep 0.05; printf '\\000\\000\\000\\001?'; touch {0}; fi", said.display());
    let pipes = shell(&COUNT.replace("DO", &more)).await;
    assert_eq!(pipes.run(&task("a-1", "x")).await, done("1"));
    while fs::metadata(&said).is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(pipes.run(&task("a-2", "x")).await, done("1"), "another program");
    assert_eq!(pipes.run(&task("a-3", "x")).await, done("2"));
}

#[tokio::test]
async fn a_program_that_hangs_is_ended_at_the_limit() {
    let pipes = limited("echo I wait >&2; exec sleep 600", Duration::from_secs(2)).await;
    for _ in 0..2 {
        assert_eq!(pipes.run(&task("a-1", "x")).await, failed("took longer than 2s: I wait"));
    }
    // The program reads nothing, and the event is larger than a pipe.
    let outcome = pipes.run(&task("a-1", vec![7; 10 * MAX_RESULT_BYTES])).await;
    assert_eq!(outcome, failed("took longer than 2s: I wait"));
}

#[tokio::test]
async fn at_the_end_programs_finish_what_they_do() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("finished");
    let pipes =
        shell(&(COUNT.replace("DO", ":") + &format!("; yes | head -c 1000000; echo done > {}", file.display()))).await;
    assert_eq!(pipes.run(&task("a-1", "x")).await, done("1"));
    pipes.finish().await;
    assert_eq!(fs::read_to_string(&file).unwrap(), "done\n");
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_no_reason_to_join() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("program");
    fs::write(&file, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let why = Pipes::start(line(&[file.to_str().unwrap()]), 1, LONG, MAX_RESULT_BYTES).await.err().unwrap();
    let why = why.to_string();
    assert!(why.starts_with("cannot start") && why.contains("No such file"), "{why}");
}
