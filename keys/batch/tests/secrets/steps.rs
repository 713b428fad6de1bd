//! The machine takes the same steps for any secret: no branch depends on one. This includes the code for AVX-512,
//! which valgrind does not know. A second process stops before each instruction, and its instruction addresses are
//! compared for two secrets.

use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::{env, fs};

use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use sidecore_batch::rsa::{self, Key, Parts};
use sidecore_batch::{MOST, cbc, p256};

const ROLE: &str = "SIDECORE_BATCH_STEPS";
/// The second process sends this to itself before and after the work on each of two secrets.
const MARK: Signal = Signal::SIGUSR1;
/// Limit of steps: work with more does not end.
const MOST_STEPS: usize = 5_000_000;

/// A process whose marked thread is observed at every step; it is killed when dropped.
struct Stepped {
    process: Child,
    thread: Pid,
    /// Addresses of its own code. The system allocator's steps depend on earlier allocations.
    code: Range<u64>,
}

impl Stepped {
    fn start(role: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "steps::work_on_two_secrets", "--nocapture"]).env(ROLE, role);
        let process = command.process_group(0).spawn().unwrap();
        // Tests run in a thread of their own, which is waited for as a member of the process's group.
        let group = Pid::from_raw(-process.id().cast_signed());
        let (thread, signal) = stopped(group);
        assert_eq!(signal, MARK);
        let code = code(&process);
        Self { process, thread, code }
    }

    fn go_on(&self) {
        ptrace::cont(self.thread, None).unwrap();
        assert_eq!(stopped(self.thread).1, MARK);
    }

    fn places(&self) -> Vec<u64> {
        let mut places = Vec::new();
        for _ in 0..MOST_STEPS {
            ptrace::step(self.thread, None).unwrap();
            if stopped(self.thread).1 == MARK {
                return places;
            }
            places.extend(Some(ptrace::getregs(self.thread).unwrap().rip).filter(|place| self.code.contains(place)));
        }
        panic!("it does not end");
    }
}

fn code(process: &Child) -> Range<u64> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", process.id())).unwrap();
    let path = env::current_exe().unwrap();
    let of_program = |line: &&str| line.contains(" r-xp ") && line.ends_with(path.to_str().unwrap());
    let (from, to) = maps.lines().find(of_program).and_then(|line| line.split(' ').next()?.split_once('-')).unwrap();
    u64::from_str_radix(from, 16).unwrap()..u64::from_str_radix(to, 16).unwrap()
}

fn stopped(of: Pid) -> (Pid, Signal) {
    match waitpid(of, Some(WaitPidFlag::__WALL)).unwrap() {
        WaitStatus::Stopped(thread, signal) => (thread, signal),
        other => panic!("{other:?}"),
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        // It may have ended by itself, and its tracer must collect its end first.
        let _ = self.process.kill();
        let group = Pid::from_raw(-self.process.id().cast_signed());
        while waitpid(group, Some(WaitPidFlag::__WALL)).is_ok() {}
    }
}

/// The first different step of the work on two secrets, and the number of steps of the first.
fn difference(role: &str) -> (Option<usize>, usize) {
    let stepped = Stepped::start(role);
    let one = stepped.places();
    stepped.go_on();
    let other = stepped.places();
    let at = one.iter().zip(&other).position(|(one, other)| one != other);
    let at = at.or((one.len() != other.len()).then(|| one.len().min(other.len())));
    println!("{role}: {} and {} steps, the first difference: {at:?}", one.len(), other.len());
    (at, one.len())
}

/// Fails on a difference, where the machine has the unit; reports it if not. `least`: steps that the work certainly
/// takes.
fn no_difference(role: &str, is_here: bool, least: usize) {
    if !is_here {
        println!("{role}: the unit is missing, nothing is stepped through");
        return;
    }
    let (at, steps) = difference(role);
    assert_eq!(at, None);
    assert!(steps > least, "{steps} steps are too few for the work");
}

#[test]
fn a_key_and_a_nonce_of_p_256_change_no_step() {
    no_difference("p256", p256::is_here(), 100_000);
}

#[test]
fn a_key_of_rsa_changes_no_step() {
    no_difference("rsa", rsa::is_here(), 100_000);
}

#[test]
fn keys_and_contents_of_messages_change_no_step_in_the_widest_unit() {
    no_difference("cbc", cbc::Unit::Fours.is_here(), 1000);
}

#[test]
fn a_branch_on_a_secret_is_found() {
    assert_eq!(difference("same").0, None);
    assert!(difference("leak").0.is_some());
}

/// The work that runs step by step; without a role it does nothing.
#[test]
fn work_on_two_secrets() {
    match env::var(ROLE).as_deref() {
        Ok("p256") => {
            let mut output = [0; 2 * p256::LEN];
            // The key is odd and small for the one, the nonce even and large, and the other way round.
            twice(&[([1; p256::LEN], [0xfe; p256::LEN]), ([0xf0; p256::LEN], [3; p256::LEN])], |(private, nonce)| {
                let digest = &[7; p256::LEN];
                let output = &mut output;
                let mut jobs = [p256::Job { private, nonce, digest, output, good: false }];
                assert!(p256::sign(&mut jobs) && jobs[0].good);
            });
        }
        Ok("cbc") => {
            let mut outputs = [[0; 4 * cbc::BLOCK]; MOST];
            twice(&[[0x55; 32], [0xfe; 32]], |secret| encrypt(secret, &mut outputs));
        }
        Ok("rsa") => {
            let (input, mut output) = ([1; 128], [0; 128]);
            twice(&[key(3), key(151)], |key| {
                let mut jobs = [rsa::Job { key, input: &input, output: &mut output, good: false }];
                assert!(rsa::private(&mut jobs));
            });
        }
        Ok(role @ ("leak" | "same")) => {
            let mut sum = 0;
            twice(&[1, if role == "leak" { 2 } else { 1 }], |secret| {
                if secret & 1 == 1 {
                    sum = std::hint::black_box(sum + 1);
                }
            });
        }
        _ => {}
    }
}

/// The secret is the key of some messages, and the content of all.
fn encrypt(secret: &[u8; 32], outputs: &mut [[u8; 4 * cbc::BLOCK]; MOST]) {
    let (key, input) = (cbc::Key::new(secret).unwrap(), [secret[0]; 4 * cbc::BLOCK]);
    let lengths = [4, 4, 2, 3, 1, 4, 4, 2].map(|blocks| blocks * cbc::BLOCK);
    let parts = lengths.iter().zip(outputs);
    let mut jobs: Vec<cbc::Job<'_>> = parts
        .map(|(len, output)| cbc::Job {
            key: &key,
            vector: &[0; 16],
            input: &input[..*len],
            output: &mut output[..*len],
        })
        .collect();
    assert!(cbc::encrypt_by(cbc::Unit::Fours, &mut jobs));
}

/// Once for each secret to have everything ready, and then under observation.
fn twice<T>(secrets: &[T; 2], mut work: impl FnMut(&T)) {
    for (at, secret) in secrets.iter().chain(secrets).enumerate() {
        if at == secrets.len() {
            ptrace::traceme().expect("a process that may be traced: containers have to permit ptrace");
        }
        marked(at >= secrets.len(), secret, &mut work);
    }
}

/// Not inlined, so that all secrets share one address.
#[inline(never)]
fn marked<T>(is_seen: bool, secret: &T, work: &mut impl FnMut(&T)) {
    if is_seen {
        raise(MARK).unwrap();
    }
    work(secret);
    if is_seen {
        raise(MARK).unwrap();
    }
}

/// Numbers in the form of a key of RSA-1024, made from a seed. They belong to no key: the steps are the same, and the
/// wrong result is reported.
fn key(seed: u8) -> Key {
    let number = |at: u8, len: usize| {
        let mut bytes: Vec<u8> = (0..len).map(|byte| (byte as u8).wrapping_mul(seed) ^ at.wrapping_mul(97)).collect();
        (bytes[0], bytes[len - 1]) = (bytes[0] | 0x80, bytes[len - 1] | 1);
        bytes
    };
    let [p, q, dp, dq, coefficient] = [1, 2, 3, 4, 5].map(|at| number(at, 64));
    let modulus = number(6, 128);
    let parts = Parts { modulus: &modulus, primes: [&p, &q], exponents: [&dp, &dq], coefficient: &coefficient };
    Key::new(&parts).expect("a key in form")
}
