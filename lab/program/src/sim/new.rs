//! A plan of the user's own hardware, from a few answers.

use crate::args::New;
use crate::error::LabError;
use sidecore_measure::export::print;
use sidecore_sim::plan::{Plan, PlanError};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::path::Path;

const TEMPLATE: &str = r#"# Written by `sidecore sim new`. `sidecore sim explain pool` lists all parameters.
system = "pool"
title = "@op@ on hardware of your own"

[requests]
rate_per_s = @rate@

[work.@op@]

# `sidecore bench calibrate` measures these times.
[host]
cores = 1
submit_us = 0.4
complete_us = 0.6

[device.core]
count = @cores@
@op@ = { us = @us@ }
@devices@
[table]
rows = { "requests.rate_per_s" = [@rates@] }
columns = { metric = ["rate_per_s", "mean_us", "p50_us", "p99_us", "host_use", "device_use"] }

# Numbers of each device, and the price of one.
[choose]
load = "requests.rate_per_s"
latency = "p99_us"
rate = "rate_per_s"
over = { "device.core.count" = { from = 0, to = @most@, step = 1 }@over@ }
cost = { "device.core.count" = 1@cost@ }
"#;

const NO_DEVICE: &str = "none";
/// Parts of the capacity: of the plan, and of its table.
const LOAD: f64 = 0.6;
const LOADS: [f64; 4] = [0.2, 0.6, 0.8, 0.95];
/// The suggested bound, as a multiple of the time of a request on the slowest device.
const BOUND: f64 = 4.0;
const MAX_DEVICES: u32 = 64;
const MAX_RING: f64 = 16_384.0;

pub(super) fn run(args: &New) -> Result<bool, LabError> {
    let file = &args.file;
    if file.exists() {
        return Err(exists(file));
    }
    let (input, mut questions) = (io::stdin(), io::stderr());
    let mut terminal = input.is_terminal().then(|| Terminal { input: input.lock(), questions: &mut questions });
    let hardware = Hardware::asked(args, &mut terminal)?;
    let text = hardware.plan();
    Plan::parse(file, &text).map_err(|error| LabError::Usage(reason(error)))?;
    write(file, &text)?;
    let name = file.display();
    let [load, bound] = [rounded(hardware.capacity() * LOAD), rounded(hardware.slowest_us() * BOUND)];
    let next = format!("  sidecore sim {name}\n  sidecore sim choose {name} --load {load} --p99 {bound}\n");
    print(&format!("{name} is written. It answers:\n{next}"))?;
    Ok(true)
}

fn exists(file: &Path) -> LabError {
    LabError::Usage(format!("{} exists and is not changed: name another file", file.display()))
}

fn write(file: &Path, text: &str) -> Result<(), LabError> {
    let made = OpenOptions::new().write(true).create_new(true).open(file);
    made.and_then(|mut made| made.write_all(text.as_bytes())).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(file),
        _ => LabError::failed(format!("cannot write {}", file.display()), error),
    })
}

struct Terminal<'a, I> {
    input: I,
    questions: &'a mut dyn Write,
}

struct Question<'a> {
    option: &'a str,
    words: &'a str,
    default: Option<&'a str>,
}

impl Question<'_> {
    /// The answer from the option, else from the terminal, else the default.
    fn answer<T>(
        &self,
        given: Option<&str>,
        terminal: &mut Option<Terminal<'_, impl BufRead>>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, LabError> {
        let Self { option, words, default } = self;
        if let Some(given) = given {
            return read(given.trim()).map_err(|why| LabError::Usage(format!("{option} {given}: {why}")));
        }
        let missing = || LabError::Usage(format!("{option} is missing: give it, or answer at a terminal"));
        let Some(Terminal { input, questions }) = terminal else {
            return default.and_then(|default| read(default).ok()).ok_or_else(missing);
        };
        loop {
            let shown = default.map_or(String::new(), |default| format!(" [{default}]"));
            write!(questions, "{words}{shown}: ")?;
            questions.flush()?;
            let mut line = String::new();
            if input.read_line(&mut line)? == 0 {
                return Err(missing());
            }
            let text = Some(line.trim()).filter(|text| !text.is_empty()).or(*default);
            match text.map(&read) {
                Some(Ok(value)) => return Ok(value),
                Some(Err(why)) => writeln!(questions, "{why}")?,
                None => {}
            }
        }
    }
}

/// A card or a batch device: names of parameters and their values.
struct Device {
    kind: &'static str,
    values: Vec<(String, f64)>,
}

struct Hardware {
    op: String,
    us: f64,
    cores: u32,
    devices: Vec<Device>,
}

impl Hardware {
    fn asked(args: &New, terminal: &mut Option<Terminal<'_, impl BufRead>>) -> Result<Self, LabError> {
        let op = Question { option: "--op", words: "Operation", default: Some("rsa-2048") };
        let op = op.answer(args.op.as_deref(), terminal, operation)?;
        let us = Question { option: "--us", words: "Its time on a core, us", default: None };
        let us = us.answer(args.us.map(|us| us.to_string()).as_deref(), terminal, time)?;
        let cores = Question { option: "--cores", words: "Cores that do it", default: Some("4") };
        let cores = cores.answer(args.cores.map(|cores| cores.to_string()).as_deref(), terminal, count)?;
        let mut hardware = Self { op, us, cores, devices: Vec::new() };
        let card = "A card, as engines=8,ring=64,latency_us=60,rate_per_s=100000";
        let batch = "A batch device, as batch_max=4096,launch_us=2000,linger_us=500,us=2.5";
        for (option, kind, words, given) in
            [("--card", "card", card, &args.card), ("--batch", "batch", batch, &args.batch)]
        {
            let question = Question { option, words, default: Some(NO_DEVICE) };
            let device = question.answer(given.as_deref(), terminal, |text| hardware.device(kind, text))?;
            hardware.devices.extend(device);
        }
        Ok(hardware)
    }

    /// Reads a device, and tries it in a plan of its own.
    fn device(&self, kind: &'static str, text: &str) -> Result<Option<Device>, String> {
        if text == NO_DEVICE {
            return Ok(None);
        }
        let value = |part: &str| {
            let (name, value) = part.split_once('=')?;
            let value: f64 = value.trim().parse().ok()?;
            value.is_finite().then(|| (name.trim().to_owned(), value))
        };
        let values: Option<Vec<_>> = text.split(',').map(value).collect();
        let mut device = Device { kind, values: values.ok_or("write NAME=NUMBER with commas between them, or none")? };
        if let (Some(batch), None) = (device.value("batch_max"), device.value("ring")) {
            device.values.push(("ring".to_owned(), (2.0 * batch).clamp(64.0, MAX_RING)));
        }
        let alone = Self { op: self.op.clone(), us: self.us, cores: 1, devices: vec![device] };
        Plan::parse(Path::new(kind), &alone.plan()).map_err(reason)?;
        Ok(alone.devices.into_iter().next())
    }

    fn plan(&self) -> String {
        let capacity = self.capacity();
        let rates: Vec<String> = LOADS.iter().map(|part| rounded(capacity * part).to_string()).collect();
        let (mut devices, mut over, mut cost) = (String::new(), String::new(), String::new());
        for device in &self.devices {
            devices += &device.section(&self.op);
            // Writing to a string cannot fail.
            let _ = write!(over, ", \"device.{}.count\" = [0, 1, 2, 4]", device.kind);
            let _ = write!(cost, ", \"device.{}.count\" = 1", device.kind);
        }
        let most = (2 * self.cores).clamp(4, MAX_DEVICES);
        TEMPLATE
            .replace("@op@", &self.op)
            .replace("@us@", &self.us.to_string())
            .replace("@cores@", &self.cores.to_string())
            .replace("@rate@", &rounded(capacity * LOAD).to_string())
            .replace("@rates@", &rates.join(", "))
            .replace("@most@", &most.to_string())
            .replace("@devices@", &devices)
            .replace("@over@", &over)
            .replace("@cost@", &cost)
    }

    /// Requests a second.
    fn capacity(&self) -> f64 {
        let cores = f64::from(self.cores) * 1e6 / self.us;
        cores + self.devices.iter().map(Device::capacity).sum::<f64>()
    }

    fn slowest_us(&self) -> f64 {
        let cores = if self.cores > 0 { self.us } else { 0.0 };
        self.devices.iter().map(Device::time_us).fold(cores, f64::max)
    }
}

/// Parameters of the operation, not of the device.
const OF_OPERATION: [&str; 2] = ["us", "rate_per_s"];

impl Device {
    fn value(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    fn section(&self, op: &str) -> String {
        let line = |(name, value): &(String, f64)| format!("{name} = {value}");
        let (times, own): (Vec<_>, Vec<_>) =
            self.values.iter().partition(|(name, _)| OF_OPERATION.contains(&name.as_str()));
        let own: String = own.into_iter().map(|value| line(value) + "\n").collect();
        let times: Vec<String> = times.into_iter().map(line).collect();
        format!("\n[device.{}]\n{own}{op} = {{ {} }}\n", self.kind, times.join(", "))
    }

    /// Requests of a batch, and their time, us.
    fn batch(&self) -> (f64, f64) {
        let (fill, engines) = (self.value("batch_max").unwrap_or(1.0), self.value("engines").unwrap_or(1.0));
        let of_rate = self.value("rate_per_s").map(|rate| engines * 1e6 / rate);
        let each = of_rate.or(self.value("us")).unwrap_or(0.0);
        (fill, self.value("launch_us").unwrap_or(0.0) + fill * each)
    }

    /// Requests a second; 0 without a time.
    fn capacity(&self) -> f64 {
        let (fill, us) = self.batch();
        if us > 0.0 { self.value("engines").unwrap_or(1.0) * fill * 1e6 / us } else { 0.0 }
    }

    fn time_us(&self) -> f64 {
        let other = |name| self.value(name).unwrap_or(0.0);
        self.batch().1 + other("latency_us") + other("linger_us")
    }
}

/// To two digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.1e}").parse().unwrap_or(value)
}

fn operation(text: &str) -> Result<String, String> {
    let is_name =
        !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
    if is_name { Ok(text.to_owned()) } else { Err("write letters, digits, - and _".to_owned()) }
}

fn time(text: &str) -> Result<f64, String> {
    let time = text.parse().ok().filter(|us: &f64| us.is_finite() && *us > 0.0);
    time.ok_or_else(|| "write a number above 0".to_owned())
}

fn count(text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|count| *count <= MAX_DEVICES);
    count.ok_or_else(|| format!("write a whole number from 0 to {MAX_DEVICES}"))
}

/// Without the place, which is in a text that does not exist yet.
fn reason(error: PlanError) -> String {
    match error {
        PlanError::File { message, .. } | PlanError::Setting { message, .. } => message,
        PlanError::Several { first, .. } => first.into_iter().map(reason).collect::<Vec<_>>().join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn asked(typed: &str, given: &New) -> (Result<Hardware, LabError>, String) {
        let mut shown = Vec::new();
        let mut terminal = Some(Terminal { input: typed.as_bytes(), questions: &mut shown });
        let hardware = Hardware::asked(given, &mut terminal);
        (hardware, String::from_utf8(shown).unwrap())
    }

    fn nothing() -> New {
        New { file: PathBuf::from("x.toml"), op: None, us: None, cores: None, card: None, batch: None }
    }

    #[test]
    fn each_question_has_its_default_and_is_asked_again_after_a_wrong_answer() {
        let typed = "\n\nfast\n250\n\nengine=8\nengines=8,rate_per_s=1e5\nnone\n";
        let (hardware, shown) = asked(typed, &nothing());
        let hardware = hardware.unwrap();
        assert_eq!((hardware.op.as_str(), hardware.us, hardware.cores), ("rsa-2048", 250.0, 4));
        assert_eq!(hardware.devices.len(), 1);
        assert!(shown.starts_with("Operation [rsa-2048]: Its time on a core, us: "), "{shown}");
        assert!(shown.contains("write a number above 0") && shown.contains("did you mean `device.card.engines`?"));
        assert!(Plan::parse(Path::new("x.toml"), &hardware.plan()).is_ok(), "{}", hardware.plan());
    }

    #[test]
    fn what_is_given_is_not_asked() {
        let given = New { op: Some("sign".to_owned()), us: Some(10.0), cores: Some(2), ..nothing() };
        let (hardware, shown) = asked("", &given);
        assert!(matches!(hardware, Err(LabError::Usage(said)) if said.starts_with("--card is missing")));
        assert!(shown.starts_with("A card, as engines=8"), "{shown}");
    }

    #[test]
    fn capacities_are_those_of_the_devices() {
        let none = Hardware { op: "sign".to_owned(), us: 200.0, cores: 4, devices: Vec::new() };
        let card = none.device("card", "engines=8, latency_us=60, rate_per_s=100000").unwrap().unwrap();
        assert!((card.capacity() - 100_000.0).abs() < 1.0 && (card.time_us() - 140.0).abs() < 1e-6);
        let batch = none.device("batch", "batch_max=1000,launch_us=2000,us=2").unwrap().unwrap();
        assert!((batch.capacity() - 250_000.0).abs() < 1.0 && batch.value("ring") == Some(2_000.0));
        assert!((none.capacity() - 20_000.0).abs() < 1e-6);
        let why = |text| none.device("card", text).err().unwrap();
        assert!(why("engines").starts_with("write NAME=NUMBER") && why("engines=8").contains("it does no operation"));
    }
}
