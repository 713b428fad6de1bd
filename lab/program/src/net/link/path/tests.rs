//! The path compared with closed forms, and with core's moderator alone.

use super::*;

const MICRO: Nanos = 1_000;
const MILLI: Nanos = 1_000_000;

fn gigabit() -> Settings {
    Settings { rate_bits_per_s: Some(1_000_000_000), ..Settings::default() }
}

struct Run {
    path: Path,
    late: Nanos,
    batches: Vec<(Nanos, u32)>,
    now: Nanos,
}

impl Run {
    fn of(settings: &Settings) -> Self {
        Self { path: Path::new(settings, 1), late: 0, batches: Vec::new(), now: 0 }
    }

    fn frame(&mut self, at: Nanos, bytes: u32) -> Fate {
        // Other events of the same instant follow the arrival.
        self.until(at.saturating_sub(1));
        self.now = at;
        self.path.take(at, bytes, u64::from(bytes))
    }

    fn until(&mut self, end: Nanos) {
        loop {
            match self.path.next(self.now) {
                Next::HandOver(frames) => self.batches.push((self.now, frames)),
                Next::At(at) if at + self.late <= end => self.now = self.now.max(at + self.late),
                Next::At(_) | Next::Nothing => break,
            }
        }
        self.now = self.now.max(end);
    }

    fn finish(mut self) -> Self {
        self.until(Nanos::MAX);
        self
    }

    fn handed_over(&self) -> u64 {
        self.batches.iter().map(|(_, frames)| u64::from(*frames)).sum()
    }
}

#[test]
fn frames_take_their_size_divided_by_the_rate() {
    let settings = Settings { queue_bytes: 1 << 30, rate_bits_per_s: Some(7_000_000_000), ..Settings::default() };
    let mut run = Run::of(&settings);
    for _ in 0..10_000 {
        assert_eq!(run.frame(0, 1538), Fate::Taken);
    }
    let run = run.finish();
    assert_eq!(run.handed_over(), 10_000);
    // 1538 x 8 / 7 ns each: no intermediate rounding.
    assert_eq!(run.batches.last().unwrap().0, 10_000 * 1538 * 8 / 7);
}

#[test]
fn a_line_that_was_idle_starts_anew() {
    let mut run = Run::of(&gigabit());
    run.frame(0, 125);
    run.frame(10 * MICRO, 125);
    assert_eq!(run.finish().batches, [(MICRO, 1), (11 * MICRO, 1)]);
}

#[test]
fn the_delay_comes_on_top() {
    let mut run = Run::of(&Settings { delay: MILLI, ..gigabit() });
    run.frame(0, 125);
    run.frame(0, 125);
    assert_eq!(run.finish().batches, [(MILLI + MICRO, 1), (MILLI + 2 * MICRO, 1)]);
    let mut run = Run::of(&Settings { delay: MILLI, ..Settings::default() });
    run.frame(5, 125);
    assert_eq!(run.finish().batches, [(MILLI + 5, 1)]);
}

#[test]
fn a_burst_loses_what_the_queue_has_no_room_for_and_no_more() {
    // One is sent and ten wait. A frame takes 8 us, so after 24 us there is room for three.
    let mut run = Run::of(&Settings { queue_bytes: 10_999, ..gigabit() });
    let fates = |run: &mut Run, at| (0..20).filter(|_| run.frame(at, 1000) == Fate::Taken).count();
    assert_eq!(fates(&mut run, 0), 11);
    assert_eq!(fates(&mut run, 24 * MICRO - 1), 2);
    assert_eq!(fates(&mut run, 24 * MICRO), 1);
    assert_eq!(fates(&mut run, MILLI), 11);
    assert_eq!(run.frame(MILLI, 999), Fate::Taken, "a smaller one fits");
    assert_eq!(run.finish().handed_over(), 26);
}

#[test]
fn without_room_to_wait_the_share_of_drops_is_erlangs() {
    for load in [0.5, 0.8, 2.0] {
        let mut random = Random::new(7);
        let mut run = Run::of(&Settings { queue_bytes: 0, ..gigabit() });
        let (mut at, frames) = (0.0, 200_000);
        let dropped = (0..frames)
            .filter(|_| {
                at += random.exponential(8000.0 / load);
                run.frame(at as Nanos, 1000) == Fate::Dropped
            })
            .count();
        let share = dropped as f64 / f64::from(frames);
        let expected = load / (1.0 + load);
        assert!((share / expected - 1.0).abs() < 0.01, "load {load}: {share}, and not {expected}");
    }
}

#[test]
fn the_mean_wait_is_that_of_a_queue_with_random_arrivals_and_equal_frames() {
    for load in [0.5, 0.8, 0.9] {
        let mut random = Random::new(3);
        let mut run = Run::of(&Settings { queue_bytes: 1 << 40, ..gigabit() });
        let (mut at, mut came, frames) = (0.0, 0.0, 400_000);
        for _ in 0..frames {
            at += random.exponential(8000.0 / load);
            came += at.floor();
            run.frame(at as Nanos, 1000);
        }
        let run = run.finish();
        let left: f64 = run.batches.iter().map(|(at, frames)| *at as f64 * f64::from(*frames)).sum();
        let wait = (left - came) / f64::from(frames) - 8000.0;
        let expected = 8000.0 * load / (2.0 * (1.0 - load));
        assert!((wait / expected - 1.0).abs() < 0.03, "load {load}: {wait} ns, and not {expected}");
    }
}

#[test]
fn losses_are_those_of_the_seed_and_take_no_time_of_the_line() {
    let settings = Settings { loss: 0.1, queue_bytes: 1 << 30, ..gigabit() };
    let losses = |seed| {
        let mut path = Path::new(&settings, seed);
        (0..10_000).map(|_| path.take(0, 125, 125) == Fate::Lost).collect::<Vec<_>>()
    };
    let lost = losses(1).into_iter().filter(|lost| *lost).count();
    assert_eq!((losses(1) == losses(1), losses(1) == losses(2)), (true, false));
    // Four standard deviations of 30.
    assert!((880..=1120).contains(&lost), "{lost}");
    let mut run = Run::of(&settings);
    let taken = (0..10_000).filter(|_| run.frame(0, 125) == Fate::Taken).count() as u64;
    assert_eq!((taken, run.finish().batches.last().unwrap().0), (10_000 - lost as u64, (10_000 - lost as u64) * MICRO));
    let mut all = Run::of(&Settings { loss: 1.0, ..gigabit() });
    assert!((0..1000).all(|_| all.frame(0, 125) == Fate::Lost));
}

#[test]
fn without_moderation_each_frame_interrupts() {
    let mut run = Run::of(&Settings::default());
    (0..5).for_each(|_| assert_eq!(run.frame(9, 125), Fate::Taken));
    assert_eq!(run.finish().batches, [(9, 1); 5]);
}

fn moderated(count: u32, delay: Nanos) -> Settings {
    Settings { moderation: Some(Notify::Coalesce { count, delay }), ..Settings::default() }
}

#[test]
fn moderation_is_by_count_and_by_time() {
    let mut run = Run::of(&moderated(3, 10 * MICRO));
    let fates = [1, 2, 3, 4, 20 * MICRO].map(|at| run.frame(at, 125));
    assert_eq!(fates, [Fate::Taken; 5]);
    let run = run.finish();
    assert_eq!(run.batches, [(3, 3), (10 * MICRO + 4, 1), (30 * MICRO, 1)]);
    assert_eq!(run.path.held(), 2 + 1 + 10 * MICRO + 10 * MICRO);
}

/// Random arrivals with `per_micro` frames a microsecond. Returns frames of a batch and the mean time held, ns.
fn random_frames(settings: &Settings, per_micro: f64, late: Nanos) -> (f64, f64) {
    let mut random = Random::new(11);
    let mut run = Run { late, ..Run::of(settings) };
    let (mut at, frames) = (0.0, 200_000);
    for _ in 0..frames {
        at += random.exponential(1000.0 / per_micro);
        run.frame(at as Nanos, 125);
    }
    let run = run.finish();
    assert_eq!(run.handed_over(), frames);
    (frames as f64 / run.batches.len() as f64, run.path.held() as f64 / frames as f64)
}

/// The same by core's moderator alone, called at each instant that it names.
fn simulated(count: u32, delay: Nanos, per_micro: f64) -> (f64, f64) {
    let mut random = Random::new(11);
    let mut moderator = Moderator::new(Notify::Coalesce { count, delay });
    let (mut at, frames, mut rings, mut held) = (0.0, 200_000_u64, 0, 0);
    let (mut pending, mut due) = (Vec::new(), None);
    let mut ring = |at: Nanos, pending: &mut Vec<Nanos>| {
        rings += 1;
        held += pending.drain(..).map(|came| at - came).sum::<Nanos>();
    };
    for _ in 0..frames {
        at += random.exponential(1000.0 / per_micro);
        let now = at as Nanos;
        if let Some(due) = due.filter(|due| *due < now) {
            assert_eq!(moderator.due(due), WakeDecision::Now);
            ring(due, &mut pending);
            moderator.rung();
        }
        pending.push(now);
        due = None;
        if let WakeDecision::At(instant) = moderator.completed(now, 1, false) {
            due = Some(instant);
        } else {
            ring(now, &mut pending);
            moderator.rung();
        }
    }
    if let Some(due) = due {
        ring(due, &mut pending);
    }
    (frames as f64 / f64::from(rings), held as f64 / frames as f64)
}

fn close(found: (f64, f64), expected: (f64, f64), within: f64) {
    let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < within;
    assert!(near(found.0, expected.0) && near(found.1, expected.1), "{found:?}, and not {expected:?}");
}

#[test]
fn what_is_taken_is_handed_over_once_whatever_the_settings() {
    let mut random = Random::new(17);
    for round in 0..300 {
        let settings = Settings {
            rate_bits_per_s: (random.below(4) > 0).then(|| 1 + random.below(10_000_000_000)),
            delay: random.below(100 * MICRO) * random.below(2),
            queue_bytes: random.below(100_000),
            loss: 0.1 * random.below(2) as f64,
            moderation: (random.below(2) > 0)
                .then(|| Notify::Coalesce { count: 1 + random.below(40) as u32, delay: MICRO + random.below(MILLI) }),
            ..Settings::default()
        };
        let mut run = Run { late: random.below(300 * MICRO) * random.below(2), ..Run::of(&settings) };
        let (mut at, mut taken) = (0, 0);
        for _ in 0..500 {
            at += random.below(10 * MICRO) * random.below(2);
            let fate = run.frame(at, 60 + random.below(65_000) as u32);
            taken += u64::from(fate == Fate::Taken);
            // A lost frame does not update `begun`.
            run.path.begin(at);
            let waiting: u64 =
                run.path.frames.iter().filter(|frame| frame.begins > at).map(|it| u64::from(it.bytes)).sum();
            assert!(waiting <= settings.queue_bytes && waiting == run.path.waiting, "{round}: {settings:?}");
        }
        let run = run.finish();
        assert_eq!((run.handed_over(), run.path.waiting, run.path.begun), (taken, 0, 0), "{round}: {settings:?}");
    }
}

#[test]
fn moderation_by_time_has_its_closed_form() {
    // The first frame of a batch is held for 50 us, later ones for half of that in the mean.
    let (rate, delay) = (0.2, 50.0);
    let more = rate * delay;
    let held = (delay + more * delay / 2.0) / (1.0 + more) * 1000.0;
    close(random_frames(&moderated(4096, 50 * MICRO), rate, 0), (1.0 + more, held), 0.01);
}

#[test]
fn moderation_by_count_has_its_closed_form() {
    let rate = 0.2;
    close(random_frames(&moderated(32, 1000 * MILLI), rate, 0), (32.0, 31.0 / 2.0 / rate * 1000.0), 0.01);
}

#[test]
fn moderation_is_that_of_cores_moderator_also_where_the_thread_is_late() {
    for (count, delay, rate) in [(32, 1024 * MICRO, 0.08), (32, 50 * MICRO, 0.5), (8, 20 * MICRO, 1.0), (1, MICRO, 0.1)]
    {
        let expected = simulated(count, delay, rate);
        let settings = moderated(count, delay);
        let exact = random_frames(&settings, rate, 0);
        assert_eq!((exact.0.to_bits(), exact.1.to_bits()), (expected.0.to_bits(), expected.1.to_bits()));
        // A possible delay of a sleeping thread on a busy machine.
        assert_eq!(random_frames(&settings, rate, 70 * MICRO), exact);
    }
}
