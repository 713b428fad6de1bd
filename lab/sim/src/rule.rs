//! Guesses a table's cell from its other cells, without any knowledge of the subject.
//!
//! This rule is the yardstick of a model: a model that is no better explains nothing. Only cells of the same figure and
//! unit tell of each other. In a table of one metric the guess for a cell is its row's factor times its column's, from
//! all other cells (two-way analysis on logarithms, repeated until convergence; Tukey, "Exploratory Data Analysis",
//! chapter 11, with means). In a single row or column the guess is on the straight line through the two nearest cells,
//! on logarithmic scales. Where labels are words, it is the others' geometric mean.

/// Rounds of adjusting the factors of rows and columns: without gaps in the table two are enough.
const TURNS: usize = 50;

/// The cells of one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Figure {
    Table,
    EachRow,
    EachColumn,
}

/// The guess for each cell; `None` if the others do not determine it.
///
/// `rows` has the cells, all rows of the length of `columns`; `labels` are those of the rows.
pub(crate) fn guesses(
    rows: &[Vec<Option<f64>>],
    (labels, columns): (&[String], &[String]),
    figure: Figure,
) -> Vec<Vec<Option<f64>>> {
    let logarithms: Vec<Vec<Option<f64>>> =
        rows.iter().map(|row| row.iter().map(|value| value.filter(|v| *v > 0.0).map(f64::ln)).collect()).collect();
    let guess = |r: usize, c: usize| match (&logarithms[..], figure) {
        (all, Figure::EachColumn) => {
            let column: Vec<Option<f64>> = all.iter().map(|row| row.get(c).copied().flatten()).collect();
            along(&column, labels, r)
        }
        ([row], _) => along(row, columns, c),
        (all, Figure::EachRow) => along(&all[r], columns, c),
        (all, Figure::Table) => by_factors(all, (r, c)),
    };
    (0..rows.len()).map(|r| (0..columns.len()).map(|c| guess(r, c).map(f64::exp)).collect()).collect()
}

fn along(cells: &[Option<f64>], labels: &[String], at: usize) -> Option<f64> {
    if labels.iter().any(|label| label.parse::<f64>().is_ok()) {
        return on_line(cells, labels, at);
    }
    mean(cells.iter().enumerate().filter(|(cell, _)| *cell != at).filter_map(|(_, value)| *value))
}

fn by_factors(all: &[Vec<Option<f64>>], (row, column): (usize, usize)) -> Option<f64> {
    let (height, width) = (all.len(), all[row].len());
    let value = |r: usize, c: usize| if (r, c) == (row, column) { None } else { all[r].get(c).copied().flatten() };
    let (mut of_rows, mut of_columns) = (vec![0.0; height], vec![0.0; width]);
    for _ in 0..TURNS {
        for (r, part) in of_rows.iter_mut().enumerate() {
            let rest = mean((0..width).filter_map(|c| Some(value(r, c)? - of_columns[c])));
            *part = rest.or((r != row).then_some(0.0))?;
        }
        for (c, part) in of_columns.iter_mut().enumerate() {
            let rest = mean((0..height).filter_map(|r| Some(value(r, c)? - of_rows[r])));
            *part = rest.or((c != column).then_some(0.0))?;
        }
    }
    Some(of_rows[row] + of_columns[column])
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn on_line(row: &[Option<f64>], columns: &[String], column: usize) -> Option<f64> {
    let place = |c: usize| columns[c].parse::<f64>().ok().filter(|label| *label > 0.0).map(f64::ln);
    let at = place(column)?;
    let mut others: Vec<(f64, f64)> = (0..row.len())
        .filter(|c| *c != column)
        .filter_map(|c| Some((place(c)?, row[c]?)))
        .filter(|(place, _)| place.total_cmp(&at).is_ne())
        .collect();
    others.sort_by(|a, b| (a.0 - at).abs().total_cmp(&(b.0 - at).abs()));
    // Interpolates between neighbours on both sides if there are any, else extrapolates from the two nearest.
    let first = *others.first()?;
    let across = others.iter().find(|other| (other.0 < at) != (first.0 < at));
    let second = *across.or(others.get(1))?;
    Some(first.1 + (second.1 - first.1) * (at - first.0) / (second.0 - first.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(all: &[&str]) -> Vec<String> {
        all.iter().map(|label| (*label).to_owned()).collect()
    }

    #[test]
    fn a_table_of_products_is_guessed_exactly_and_a_cell_does_not_know_itself() {
        let mut rows: Vec<Vec<Option<f64>>> =
            [1.0, 3.0, 7.0].map(|row| [2.0, 5.0, 11.0].map(|column| Some(row * column)).to_vec()).to_vec();
        let columns = labels(&["a", "b", "c"]);
        let names = labels(&["x", "y", "z"]);
        let guesses = |rows: &[Vec<Option<f64>>], columns: &[String]| guesses(rows, (&names, columns), Figure::Table);
        let all = guesses(&rows, &columns);
        for (row, found) in rows.iter().zip(&all) {
            for (value, guess) in row.iter().zip(found) {
                assert!((guess.unwrap() / value.unwrap() - 1.0).abs() < 1e-9, "{all:?}");
            }
        }
        rows[1][1] = Some(1_000.0);
        assert!((guesses(&rows, &columns)[1][1].unwrap() / 15.0 - 1.0).abs() < 1e-9);
        rows[0] = vec![None, None, Some(4.0)];
        assert_eq!(guesses(&rows, &columns)[0][2], None, "nothing else is known of its row");
    }

    #[test]
    fn one_row_is_guessed_along_a_line_on_logarithmic_scales() {
        let row = vec![Some(1.0), Some(4.0), Some(16.0), None];
        let one = labels(&["x"]);
        let guesses = |rows: &[Vec<Option<f64>>], columns: &[String]| guesses(rows, (&one, columns), Figure::Table);
        let found = guesses(&[row], &labels(&["1", "2", "4", "x"]));
        assert!(
            found[0][..3]
                .iter()
                .zip([1.0, 4.0, 16.0])
                .all(|(guess, value)| (guess.unwrap() / value - 1.0).abs() < 1e-9)
        );
        assert_eq!(found[0][3], None);
        assert_eq!(guesses(&[vec![Some(1.0), Some(2.0)]], &labels(&["1", "2"])), [[None, None]]);
    }

    #[test]
    fn other_units_tell_nothing_of_a_figure() {
        let rows = [vec![Some(4.0), Some(9.0), None], vec![Some(50_000.0), Some(60_000.0), Some(70_000.0)]];
        let (names, columns) = (labels(&["us", "1/s"]), labels(&["a", "b", "c"]));
        let found = guesses(&rows, (&names, &columns), Figure::EachRow);
        assert!((found[0][0].unwrap() - 9.0).abs() < 1e-9 && (found[0][2].unwrap() - 6.0).abs() < 1e-9, "{found:?}");
        let turned: Vec<Vec<Option<f64>>> = (0..3).map(|c| rows.iter().map(|row| row[c]).collect()).collect();
        let found = guesses(&turned, (&columns, &names), Figure::EachColumn);
        assert!((found[1][0].unwrap() - 4.0).abs() < 1e-9 && found[2][1].unwrap() > 50_000.0, "{found:?}");
    }
}
