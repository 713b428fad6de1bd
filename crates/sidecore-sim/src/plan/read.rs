//! Reading a plan: TOML with the place of every value, so that each error names its line.

use super::axis::{Axis, metric};
use super::error::PlanError;
use super::{Changes, Heading, MAX_CELLS, NUMBER, Plan, Variant};
use crate::names::unknown;
use crate::settings::{Origin, Settings, Source};
use crate::system::{self, System};
use std::fs;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Files that a plan may include, and the largest of them.
const MAX_INCLUDES: usize = 16;
const MAX_BYTES: u64 = 1 << 20;
/// Rows or columns that one axis may have.
const MAX_AXIS: usize = 1024;

type Entry<'a> = Spanned<DeValue<'a>>;

/// One file, with what an error needs.
struct File {
    path: PathBuf,
    text: String,
}

impl File {
    fn load(path: &Path) -> Result<Self, PlanError> {
        let text = read_text(path, MAX_BYTES).map_err(|message| PlanError::in_file(path, None, &message))?;
        Ok(Self { path: path.to_owned(), text })
    }

    fn parse(&self) -> Result<Spanned<DeTable<'_>>, PlanError> {
        DeTable::parse(&self.text).map_err(|error| {
            let line = error.span().map(|span| self.line(span.start));
            PlanError::in_file(&self.path, line, error.message().trim_end().lines().next().unwrap_or("no TOML"))
        })
    }

    fn line(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }

    fn error<T>(&self, at: &Spanned<T>, message: &str) -> PlanError {
        PlanError::in_file(&self.path, Some(self.line(at.span().start)), message)
    }

    fn text<'a>(&self, value: &'a Entry<'_>, what: &str) -> Result<&'a str, PlanError> {
        value.get_ref().as_str().ok_or_else(|| self.error(value, &format!("{what} is a text in quotes")))
    }

    fn table<'a, 'b>(&self, value: &'a Entry<'b>, what: &str) -> Result<&'a DeTable<'b>, PlanError> {
        value.get_ref().as_table().ok_or_else(|| self.error(value, &format!("{what} is a table")))
    }

    /// A number or a text as it is written.
    fn scalar(&self, value: &Entry<'_>, what: &str) -> Result<String, PlanError> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().replace('_', "")),
            DeValue::Float(number) => Ok(number.as_str().replace('_', "")),
            _ => Err(self.error(value, &format!("{what} is a number or a text"))),
        }
    }

    /// `{ name = value, … }` as settings.
    fn set(&self, value: &Entry<'_>, settings: &Settings) -> Result<Changes, PlanError> {
        let mut set = Vec::new();
        for (name, value) in self.table(value, "set")? {
            let index = settings.find(name.get_ref()).map_err(|message| self.error(name, &message))?;
            let text = self.scalar(value, name.get_ref())?;
            let name = settings.parameter(index).name;
            if text != NUMBER {
                let mut probe = settings.clone();
                probe.set(name, &text, Source::Plan).map_err(|message| self.error(value, &message))?;
            }
            set.push((name.to_owned(), text));
        }
        Ok(set)
    }
}

/// A regular file of at most so many bytes, as text.
pub(crate) fn read_text(path: &Path, most: u64) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let metadata = fs::metadata(path).map_err(unreadable)?;
    match metadata.len() {
        _ if !metadata.is_file() => Err("is no file".to_owned()),
        size if size > most => Err(format!("has {size} bytes, at most {most} are read")),
        _ => fs::read_to_string(path).map_err(unreadable),
    }
}

/// What of a plan is no parameter.
const OWN_KEYS: [&str; 8] = ["system", "title", "about", "include", "plot", "table", "variant", "heading"];

pub(super) fn read(path: &Path) -> Result<Plan, PlanError> {
    understand(&File::load(path)?)
}

pub(super) fn parse(path: &Path, text: &str) -> Result<Plan, PlanError> {
    understand(&File { path: path.to_owned(), text: text.to_owned() })
}

fn understand(file: &File) -> Result<Plan, PlanError> {
    let path = file.path.as_path();
    let root = file.parse()?;
    let table = root.get_ref();
    let get = |key: &str| table.get(key).ok_or_else(|| PlanError::in_file(path, None, &missing(key)));
    let name = get("system")?;
    let system = file.text(name, "system")?;
    let known = || system::ALL.into_iter().map(System::name);
    let system = system::find(system).ok_or_else(|| file.error(name, &unknown("system", system, known())))?;
    let mut settings = Settings::new(system.parameters());
    for include in includes(file, table)? {
        let parameters = File::load(&include)?;
        let root = parameters.parse()?;
        read_parameters(&parameters, root.get_ref(), &mut settings, &[])?;
    }
    read_parameters(file, table, &mut settings, &OWN_KEYS)?;
    if let Some(name) = settings.missing().first() {
        let message = format!("{name} has no value: give it one in the plan or in a file that it includes");
        return Err(PlanError::in_file(path, None, &message));
    }
    let shape = get("table")?;
    let (rows, columns, cell) = read_table(file, shape, system, &settings)?;
    let plan = Plan {
        path: path.to_owned(),
        title: file.text(get("title")?, "title")?.to_owned(),
        about: table.get("about").map_or(Ok(""), |about| file.text(about, "about"))?.to_owned(),
        system,
        rows,
        columns,
        cell,
        plot: read_plot(file, table, system)?,
        variants: read_variants(file, table, &settings)?,
        headings: read_headings(file, table, &settings)?,
        settings,
    };
    plan.check(&plan.settings).map_err(|message| PlanError::in_file(path, place(file, &message), &message))?;
    Ok(plan)
}

fn missing(key: &str) -> String {
    let example = match key {
        "system" => "system = \"ocf\"",
        "title" => "title = \"what it is about\"",
        _ => "[table] with rows and columns",
    };
    format!("has no `{key}`: add {example}")
}

/// The line of the file that sets the parameter at the head of a message, if it is set there.
fn place(file: &File, message: &str) -> Option<usize> {
    let (part, name) = message.split_once(':')?.0.split_once('.')?;
    let section = file.text.lines().position(|line| line.trim() == format!("[{part}]"))?;
    let offset = file.text.lines().skip(section).position(|line| line.trim_start().starts_with(name))?;
    Some(section + offset + 1)
}

fn includes(file: &File, table: &DeTable<'_>) -> Result<Vec<PathBuf>, PlanError> {
    let Some(value) = table.get("include") else { return Ok(Vec::new()) };
    let list = value.get_ref().as_array().ok_or_else(|| file.error(value, "include is a list of files"))?;
    if list.len() > MAX_INCLUDES {
        return Err(file.error(value, &format!("a plan includes at most {MAX_INCLUDES} files")));
    }
    let beside = file.path.parent().unwrap_or(Path::new("."));
    list.iter().map(|value| Ok(beside.join(file.text(value, "an included file")?))).collect()
}

/// Reads the sections of parameters. `own` names what else the file has.
fn read_parameters(file: &File, table: &DeTable<'_>, settings: &mut Settings, own: &[&str]) -> Result<(), PlanError> {
    for (part, section) in table {
        if own.contains(&part.get_ref().as_ref()) {
            continue;
        }
        let parts = || settings.iter().filter_map(|(parameter, _)| Some(parameter.name.split_once('.')?.0));
        if !parts().any(|known| known == part.get_ref()) {
            return Err(file.error(part, &unknown("part", part.get_ref(), parts())));
        }
        for (name, value) in file.table(section, "a part")? {
            let full = format!("{}.{}", part.get_ref(), name.get_ref());
            let index = settings.find(&full).map_err(|message| file.error(name, &message))?;
            read_value(file, index, value, settings)?;
        }
    }
    Ok(())
}

/// A plain value, or one with its unit, origin and meaning.
fn read_value(file: &File, index: usize, value: &Entry<'_>, settings: &mut Settings) -> Result<(), PlanError> {
    let parameter = settings.parameter(index);
    let Some(documented) = value.get_ref().as_table() else {
        let text = file.scalar(value, parameter.name)?;
        return settings.set(parameter.name, &text, Source::Plan).map_err(|message| file.error(value, &message));
    };
    let get = |key: &str| {
        let message =
            format!("{} has no `{key}`: write value, unit, origin and meaning, or a plain value", parameter.name);
        documented.get(key).ok_or_else(|| file.error(value, &message))
    };
    for (key, _) in documented {
        let known = ["value", "unit", "origin", "meaning"];
        if !known.contains(&key.get_ref().as_ref()) {
            return Err(file.error(key, &unknown("key", key.get_ref(), known.into_iter())));
        }
    }
    let unit = get("unit")?;
    if file.text(unit, "a unit")? != parameter.unit {
        let message = format!(
            "{} is in {}: convert the value and write unit = \"{}\"",
            parameter.name, parameter.unit, parameter.unit
        );
        return Err(file.error(unit, &message));
    }
    let origin = get("origin")?;
    let name = file.text(origin, "an origin")?;
    let names = Origin::ALL.into_iter().map(|(_, name)| name);
    let found = Origin::ALL.into_iter().find(|(_, known)| *known == name);
    let (found, _) = found.ok_or_else(|| file.error(origin, &unknown("origin", name, names)))?;
    let meaning = file.text(get("meaning")?, "a meaning")?.to_owned();
    let value = get("value")?;
    let text = file.scalar(value, parameter.name)?;
    settings
        .set(parameter.name, &text, Source::Documented(found, meaning))
        .map_err(|message| file.error(value, &message))
}

fn read_table(
    file: &File,
    shape: &Entry<'_>,
    system: &'static dyn System,
    settings: &Settings,
) -> Result<(Axis, Axis, Option<usize>), PlanError> {
    let table = file.table(shape, "table")?;
    for (key, _) in table {
        if !["rows", "columns", "cell"].contains(&key.get_ref().as_ref()) {
            return Err(file.error(key, &unknown("key", key.get_ref(), ["rows", "columns", "cell"].into_iter())));
        }
    }
    let axis = |key: &str| {
        let missing = || file.error(shape, &format!("the table has no `{key}`: write {key} = {{ threads = [1, 2] }}"));
        read_axis(file, table.get(key).ok_or_else(missing)?, system, settings)
    };
    let (rows, columns) = (axis("rows")?, axis("columns")?);
    let cells = rows.len() * columns.len();
    if cells > MAX_CELLS {
        return Err(
            file.error(shape, &format!("the table has {cells} cells, at most {MAX_CELLS} are run: widen the steps"))
        );
    }
    let cell = match table.get("cell") {
        Some(name) => Some(metric(system, file.text(name, "cell")?).map_err(|message| file.error(name, &message))?),
        None => None,
    };
    let over_metrics = [&rows, &columns].into_iter().filter(|axis| matches!(axis, Axis::Metrics(_))).count();
    match (over_metrics, cell) {
        (0, None) => Err(file.error(shape, "the table does not say what is in a cell: add cell = \"METRIC\"")),
        (2, _) => Err(file.error(shape, "rows and columns both go over metrics: give one of them a parameter")),
        _ => Ok((rows, columns, cell)),
    }
}

/// `{ name = values }`: a list, a range, or metrics.
fn read_axis(
    file: &File,
    value: &Entry<'_>,
    system: &'static dyn System,
    settings: &Settings,
) -> Result<Axis, PlanError> {
    let table = file.table(value, "an axis")?;
    let (Some((name, values)), 1) = (table.iter().next(), table.len()) else {
        return Err(file.error(value, "an axis goes over one thing: write { NAME = [VALUES] }"));
    };
    let labels = match values.get_ref() {
        DeValue::Array(list) => list.iter().map(|item| file.scalar(item, "a value")).collect::<Result<Vec<_>, _>>()?,
        DeValue::Table(_) => range(file, values)?,
        _ => return Err(file.error(values, "write a list, or { from = 1, to = 64, factor = 2 }")),
    };
    if labels.is_empty() || labels.len() > MAX_AXIS {
        return Err(file.error(values, &format!("an axis has 1 to {MAX_AXIS} values, this one {}", labels.len())));
    }
    let axis = Axis::named(name.get_ref(), &labels, system, settings).map_err(|message| file.error(name, &message))?;
    if let Axis::Parameter { name, values: labels } = &axis {
        for label in labels {
            let mut probe = settings.clone();
            probe.set(name, label, Source::Plan).map_err(|message| file.error(values, &message))?;
        }
    }
    Ok(axis)
}

/// `{ from, to, step }` or `{ from, to, factor }`.
fn range(file: &File, value: &Entry<'_>) -> Result<Vec<String>, PlanError> {
    let table = file.table(value, "a range")?;
    let number = |key: &str| -> Result<Option<f64>, PlanError> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let number = file.scalar(value, key)?.parse().ok().filter(|number: &f64| number.is_finite());
        number.map(Some).ok_or_else(|| file.error(value, &format!("{key} is a number")))
    };
    let known = ["from", "to", "step", "factor"];
    for (key, _) in table {
        if !known.contains(&key.get_ref().as_ref()) {
            return Err(file.error(key, &unknown("key", key.get_ref(), known.into_iter())));
        }
    }
    let (Some(from), Some(to)) = (number("from")?, number("to")?) else {
        return Err(file.error(value, "a range has `from` and `to`"));
    };
    let at: Box<dyn Fn(f64) -> f64> = match (number("step")?, number("factor")?) {
        (Some(step), None) if step > 0.0 => Box::new(move |i| from + step * i),
        (None, Some(factor)) if factor > 1.0 && from > 0.0 => Box::new(move |i| from * factor.powf(i)),
        _ => {
            let message = "a range has either a `step` above 0 or a `factor` above 1 and `from` above 0";
            return Err(file.error(value, message));
        }
    };
    let values: Vec<f64> = (0..=MAX_AXIS).map(|i| tidy(at(i as f64))).take_while(|value| *value <= to).collect();
    if values.len() > MAX_AXIS {
        return Err(file.error(value, &format!("the range has more than {MAX_AXIS} values: widen its step")));
    }
    Ok(values.iter().map(f64::to_string).collect())
}

/// Without the last digits, which sums of steps get wrong.
fn tidy(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

fn read_list<'a, 'b>(file: &File, table: &'a DeTable<'b>, key: &str) -> Result<&'a [Entry<'b>], PlanError> {
    match table.get(key) {
        None => Ok(&[]),
        Some(value) => {
            let list = value.get_ref().as_array().map(|list| &list[..]);
            list.ok_or_else(|| file.error(value, &format!("{key} is a list")))
        }
    }
}

/// The text and the settings of each `[[key]]`.
fn read_named(
    file: &File,
    table: &DeTable<'_>,
    (key, name): (&str, &str),
    settings: &Settings,
) -> Result<Vec<(String, Changes)>, PlanError> {
    let mut all = Vec::new();
    for item in read_list(file, table, key)? {
        let fields = file.table(item, key)?;
        let get = |field: &str| {
            fields.get(field).ok_or_else(|| file.error(item, &format!("this {key} has no `{field}`: add it")))
        };
        all.push((file.text(get(name)?, name)?.to_owned(), file.set(get("set")?, settings)?));
    }
    Ok(all)
}

/// Metrics that are drawn.
fn read_plot(file: &File, table: &DeTable<'_>, system: &'static dyn System) -> Result<Vec<usize>, PlanError> {
    let metrics = read_list(file, table, "plot")?.iter();
    metrics
        .map(|name| metric(system, file.text(name, "a metric")?).map_err(|message| file.error(name, &message)))
        .collect()
}

fn read_variants(file: &File, table: &DeTable<'_>, settings: &Settings) -> Result<Vec<Variant>, PlanError> {
    let all = read_named(file, table, ("variant", "name"), settings)?;
    if let Some((name, _)) = all.iter().find(|(_, set)| set.iter().any(|(_, value)| value == NUMBER)) {
        return Err(PlanError::in_file(
            &file.path,
            None,
            &format!("variant {name:?}: {NUMBER} stands for a number in headings only"),
        ));
    }
    Ok(all.into_iter().map(|(name, set)| Variant { name, set }).collect())
}

fn read_headings(file: &File, table: &DeTable<'_>, settings: &Settings) -> Result<Vec<Heading>, PlanError> {
    let all = read_named(file, table, ("heading", "says"), settings)?;
    let numbers = |set: &Changes| set.iter().any(|(_, value)| value == NUMBER);
    if let Some((says, _)) = all.iter().find(|(says, set)| numbers(set) && says.matches(NUMBER).count() != 1) {
        let message = format!("heading {says:?} sets a number but has no {NUMBER}, or several");
        return Err(PlanError::in_file(&file.path, None, &message));
    }
    Ok(all.into_iter().map(|(says, set)| Heading { says, set }).collect())
}
