//! One Rust file, lexed and parsed once for all checks.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// A Rust file: its text for comments, its tokens for checks inside macros, its syntax for the rest.
pub(crate) struct Source<'a> {
    pub(crate) path: &'a str,
    pub(crate) lines: Vec<&'a str>,
    pub(crate) tokens: TokenStream,
    pub(crate) syntax: syn::File,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The line of `fn`, from 1.
    pub(crate) line: usize,
    /// From `fn` to the closing brace.
    pub(crate) lines: usize,
    /// Marked as a test, or inside a macro, which may mark it.
    pub(crate) test: bool,
}

impl<'a> Source<'a> {
    pub(crate) fn parse(path: &'a str, text: &'a str) -> Result<Self, (usize, String)> {
        let tokens: TokenStream =
            text.parse().map_err(|error: proc_macro2::LexError| (line(error.span()), error.to_string()))?;
        let syntax = syn::parse2(tokens.clone()).map_err(|error| (line(error.span()), error.to_string()))?;
        Ok(Self { path, lines: text.lines().collect(), tokens, syntax })
    }

    #[cfg(test)]
    pub(crate) fn of(path: &'a str, text: &'a str) -> Self {
        Self::parse(path, text).expect("a test's source is Rust")
    }

    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut functions = Functions(Vec::new());
        functions.visit_file(&self.syntax);
        functions.0
    }

    /// Calls `at` for each token with all that follows it in its group, outside in.
    pub(crate) fn each_token(&self, at: &mut dyn FnMut(&[TokenTree])) {
        each_token(self.tokens.clone(), at);
    }
}

/// The line of its beginning, from 1.
pub(crate) fn line(span: Span) -> usize {
    span.start().line
}

pub(crate) fn each_token(stream: TokenStream, at: &mut dyn FnMut(&[TokenTree])) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        at(&tokens[index..]);
        if let TokenTree::Group(group) = token {
            each_token(group.stream(), at);
        }
    }
}

pub(crate) fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == word)
}

pub(crate) fn group(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<&proc_macro2::Group> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

struct Functions(Vec<Function>);

impl Functions {
    fn add(&mut self, attributes: &[syn::Attribute], signature: &syn::Signature, body: &syn::Block) {
        let (name, line) = (signature.ident.to_string(), line(signature.fn_token.span));
        let lines = body.brace_token.span.close().end().line + 1 - line;
        self.0.push(Function { name, line, lines, test: attributes.iter().any(is_test) });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.attrs, &item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.attrs, &item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.add(&item.attrs, &item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        each_token(item.tokens.clone(), &mut |tokens| self.0.extend(in_macro(tokens)));
    }
}

/// `#[test]`, and such as end in it.
fn is_test(attribute: &syn::Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|segment| segment.ident == "test")
}

/// The function that begins with these tokens. A macro's tokens have no syntax yet, so this goes by their order.
fn in_macro(tokens: &[TokenTree]) -> Option<Function> {
    let TokenTree::Ident(name) = tokens.get(1).filter(|_| is_word(tokens.first(), "fn"))? else { return None };
    let is_end = |token: &&TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ';');
    let body =
        tokens.iter().take_while(|token| !is_end(token)).find_map(|token| group(Some(token), Delimiter::Brace))?;
    let start = line(tokens[0].span());
    Some(Function { name: name.to_string(), line: start, lines: body.span_close().end().line + 1 - start, test: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_functions_everywhere() {
        let text = "\
fn free() {
    fn nested() {}
}
struct S;
impl S {
    /// Doc.
    fn method(&self)
    where
        S: Sized,
    {
    }
}
trait T {
    fn without_body();
    fn with_body() {}
}
#[test]
fn marked() {}
proptest! {
    fn drawn(x in 0..3) {
        todo(x);
    }
}
";
        let found = Source::of("a.rs", text).functions();
        let found: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines, f.test)).collect();
        let expected = [
            ("free", 1, 3, false),
            ("nested", 2, 1, false),
            ("method", 7, 5, false),
            ("with_body", 15, 1, false),
            ("marked", 18, 1, true),
            ("drawn", 20, 3, true),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_syntax_error_has_its_line() {
        assert!(matches!(Source::parse("a.rs", "fn f() {}\nfn 3() {}"), Err((2, _))));
    }
}
