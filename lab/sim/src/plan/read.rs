//! Reads a plan with its files, and finds all of its errors, each with its line.

use super::axis::{Axis, Shape, metric};
use super::errors::Errors;
use super::file::File;
use super::written::{Documented, Over, Scalar, Set, Table, Written, WrittenChoice, WrittenHeading, WrittenVariant};
use super::{Changes, Choice, Heading, MAX_AXIS, MAX_CELLS, NUMBER, Plan, PlanError, Variant};
use crate::names::unknown;
use crate::settings::{Parameter, Settings, Source};
use crate::system::{self, System};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const MAX_INCLUDES: usize = 16;

impl Plan {
    /// Reads a plan with all includes, and checks that it can run.
    ///
    /// # Errors
    ///
    /// With file, line and remedy, if it cannot be read, has an unknown name or a wrong unit, or is impossible. Several
    /// errors are in one [`PlanError::Several`].
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
    let mut errors = Errors::default();
    let plan = plan_of(file, &mut errors);
    errors.unless(&file.path, plan)
}

/// `None` only with errors. An error that follows from another one is left out.
fn plan_of(file: &File, errors: &mut Errors) -> Option<Plan> {
    let mut root = errors.note(file.parse())?;
    let written = Written::take(file, &mut root, errors);
    let included = includes(file, &written.include, errors);
    let tables = included.iter().filter_map(|file| Some((file, errors.note(file.parse())?.into_inner())));
    let mut tables: Vec<(&File, DeTable<'_>)> = tables.collect();
    let name = written.system.as_ref()?;
    let of_name = system::find(name.get_ref()).ok_or_else(|| file.wrong(name)(system::unknown(name.get_ref())));
    let system = errors.note(of_name)?;
    if tables.len() < written.include.len() {
        return None;
    }
    tables.push((file, root.into_inner()));
    let mut named = BTreeSet::new();
    for (_, table) in &tables {
        name_parts(table, "", &mut named);
    }
    let beside = file.path.parent().unwrap_or(Path::new("."));
    let mut parts = Parts::new(system.settings(&named).beside(beside), errors);
    for (file, table) in tables {
        parts.read(file, table, system);
    }
    parts.complete(file);
    let Parts { settings, places, lacks_part, .. } = parts;
    if lacks_part && !system.open_parts.is_empty() {
        return None;
    }
    let plan = Naming { file, system, settings: &settings, errors }.plan(written)?;
    if errors.is_empty() {
        for impossible in system.broken(&plan.settings) {
            let place = places.get(&impossible.parameter);
            let (path, line) = place.map_or((&file.path, None), |(path, line)| (path, Some(*line)));
            errors.push(PlanError::in_file(path, line, impossible.message));
        }
    }
    Some(plan)
}

/// The included files that can be read.
fn includes(file: &File, written: &[Spanned<String>], errors: &mut Errors) -> Vec<File> {
    if let Some(first) = written.get(MAX_INCLUDES) {
        errors.push(file.wrong(first)(format!("a plan includes at most {MAX_INCLUDES} files")));
        return Vec::new();
    }
    let beside = file.path.parent().unwrap_or(Path::new("."));
    written.iter().filter_map(|include| errors.note(File::load(&beside.join(include.get_ref())))).collect()
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

/// Parameters from the parts of all files.
struct Parts<'a> {
    settings: Settings,
    /// Of parts and parameters, also of those with a wrong value.
    places: Places,
    lacks_part: bool,
    lacks_name: bool,
    errors: &'a mut Errors,
}

impl<'a> Parts<'a> {
    fn new(settings: Settings, errors: &'a mut Errors) -> Self {
        Self { settings, places: Places::new(), lacks_part: false, lacks_name: false, errors }
    }

    fn read(&mut self, file: &File, parts: DeTable<'_>, system: &System) {
        for (part, section) in parts {
            let open = system.open_parts.iter().copied();
            let names = self.settings.iter().filter_map(|(known, _)| Some(known.name.split_once('.')?.0));
            let known: Vec<&str> = open.chain(names).collect();
            if !known.contains(&AsRef::<str>::as_ref(part.get_ref())) {
                self.lacks_part = true;
                self.errors.push(file.wrong(&part)(unknown("part", part.get_ref(), known.into_iter())));
                continue;
            }
            match section.into_inner() {
                DeValue::Table(section) => self.section(file, part.get_ref(), section),
                _ => self.errors.push(file.wrong(&part)("a part is a table")),
            }
        }
    }

    fn section(&mut self, file: &File, part: &str, section: DeTable<'_>) {
        for (name, value) in section {
            let full = full_name(part, name.get_ref());
            let is_part = matches!(value.get_ref(), DeValue::Table(inner) if !is_documented(inner));
            if is_part && name.get_ref().contains('.') {
                let message = format!("the name {:?} has a dot: leave it out", name.get_ref());
                self.errors.push(file.wrong(&name)(message));
                self.lacks_part = true;
                continue;
            }
            if is_part && self.settings.has_part(&full) {
                let DeValue::Table(inner) = value.into_inner() else { continue };
                self.section(file, &full, inner);
                self.places.insert(full, (file.path.clone(), file.line(name.span().start)));
                continue;
            }
            match self.settings.find(&full) {
                Ok(index) => {
                    let set = self.value(file, &self.settings.parameter(index).clone(), value);
                    self.errors.note(set);
                    self.places.insert(full, (file.path.clone(), file.line(name.span().start)));
                }
                Err(error) => {
                    self.lacks_name = true;
                    self.errors.push(file.wrong(&name)(error));
                }
            }
        }
    }

    fn value(&mut self, file: &File, of: &Parameter, value: Spanned<DeValue<'_>>) -> Result<(), PlanError> {
        let (value, source) = value_of(file, of, value)?;
        self.settings.set(&of.name, &value.get_ref().to_string(), source).map_err(file.wrong(&value))
    }

    /// Sets defaults. A parameter without any value is an error, unless a wrong name may stand for it.
    fn complete(&mut self, file: &File) {
        let filled = self.settings.fill().map_err(|message| file.error(None, message));
        self.errors.note(filled);
        if self.lacks_part || self.lacks_name {
            return;
        }
        let lacks = |name: &String| !self.places.contains_key(name);
        let missing = self.settings.iter().filter(|(known, value)| value.is_none() && lacks(&known.name));
        for (parameter, _) in missing {
            let remedy = "give it one in the plan or in a file that it includes";
            self.errors.push(file.error(None, format!("{} has no value: {remedy}", parameter.name)));
        }
    }
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

/// Entries of the plan's own, which name parameters and metrics.
struct Naming<'a> {
    file: &'a File,
    system: &'static System,
    settings: &'a Settings,
    errors: &'a mut Errors,
}

impl Naming<'_> {
    fn plan(&mut self, written: Written) -> Option<Plan> {
        let cases: Vec<Variant> = written.case.into_iter().map(|case| self.variant(case)).collect();
        if let Some(twice) = (1..cases.len()).find(|at| cases[..*at].iter().any(|case| case.name == cases[*at].name)) {
            let message = format!("there are two cases {:?}: rename one", cases[twice].name);
            self.errors.push(self.file.error(None, message));
        }
        let shape = written.table.as_ref().and_then(|table| self.shape(table, &cases));
        let plot = written.plot.iter().filter_map(|name| self.metric(name)).collect();
        let variants = written.variant.into_iter().map(|variant| self.variant(variant)).collect();
        let headings = written.heading.into_iter().map(|heading| self.heading(heading)).collect();
        let choice = written.choose.as_ref().map(|choice| self.choice(choice.get_ref()));
        Some(Plan {
            path: self.file.path.clone(),
            title: written.title?,
            about: written.about.unwrap_or_default(),
            system: self.system,
            shape: shape?,
            plot,
            variants,
            headings,
            choice: choice.flatten(),
            cases,
            settings: self.settings.clone(),
        })
    }

    fn metric(&mut self, name: &Spanned<String>) -> Option<usize> {
        self.errors.note(metric(self.system, name.get_ref()).map_err(self.file.wrong(name)))
    }

    fn parameter(&mut self, name: &Spanned<String>) -> Option<String> {
        let index = self.errors.note(self.settings.find(name.get_ref()).map_err(self.file.wrong(name)))?;
        Some(self.settings.parameter(index).name.clone())
    }

    /// Also a variant with a wrong change has its name.
    fn variant(&mut self, WrittenVariant { name, set }: WrittenVariant) -> Variant {
        Variant { name, set: self.changes(&set, false) }
    }

    fn shape(&mut self, table: &Spanned<Table>, cases: &[Variant]) -> Option<Shape> {
        let Table { rows, columns, cell } = table.get_ref();
        let (rows, columns) = (self.axis(rows, cases), self.axis(columns, cases));
        let cell = cell.as_ref().map(|name| self.metric(name));
        let (rows, columns) = (rows?, columns?);
        let cells = rows.labels.len() * columns.labels.len();
        let message = match (rows.is_metrics(), columns.is_metrics(), cell) {
            _ if cells > MAX_CELLS => {
                format!("the table has {cells} cells, at most {MAX_CELLS} are run: widen the steps")
            }
            (false, false, None) => "the table does not say what is in a cell: add cell = \"METRIC\"".to_owned(),
            (true, true, _) => "rows and columns both go over metrics: give one of them a parameter".to_owned(),
            _ => return Some(Shape { rows, columns, cell: cell.flatten() }),
        };
        self.errors.push(self.file.wrong(table)(message));
        None
    }

    fn axis(&mut self, over: &Spanned<Over>, cases: &[Variant]) -> Option<Axis> {
        let found = self.axis_of(over, cases);
        self.errors.note(found)
    }

    fn axis_of(&self, over: &Spanned<Over>, cases: &[Variant]) -> Result<Axis, PlanError> {
        let Self { file, settings, .. } = self;
        let (Some((name, values)), 1) = (over.get_ref().iter().next(), over.get_ref().len()) else {
            return Err(file.wrong(over)("an axis goes over one thing: write { NAME = [VALUES] }"));
        };
        let labels = values.get_ref().labels().map_err(file.wrong(values))?;
        if labels.is_empty() || labels.len() > MAX_AXIS {
            let message = format!("an axis has 1 to {MAX_AXIS} values, this one {}", labels.len());
            return Err(file.wrong(values)(message));
        }
        let known = (*settings, cases);
        let axis = Axis::named(name.get_ref(), &labels, self.system, known).map_err(file.wrong(name))?;
        if axis.is_parameter() {
            labels.iter().try_for_each(|label| settings.accepts(&axis.name, label)).map_err(file.wrong(values))?;
        }
        Ok(axis)
    }

    fn changes(&mut self, set: &Set, is_number: bool) -> Changes {
        let mut changes = Changes::new();
        for (name, value) in set {
            let Some(name) = self.parameter(name) else { continue };
            let text = value.get_ref().to_string();
            let accepted = match (text == NUMBER, is_number) {
                (true, true) => Ok(()),
                (true, false) => {
                    let message = format!("{NUMBER} stands for a number in headings only: write the value");
                    Err(self.file.wrong(value)(message))
                }
                _ => self.settings.accepts(&name, &text).map_err(self.file.wrong(value)),
            };
            self.errors.note(accepted);
            changes.push((name, text));
        }
        changes
    }

    fn choice(&mut self, written: &WrittenChoice) -> Option<Choice> {
        let (load, latency) = (self.parameter(&written.load), self.metric(&written.latency));
        let rate = self.metric(&written.rate);
        let mut over = Vec::new();
        for (name, values) in &written.over {
            let full = self.parameter(name);
            let labels = values.get_ref().labels().map_err(self.file.wrong(values));
            let (Some(full), Some(labels)) = (full, self.errors.note(labels)) else { continue };
            let accepted = labels.iter().try_for_each(|label| self.settings.accepts(&full, label));
            self.errors.note(accepted.map_err(self.file.wrong(values)));
            over.push((full, labels));
        }
        let cost = written.cost.iter().map(|(name, price)| (name.clone(), *price)).collect();
        Some(Choice { load: load?, latency: latency?, rate: rate?, over, cost, error: written.error })
    }

    fn heading(&mut self, written: WrittenHeading) -> Heading {
        let (says, set) = (written.says.get_ref(), self.changes(&written.set, true));
        if set.iter().any(|(_, value)| value == NUMBER) && says.matches(NUMBER).count() != 1 {
            let message = format!("heading {says:?} sets a number but has no {NUMBER}, or several");
            self.errors.push(self.file.wrong(&written.says)(message));
        }
        Heading { says: written.says.into_inner(), set }
    }
}
