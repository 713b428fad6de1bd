//! Reads a plan into typed structs by serde, with positions, so that each error names its line.

use super::axis::{Axis, Shape, metric};
use super::{Changes, Choice, Heading, MAX_CELLS, NUMBER, Plan, PlanError, Variant};
use crate::names::unknown;
use crate::settings::{Origin, Parameter, Settings, Source};
use crate::system::{self, System};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const MAX_INCLUDES: usize = 16;
const MAX_BYTES: u64 = 1 << 20;
const MAX_AXIS: usize = 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    system: Spanned<String>,
    title: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    include: Vec<Spanned<String>>,
    #[serde(default)]
    plot: Vec<Spanned<String>>,
    table: Spanned<Table>,
    #[serde(default)]
    variant: Vec<WrittenVariant>,
    #[serde(default)]
    case: Vec<WrittenVariant>,
    #[serde(default)]
    heading: Vec<WrittenHeading>,
    choose: Option<Spanned<WrittenChoice>>,
}

const OWN_KEYS: [&str; 10] =
    ["system", "title", "about", "include", "plot", "table", "variant", "case", "heading", "choose"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenChoice {
    load: Spanned<String>,
    latency: Spanned<String>,
    rate: Spanned<String>,
    #[serde(default)]
    over: BTreeMap<Spanned<String>, Spanned<Values>>,
    #[serde(default)]
    cost: BTreeMap<String, f64>,
    error: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    rows: Spanned<Over>,
    columns: Spanned<Over>,
    cell: Option<Spanned<String>>,
}

type Over = BTreeMap<Spanned<String>, Spanned<Values>>;

#[derive(Deserialize)]
#[serde(untagged, expecting = "write a list, or { from = 1, to = 64, factor = 2 }")]
enum Values {
    List(Vec<Scalar>),
    Range(Range),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    from: f64,
    to: f64,
    step: Option<f64>,
    factor: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenVariant {
    name: String,
    set: Set,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenHeading {
    says: Spanned<String>,
    set: Set,
}

type Set = BTreeMap<Spanned<String>, Spanned<Scalar>>;

#[derive(Deserialize)]
#[serde(untagged, expecting = "write a number or a text in quotes")]
enum Scalar {
    Whole(i64),
    Number(f64),
    Text(String),
}

impl Display for Scalar {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => Display::fmt(number, f),
            Self::Number(number) => Display::fmt(number, f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Documented {
    value: Spanned<Scalar>,
    unit: Spanned<String>,
    origin: Origin,
    meaning: String,
}

struct File {
    path: PathBuf,
    text: String,
}

impl File {
    fn load(path: &Path) -> Result<Self, PlanError> {
        let text = read_text(path, MAX_BYTES).map_err(|error| PlanError::in_file(path, None, error))?;
        Ok(Self { path: path.to_owned(), text })
    }

    fn parse(&self) -> Result<Spanned<DeTable<'_>>, PlanError> {
        DeTable::parse(&self.text).map_err(|error| self.unread(&error, ""))
    }

    fn read<'a, T: Deserialize<'a>>(&self, value: Spanned<DeValue<'a>>, subject: &str) -> Result<T, PlanError> {
        T::deserialize(value.into_deserializer()).map_err(|error| self.unread(&error, subject))
    }

    /// Translates a TOML error into this module's words. `subject`: the table that may lack an entry.
    fn unread(&self, error: &toml::de::Error, subject: &str) -> PlanError {
        let message = error.message().lines().next().unwrap_or("no TOML");
        let mut names = message.split('`').skip(1).step_by(2);
        let name = names.next().unwrap_or_default();
        let message = match message.split_once(" `") {
            Some(("missing field", _)) => format!("{subject}has no `{name}`: add it"),
            Some(("unknown field", _)) => unknown("key", name, names).to_string(),
            Some(("unknown variant", _)) => unknown("origin", name, names).to_string(),
            _ if message == "duplicate key" => {
                let twice = error.span().and_then(|span| self.text.get(span)).unwrap_or_default();
                format!("{twice} stands here a second time: leave one out")
            }
            _ => message.to_owned(),
        };
        PlanError::in_file(&self.path, error.span().map(|span| self.line(span.start)), message)
    }

    fn line(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }

    fn wrong<'a, T, E: Display + 'a>(&'a self, at: &'a Spanned<T>) -> impl Fn(E) -> PlanError + 'a {
        |message| PlanError::in_file(&self.path, Some(self.line(at.span().start)), message)
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TextError {
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("is no file")]
    NoFile,
    #[error("has {size} bytes, at most {most} are read")]
    TooLarge { size: u64, most: u64 },
    #[error("is no text in UTF-8")]
    NoText,
}

pub(crate) fn read_text(path: &Path, most: u64) -> Result<String, TextError> {
    let metadata = fs::metadata(path).map_err(TextError::Unreadable)?;
    match metadata.len() {
        _ if !metadata.is_file() => Err(TextError::NoFile),
        size if size > most => Err(TextError::TooLarge { size, most }),
        _ => String::from_utf8(fs::read(path).map_err(TextError::Unreadable)?).map_err(|_| TextError::NoText),
    }
}

impl Plan {
    /// Reads a plan with all includes, and checks that it can run.
    ///
    /// # Errors
    ///
    /// With file, line and remedy, if it cannot be read, has an unknown name or a wrong unit, or is impossible.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        understand(&File::load(path)?)
    }

    /// Reads a plan from its text; `path` locates includes and appears in errors.
    ///
    /// # Errors
    ///
    /// As [`Plan::read`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, PlanError> {
        understand(&File { path: path.to_owned(), text: text.to_owned() })
    }
}

fn understand(file: &File) -> Result<Plan, PlanError> {
    let root = file.parse()?;
    let span = root.span();
    let is_own = |(key, _): &(Spanned<_>, _)| OWN_KEYS.contains(&AsRef::<str>::as_ref(key.get_ref()));
    let (own, parts): (DeTable<'_>, DeTable<'_>) = root.into_inner().into_iter().partition(is_own);
    let written: Written = file.read(Spanned::new(span, DeValue::Table(own)), "")?;
    let name = written.system.get_ref();
    let system = system::find(name).ok_or_else(|| file.wrong(&written.system)(system::unknown(name)))?;
    if let Some(first) = written.include.get(MAX_INCLUDES) {
        return Err(file.wrong(first)(format!("a plan includes at most {MAX_INCLUDES} files")));
    }
    let beside = file.path.parent().unwrap_or(Path::new("."));
    let included = written
        .include
        .iter()
        .map(|include| File::load(&beside.join(include.get_ref())))
        .collect::<Result<Vec<_>, _>>()?;
    let mut tables =
        included.iter().map(|file| Ok((file, file.parse()?.into_inner()))).collect::<Result<Vec<_>, _>>()?;
    tables.push((file, parts));
    let mut named = BTreeSet::new();
    for (_, table) in &tables {
        name_parts(table, "", &mut named);
    }
    let (mut settings, mut places) = (system.settings(&named).beside(beside), Places::new());
    for (file, table) in tables {
        sections(file, table, system, &mut settings, &mut places)?;
    }
    settings.fill().map_err(|message| PlanError::in_file(&file.path, None, &message))?;
    if let Some((parameter, _)) = settings.iter().find(|(_, value)| value.is_none()) {
        let message = format!("{} has no value: give it one in the plan or in a file that it includes", parameter.name);
        return Err(PlanError::in_file(&file.path, None, message));
    }
    let metric = |name: &Spanned<String>| metric(system, name.get_ref()).map_err(file.wrong(name));
    let variant = |WrittenVariant { name, set }| Ok(Variant { name, set: changes(file, &set, &settings, false)? });
    let cases = written.case.into_iter().map(variant).collect::<Result<Vec<Variant>, _>>()?;
    if let Some(twice) = (1..cases.len()).find(|at| cases[..*at].iter().any(|case| case.name == cases[*at].name)) {
        let message = format!("there are two cases {:?}: rename one", cases[twice].name);
        return Err(PlanError::in_file(&file.path, None, message));
    }
    let plan = Plan {
        path: file.path.clone(),
        title: written.title,
        about: written.about,
        system,
        shape: shape(file, &written.table, system, (&settings, &cases))?,
        plot: written.plot.iter().map(metric).collect::<Result<_, _>>()?,
        variants: written.variant.into_iter().map(variant).collect::<Result<_, _>>()?,
        headings: written.heading.into_iter().map(|it| heading(file, it, &settings)).collect::<Result<_, _>>()?,
        choice: written.choose.as_ref().map(|it| choice(file, it.get_ref(), system, &settings)).transpose()?,
        cases,
        settings,
    };
    system.check(&plan.settings).map_err(|impossible| {
        let place = places.get(&impossible.parameter);
        let (path, line) = place.map_or((&file.path, None), |(path, line)| (path, Some(*line)));
        PlanError::in_file(path, line, impossible.message)
    })?;
    Ok(plan)
}

type Places = HashMap<String, (PathBuf, usize)>;

/// Whether a table is a value with its unit, not a part.
fn is_documented(table: &DeTable<'_>) -> bool {
    let is_of_value = |name: &str| ["value", "unit", "origin", "meaning"].contains(&name);
    table.iter().any(|(name, value)| is_of_value(name.get_ref()) && !value.get_ref().is_table())
}

/// Collects the full names of all parts, and of parts within them.
fn name_parts(table: &DeTable<'_>, within: &str, names: &mut BTreeSet<String>) {
    for (name, value) in table {
        if let DeValue::Table(inner) = value.get_ref()
            && !is_documented(inner)
        {
            let full = full_name(within, name.get_ref());
            name_parts(inner, &full, names);
            names.insert(full);
        }
    }
}

fn full_name(part: &str, name: &str) -> String {
    if part.is_empty() { name.to_owned() } else { format!("{part}.{name}") }
}

fn sections(
    file: &File,
    parts: DeTable<'_>,
    system: &System,
    settings: &mut Settings,
    places: &mut Places,
) -> Result<(), PlanError> {
    for (part, section) in parts {
        let open = system.open_parts.iter().copied();
        let known = || open.clone().chain(settings.iter().filter_map(|(known, _)| Some(known.name.split_once('.')?.0)));
        if !known().any(|known| known == part.get_ref()) {
            return Err(file.wrong(&part)(unknown("part", part.get_ref(), known())));
        }
        let DeValue::Table(section) = section.into_inner() else {
            return Err(file.wrong(&part)("a part is a table"));
        };
        section_of(file, part.get_ref(), section, settings, places)?;
    }
    Ok(())
}

fn section_of(
    file: &File,
    part: &str,
    section: DeTable<'_>,
    settings: &mut Settings,
    places: &mut Places,
) -> Result<(), PlanError> {
    for (name, value) in section {
        let full = full_name(part, name.get_ref());
        let place = (file.path.clone(), file.line(name.span().start));
        if let DeValue::Table(inner) = value.get_ref()
            && !is_documented(inner)
        {
            if name.get_ref().contains('.') {
                return Err(file.wrong(&name)(format!("the name {:?} has a dot: leave it out", name.get_ref())));
            }
            if settings.has_part(&full) {
                let DeValue::Table(inner) = value.into_inner() else { continue };
                section_of(file, &full, inner, settings, places)?;
                places.insert(full, place);
                continue;
            }
        }
        let index = settings.find(&full).map_err(file.wrong(&name))?;
        let (value, source) = value_of(file, settings.parameter(index), value)?;
        settings.set(&full, &value.get_ref().to_string(), source).map_err(file.wrong(&value))?;
        places.insert(full, place);
    }
    Ok(())
}

fn value_of(file: &File, of: &Parameter, value: Spanned<DeValue<'_>>) -> Result<(Spanned<Scalar>, Source), PlanError> {
    if !value.get_ref().is_table() {
        return Ok((file.read(value, "")?, Source::Plan));
    }
    let Parameter { name, unit: own, .. } = of;
    let Documented { value, unit, origin, meaning } = file.read(value, &format!("{name} "))?;
    if unit.get_ref() != own {
        return Err(file.wrong(&unit)(format!("{name} is in {own}: convert the value and write unit = \"{own}\"")));
    }
    Ok((value, Source::Documented(origin, meaning)))
}

type Known<'a> = (&'a Settings, &'a [Variant]);

fn shape(file: &File, table: &Spanned<Table>, system: &System, known: Known<'_>) -> Result<Shape, PlanError> {
    let wrong = |message: String| Err(file.wrong(table)(message));
    let Table { rows, columns, cell } = table.get_ref();
    let (rows, columns) = (axis(file, rows, system, known)?, axis(file, columns, system, known)?);
    let cells = rows.labels.len() * columns.labels.len();
    if cells > MAX_CELLS {
        return wrong(format!("the table has {cells} cells, at most {MAX_CELLS} are run: widen the steps"));
    }
    let metric = |name: &Spanned<String>| metric(system, name.get_ref()).map_err(file.wrong(name));
    let cell = cell.as_ref().map(metric).transpose()?;
    match (rows.is_metrics(), columns.is_metrics(), cell) {
        (false, false, None) => wrong("the table does not say what is in a cell: add cell = \"METRIC\"".to_owned()),
        (true, true, _) => wrong("rows and columns both go over metrics: give one of them a parameter".to_owned()),
        _ => Ok(Shape { rows, columns, cell }),
    }
}

fn axis(file: &File, over: &Spanned<Over>, system: &System, known: Known<'_>) -> Result<Axis, PlanError> {
    let (Some((name, values)), 1) = (over.get_ref().iter().next(), over.get_ref().len()) else {
        return Err(file.wrong(over)("an axis goes over one thing: write { NAME = [VALUES] }"));
    };
    let labels = values.get_ref().labels().map_err(file.wrong(values))?;
    if labels.is_empty() || labels.len() > MAX_AXIS {
        let message = format!("an axis has 1 to {MAX_AXIS} values, this one {}", labels.len());
        return Err(file.wrong(values)(message));
    }
    let axis = Axis::named(name.get_ref(), &labels, system, known).map_err(file.wrong(name))?;
    if axis.is_parameter() {
        labels.iter().try_for_each(|label| known.0.accepts(&axis.name, label)).map_err(file.wrong(values))?;
    }
    Ok(axis)
}

#[derive(Debug, thiserror::Error)]
enum RangeError {
    #[error("a range has either a `step` above 0 or a `factor` above 1 and `from` above 0")]
    Shape,
    #[error("the range has more than {MAX_AXIS} values: widen its step")]
    TooMany,
}

impl Values {
    fn labels(&self) -> Result<Vec<String>, RangeError> {
        match self {
            Self::List(list) => Ok(list.iter().map(Scalar::to_string).collect()),
            Self::Range(range) => range.labels(),
        }
    }
}

impl Range {
    fn labels(&self) -> Result<Vec<String>, RangeError> {
        let at = |i: f64| match (self.step, self.factor) {
            (Some(step), None) if step > 0.0 => Some(self.from + step * i),
            (None, Some(factor)) if factor > 1.0 && self.from > 0.0 => Some(self.from * factor.powf(i)),
            _ => None,
        };
        if at(0.0).is_none() {
            return Err(RangeError::Shape);
        }
        let all = (0..=MAX_AXIS).filter_map(|i| at(i as f64)).map(tidy).take_while(|value| *value <= self.to);
        let values: Vec<String> = all.map(|value| value.to_string()).collect();
        match values.len() {
            ..=MAX_AXIS => Ok(values),
            _ => Err(RangeError::TooMany),
        }
    }
}

/// Drops the last digits, which sums of steps get wrong.
fn tidy(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

fn changes(file: &File, set: &Set, settings: &Settings, is_number: bool) -> Result<Changes, PlanError> {
    let change = |(name, value): (&Spanned<String>, &Spanned<Scalar>)| {
        let index = settings.find(name.get_ref()).map_err(file.wrong(name))?;
        let (name, text) = (&settings.parameter(index).name, value.get_ref().to_string());
        match (text == NUMBER, is_number) {
            (true, true) => {}
            (true, false) => {
                return Err(file.wrong(value)(format!(
                    "{NUMBER} stands for a number in headings only: write the value"
                )));
            }
            _ => settings.accepts(name, &text).map_err(file.wrong(value))?,
        }
        Ok((name.clone(), text))
    };
    set.iter().map(change).collect()
}

fn choice(
    file: &File,
    written: &WrittenChoice,
    system: &'static System,
    settings: &Settings,
) -> Result<Choice, PlanError> {
    let metric = |name: &Spanned<String>| metric(system, name.get_ref()).map_err(file.wrong(name));
    let parameter = |name: &Spanned<String>| {
        let index = settings.find(name.get_ref()).map_err(file.wrong(name))?;
        Ok(settings.parameter(index).name.clone())
    };
    let one = |(name, values): (&Spanned<String>, &Spanned<Values>)| {
        let (full, labels) = (parameter(name)?, values.get_ref().labels().map_err(file.wrong(values))?);
        labels.iter().try_for_each(|label| settings.accepts(&full, label)).map_err(file.wrong(values))?;
        Ok((full, labels))
    };
    Ok(Choice {
        load: parameter(&written.load)?,
        latency: metric(&written.latency)?,
        rate: metric(&written.rate)?,
        over: written.over.iter().map(one).collect::<Result<_, _>>()?,
        cost: written.cost.iter().map(|(name, price)| (name.clone(), *price)).collect(),
        error: written.error,
    })
}

fn heading(file: &File, written: WrittenHeading, settings: &Settings) -> Result<Heading, PlanError> {
    let (says, set) = (written.says.get_ref(), changes(file, &written.set, settings, true)?);
    if set.iter().any(|(_, value)| value == NUMBER) && says.matches(NUMBER).count() != 1 {
        let message = format!("heading {says:?} sets a number but has no {NUMBER}, or several");
        return Err(file.wrong(&written.says)(message));
    }
    Ok(Heading { says: written.says.into_inner(), set })
}
