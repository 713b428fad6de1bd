//! Forbidden words of any file: unfinished work, tests switched off, lints silenced, paths of one machine.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Finding;
use crate::source::{Source, each_token, group, is_word, line};
use crate::tree::Tree;

// Written in two parts, so that this file does not contain them.
const UNDONE: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
const MACHINE: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
const MACROS: [&str; 3] = [concat!("to", "do"), "unimplemented", "dbg"];

pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = mod_file(source).into_iter().chain(undone(source)).collect();
    source.each_token(&mut |tokens| {
        let found = unfinished(tokens).or_else(|| attribute(tokens).and_then(|inside| forbidden(&inside)));
        let line = line(tokens[0].span());
        findings.extend(found.map(|(wrong, remedy)| Finding::new(source.path, line, wrong, remedy)));
    });
    findings
}

pub(super) fn machine_paths(tree: &Tree) -> Vec<Finding> {
    let lines =
        tree.texts().flat_map(|(path, text)| (1..).zip(text.lines()).map(move |(line, text)| (path, line, text)));
    let found = lines.filter_map(|(path, line, text)| {
        let name = MACHINE.iter().find(|name| begins_path(text, name))?;
        Some(Finding::new(path, line, format!("path of one machine, {name}"), "say it relative to the project's root"))
    });
    found.collect()
}

fn mod_file(source: &Source<'_>) -> Option<Finding> {
    let directory = source.path.strip_suffix("/mod.rs")?;
    Some(Finding::new(source.path, 1, "a file `mod.rs`", format!("name it {directory}.rs")))
}

fn undone<'a>(source: &'a Source<'_>) -> impl Iterator<Item = Finding> + 'a {
    (1..).zip(&source.lines).filter_map(|(line, text)| {
        let word = UNDONE.iter().find(|word| text.contains(*word))?;
        Some(Finding::new(source.path, line, format!("the word {word}"), "do it now, or leave it out"))
    })
}

type Verdict = (String, &'static str);

fn unfinished(tokens: &[TokenTree]) -> Option<Verdict> {
    let name = MACROS.iter().find(|name| is_word(tokens.first(), name))?;
    let is_call = matches!(tokens.get(1), Some(TokenTree::Punct(mark)) if mark.as_char() == '!');
    is_call.then(|| (format!("the macro `{name}!`"), "write what it stands for"))
}

fn attribute(tokens: &[TokenTree]) -> Option<TokenStream> {
    let is_mark =
        |index: usize, mark| matches!(tokens.get(index), Some(TokenTree::Punct(punct)) if punct.as_char() == mark);
    let index = if is_mark(1, '!') { 2 } else { 1 };
    let inside = group(tokens.get(index), Delimiter::Bracket).filter(|_| is_mark(0, '#'))?;
    Some(inside.stream())
}

fn forbidden(attribute: &TokenStream) -> Option<Verdict> {
    let inside: Vec<TokenTree> = attribute.clone().into_iter().collect();
    let first = inside.first();
    if is_word(first, "cfg_attr") {
        let mut verdict = None;
        each_token(attribute.clone(), &mut |tokens| verdict = verdict.take().or_else(|| silencing(tokens)));
        return verdict;
    }
    silencing(&inside)
}

fn silencing(tokens: &[TokenTree]) -> Option<Verdict> {
    let arguments = group(tokens.get(1), Delimiter::Parenthesis);
    let has_reason =
        |group: &proc_macro2::Group| group.stream().into_iter().any(|token| is_word(Some(&token), "reason"));
    if is_word(tokens.first(), "allow") && arguments.is_some() {
        Some(("an `allow`".to_owned(), "use `expect` with a reason, on the smallest item"))
    } else if is_word(tokens.first(), "expect") && arguments.is_some_and(|arguments| !has_reason(arguments)) {
        Some(("an `expect` without a reason".to_owned(), "add `reason = \"...\"`"))
    } else if is_word(tokens.first(), "ignore") {
        Some(("a test that is ignored".to_owned(), "make it pass or remove it"))
    } else {
        None
    }
}

/// Whether the text names that directory from the file system's root, not as the middle of a longer path.
fn begins_path(text: &str, name: &str) -> bool {
    let is_middle = |before: &str| before.ends_with(|last: char| last.is_alphanumeric() || "_-./}*".contains(last));
    text.match_indices(name).any(|(index, _)| !is_middle(&text[..index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&Source::of("src/a.rs", text)).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn undone_work_is_found() {
        let word = UNDONE[0];
        assert_eq!(lines(&format!("// fine\n// {word}: later")), [2]);
        assert_eq!(lines("fn f() {\n    todo!()\n}\nfn g() {\n    m!(unimplemented!());\n    dbg!(1);\n}"), [2, 5, 6]);
        assert_eq!(lines("/// Says `dbg!(x)` and todo!().\nfn todo() { let dbg = \"todo!()\"; todo() }"), [0; 0]);
    }

    #[test]
    fn silenced_lints_and_tests_are_found() {
        let bad = [
            "#![allow(dead_code)]",
            "#[allow(dead_code)]\nfn f() {}",
            "#[cfg_attr(test, allow(dead_code))]\nfn f() {}",
            "#[test]\n#[ignore = \"slow\"]\nfn f() {}",
            "#[cfg_attr(miri, ignore)]\nfn f() {}",
            "#[expect(dead_code)]\nfn f() {}",
            "m! { #[allow(x)] fn f() {} }",
        ];
        for text in bad {
            assert_eq!(lines(text).len(), 1, "{text}");
        }
        let good = [
            "#[expect(dead_code, reason = \"read by C\")]\nfn f() {}",
            "fn allow(x: u8) { x.expect(\"allow(x)\"); allow(3) }",
            "#[serde(ignore)]\nstruct S;",
        ];
        for text in good {
            assert_eq!(lines(text), [0; 0], "{text}");
        }
    }

    #[test]
    fn mod_files_are_found() {
        assert_eq!(check(&Source::of("src/a/mod.rs", "")).len(), 1);
        assert_eq!(check(&Source::of("src/a.rs", "")), []);
    }

    #[test]
    fn paths_of_a_machine_are_found_in_any_text() {
        let path = |before: &str| format!("one\n{before}{}x", MACHINE[0]);
        let check = |text: &str| machine_paths(&Tree::of(&[("docs/a.md", text)]));
        for before in ["see ", "\"", "(", ""] {
            assert_eq!(check(&path(before)).iter().map(|finding| finding.line).collect::<Vec<_>>(), [2], "{before}");
        }
        for before in ["target", "https://example.org", "$dir/a."] {
            assert_eq!(check(&path(before)), [], "{before}");
        }
    }
}
