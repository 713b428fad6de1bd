//! Rules of unsafe code: permitted places, and a reason for each use.

use proc_macro2::{Delimiter, TokenTree};
use syn::Meta;

use super::Finding;
use crate::source::{Source, group, is_word, line};

/// Modules that may hold unsafe code; `sys_poll` counts as `sys`.
const MODULES: [&str; 4] = ["shm", "sys", "ffi", "interpose"];
/// Crates that only decide: they can touch neither raw memory nor the system.
const DECIDING: [&str; 3] = ["base/core/src/lib.rs", "base/nodes/src/lib.rs", "sockets/streams/src/lib.rs"];

pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    source.each_token(&mut |tokens| {
        let Some(kind) = kind(tokens) else { return };
        let line = line(tokens[0].span());
        if !is_permitted(source.path) {
            let remedy = format!("move it to a module named {}", MODULES.join(", "));
            findings.push(Finding::new(source.path, line, "unsafe code outside the modules for it", remedy));
        }
        findings.extend(unexplained(source, &kind, line));
    });
    findings
}

pub(super) fn deciding_crates(source: &Source<'_>) -> Vec<Finding> {
    if !DECIDING.contains(&source.path) {
        return Vec::new();
    }
    let has = |accepted: &[&str]| {
        source.syntax.attrs.iter().any(|attribute| accepted.contains(&flat(&attribute.meta).as_str()))
    };
    let missing =
        |name: &str| Finding::new(source.path, 1, format!("no `#![{name}]`"), "put it below the module's doc");
    // Under loom the atomics come from a crate that needs the standard library.
    let no_std = (!has(&["no_std", "cfg_attr(not(loom),no_std)"])).then(|| missing("no_std"));
    let forbid = (!has(&["forbid(unsafe_code)"])).then(|| missing("forbid(unsafe_code)"));
    no_std.into_iter().chain(forbid).collect()
}

pub(super) fn blocks(source: &Source<'_>) -> usize {
    let mut count = 0;
    source.each_token(&mut |tokens| count += usize::from(matches!(kind(tokens), Some(Kind::Block { .. }))));
    count
}

/// The attribute without spaces, if it is a name or a name with arguments.
fn flat(meta: &Meta) -> String {
    let name = meta.path().get_ident().map(ToString::to_string).unwrap_or_default();
    match meta {
        Meta::List(list) => format!("{name}({})", list.tokens.to_string().replace(' ', "")),
        _ => name,
    }
}

enum Kind {
    Block {
        opens: usize,
    },
    Impl,
    Extern,
    Function,
    Trait,
    /// An attribute or the type of a function: no claim is made here.
    Other,
}

/// `None` where the tokens do not begin with `unsafe`.
fn kind(tokens: &[TokenTree]) -> Option<Kind> {
    let next = is_word(tokens.first(), "unsafe").then(|| tokens.get(1))?;
    Some(match next {
        Some(TokenTree::Ident(word)) if word == "impl" => Kind::Impl,
        Some(TokenTree::Ident(word)) if word == "trait" => Kind::Trait,
        Some(TokenTree::Ident(word)) if word == "fn" => function(&tokens[1..]),
        Some(TokenTree::Ident(word)) if word == "extern" => external(&tokens[2..]),
        _ => group(next, Delimiter::Brace).map_or(Kind::Other, |block| Kind::Block { opens: line(block.span_open()) }),
    })
}

/// Tokens after `unsafe`: a function has a name, the type of one does not.
fn function(tokens: &[TokenTree]) -> Kind {
    match tokens.get(1) {
        Some(TokenTree::Ident(_)) => Kind::Function,
        _ => Kind::Other,
    }
}

/// Tokens after `unsafe extern`: maybe an ABI, then a function or a block.
fn external(tokens: &[TokenTree]) -> Kind {
    let tokens = if matches!(tokens.first(), Some(TokenTree::Literal(_))) { &tokens[1..] } else { tokens };
    match group(tokens.first(), Delimiter::Brace) {
        Some(_) => Kind::Extern,
        None if is_word(tokens.first(), "fn") => function(tokens),
        None => Kind::Other,
    }
}

/// Only files under `src` have modules. Tests may have unsafe code anywhere, but need its reason.
fn is_permitted(path: &str) -> bool {
    let Some((_, inside)) = path.rsplit_once("src/") else { return true };
    let is_named =
        |part: &str, name: &str| part.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
    inside.trim_end_matches(".rs").split('/').any(|part| MODULES.iter().any(|name| is_named(part, name)))
}

fn unexplained(source: &Source<'_>, kind: &Kind, line: usize) -> Option<Finding> {
    let above = comments_above(&source.lines, line);
    let (explained, wrong, remedy) = match kind {
        Kind::Other => return None,
        Kind::Function | Kind::Trait => {
            let explained = above.iter().any(|text| text.starts_with("///") && text.contains("# Safety"));
            (explained, "no `# Safety` section", "say in its doc what the caller must ensure")
        }
        Kind::Block { opens } if has_reason(&comments_below(&source.lines, *opens)) => return None,
        Kind::Block { .. } | Kind::Impl | Kind::Extern => {
            (has_reason(&above), "no `// SAFETY:` comment", "say directly above why it is sound")
        }
    };
    (!explained).then(|| Finding::new(source.path, line, wrong, remedy))
}

fn has_reason(comments: &[&str]) -> bool {
    comments.iter().any(|text| text.starts_with("// SAFETY:"))
}

/// The comments above a line, and above the beginning of the statement it is part of.
fn comments_above<'a>(lines: &[&'a str], line: usize) -> Vec<&'a str> {
    let mut comments = Vec::new();
    for text in lines[..line - 1].iter().rev().map(|text| text.trim()) {
        if text.starts_with("//") {
            comments.push(text);
        } else if ends_statement(text) || !(comments.is_empty() || text.starts_with("#[")) {
            break;
        }
    }
    comments
}

fn comments_below<'a>(lines: &[&'a str], line: usize) -> Vec<&'a str> {
    lines[line..].iter().map(|text| text.trim()).take_while(|text| text.starts_with("//")).collect()
}

fn ends_statement(text: &str) -> bool {
    let code = text.split(" //").next().unwrap_or(text).trim_end();
    code.is_empty() || code.ends_with([';', '{', '}']) || code.contains("unsafe") && !code.starts_with("#[")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrongs(path: &str, text: &str) -> Vec<String> {
        check(&Source::of(path, text)).into_iter().map(|finding| finding.wrong).collect()
    }

    #[test]
    fn unsafe_code_has_its_modules() {
        let text = "fn f() {\n    // SAFETY: a test.\n    unsafe { g() }\n}";
        for path in ["keys/a/src/shm.rs", "keys/a/src/sys/poll.rs", "keys/a/src/x/ffi_tls.rs", "keys/a/tests/t.rs"] {
            assert_eq!(wrongs(path, text), [""; 0], "{path}");
        }
        for path in ["keys/a/src/client.rs", "keys/ffi/src/lib.rs", "keys/a/src/system.rs"] {
            assert_eq!(wrongs(path, text).len(), 1, "{path}");
        }
        assert_eq!(wrongs("keys/a/src/lib.rs", "m! { unsafe {} }").len(), 2);
    }

    #[test]
    fn a_block_has_its_reason_above_or_at_its_top() {
        let good = [
            "fn f() {\n    // SAFETY: long\n    // reason.\n    let x = g(\n        1,\n        unsafe { h() },\n    );\n}",
            "fn f() {\n    unsafe {\n        // SAFETY: inside.\n        h();\n    }\n}",
            "// SAFETY: for it.\n#[cfg(unix)]\nunsafe impl Send for X {}",
            "// SAFETY: as in the header.\nunsafe extern \"C\" { fn f(); }",
            "#[unsafe(no_mangle)]\nfn f(g: unsafe extern \"C\" fn(i32)) {}",
            "/// X.\n///\n/// # Safety\n/// Y.\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn f() {}",
        ];
        for text in good {
            assert_eq!(wrongs("tests/a.rs", text), [""; 0], "{text}");
        }
        let bad = [
            "fn f() {\n    unsafe { h() }\n}",
            "fn f() {\n    // SAFETY: of the first only.\n    unsafe { h() };\n    unsafe { h() };\n}",
            "fn f() {\n    // SAFETY: too far.\n\n    unsafe { h() };\n}",
            "// SAFETY: of the first only.\nunsafe impl Send for X {}\nunsafe impl Sync for X {}",
            "// Because.\nunsafe extern \"C\" { fn f(); }",
        ];
        for text in bad {
            assert_eq!(wrongs("tests/a.rs", text), ["no `// SAFETY:` comment"], "{text}");
        }
    }

    #[test]
    fn a_function_states_its_contract() {
        let good = "/// Does.\n///\n/// # Safety\n/// `p` is valid.\n#[inline]\npub const unsafe fn f(p: *const u8) {}";
        assert_eq!(wrongs("tests/a.rs", good), [""; 0]);
        for bad in ["/// Does.\nunsafe fn f() {}", "unsafe trait T {}", "// # Safety\nunsafe extern \"C\" fn f() {}"] {
            assert_eq!(wrongs("tests/a.rs", bad), ["no `# Safety` section"], "{bad}");
        }
    }

    #[test]
    fn crates_that_decide_forbid() {
        let check = |path, text| deciding_crates(&Source::of(path, text)).len();
        for path in DECIDING {
            assert_eq!(check(path, "//! Doc.\n#![no_std]\n#![forbid(unsafe_code)]"), 0);
            assert_eq!(check(path, "#![cfg_attr(not(loom), no_std)]\n#![forbid(unsafe_code)]"), 0);
            assert_eq!(check(path, "#![cfg_attr(unix, no_std)]\n#![deny(unsafe_code)]"), 2);
        }
        assert_eq!(check("keys/service/src/lib.rs", ""), 0);
    }

    #[test]
    fn blocks_are_counted() {
        let text = "fn f() { unsafe { unsafe {} } }\nunsafe fn g() {}\nm! { unsafe {} }";
        assert_eq!(blocks(&Source::of("a.rs", text)), 3);
    }
}
