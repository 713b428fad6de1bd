//! The kernel's functions by address, from the text of `/proc/kallsyms`.

/// Index of a function among [`Symbols`]; 0: unknown.
pub(super) type Id = u32;

#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "the kernel hides where its functions are: run it as root or with CAP_SYSLOG, or set sysctl kernel.kptr_restrict=0 and \
     kernel.perf_event_paranoid=1"
)]
pub(super) struct HidesFunctions;

#[derive(Debug, Default)]
pub(super) struct Symbols {
    /// Start addresses in order, with functions; 0 marks a symbol that is not a function.
    starts: Vec<(u64, Id)>,
    names: Vec<String>,
}

pub(super) const UNKNOWN: &str = "[unknown]";
/// First address of the kernel's half, on all 64-bit machines that have one.
const KERNEL: u64 = 1 << 63;

impl Symbols {
    pub(super) fn parse(text: &str) -> Result<Self, HidesFunctions> {
        let mut found: Vec<Symbol<'_>> = text.lines().filter_map(Symbol::parse).collect();
        if !found.iter().any(|symbol| symbol.name.is_some()) {
            return Err(HidesFunctions);
        }
        // The first of several names for one address is the best.
        found.sort_by_key(|symbol| (symbol.start, symbol.rank()));
        found.dedup_by_key(|symbol| symbol.start);
        let mut symbols = Self { starts: Vec::with_capacity(found.len()), names: vec![UNKNOWN.to_owned()] };
        for symbol in found {
            let id = symbol.name.map_or(0, |name| {
                symbols.names.push(plain(name).to_owned());
                (symbols.names.len() - 1) as Id
            });
            symbols.starts.push((symbol.start, id));
        }
        Ok(symbols)
    }

    pub(super) fn find(&self, address: u64) -> Id {
        let after = self.starts.partition_point(|(start, _)| *start <= address);
        after.checked_sub(1).map_or(0, |at| self.starts[at].1)
    }

    pub(super) fn name(&self, function: Id) -> &str {
        self.names.get(function as usize).map_or(UNKNOWN, String::as_str)
    }
}

struct Symbol<'t> {
    start: u64,
    /// `None`: not a function; it ends the previous one.
    name: Option<&'t str>,
    is_global: bool,
}

impl<'t> Symbol<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let start = u64::from_str_radix(fields.next()?, 16).ok().filter(|start| *start >= KERNEL)?;
        let (kind, name) = (fields.next()?, fields.next()?);
        let is_function = matches!(kind, "t" | "T" | "w" | "W");
        Some(Self { start, name: is_function.then_some(name), is_global: kind == "T" })
    }

    /// Functions before other symbols, and before marks of a section's start; global ones before others; plain names
    /// before names that begin with underscores.
    fn rank(&self) -> (bool, bool, bool, usize) {
        let name = self.name.unwrap_or_default();
        let is_mark = ["_start", "_end", "_text"].iter().any(|end| name.ends_with(end));
        (self.name.is_none(), is_mark, !self.is_global, name.len() - name.trim_start_matches('_').len())
    }
}

/// The name without the suffixes that compilers add to parts and copies of a function.
fn plain(name: &str) -> &str {
    match name.find('.') {
        Some(dot) if dot > 0 => &name[..dot],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, addresses: &[u64]) -> Vec<String> {
        let symbols = Symbols::parse(text).unwrap();
        addresses.iter().map(|address| symbols.name(symbols.find(*address)).to_owned()).collect()
    }

    const BASE: u64 = 0xffff_ffff_8100_0000;

    #[test]
    fn an_address_is_of_the_function_that_begins_before_it() {
        let text = "ffffffff81000100 t tcp_ack.isra.0\nffffffff81000000 T tcp_sendmsg\n\
                    ffffffff81000200 d table\nffffffffc0000000 t tun_net_xmit\t[tun]\n";
        let addresses = [BASE, BASE + 0xff, BASE + 0x100, BASE + 0x1ff, BASE + 0x200, BASE - 1, u64::MAX];
        let names = ["tcp_sendmsg", "tcp_sendmsg", "tcp_ack", "tcp_ack", UNKNOWN, UNKNOWN, "tun_net_xmit"];
        assert_eq!(found(text, &addresses), names);
    }

    #[test]
    fn of_several_names_the_one_that_people_know_is_taken() {
        let text = "ffffffff81000000 T __softirqentry_text_start\nffffffff81000000 T __do_softirq\n\
                    ffffffff81000010 W memcpy\nffffffff81000010 T __pi_memcpy\nffffffff81000010 T __memcpy\n\
                    ffffffff81000020 d data\nffffffff81000020 t function\n";
        assert_eq!(found(text, &[BASE, BASE + 0x10, BASE + 0x20]), ["__do_softirq", "__pi_memcpy", "function"]);
    }

    #[test]
    fn hidden_addresses_are_told_with_what_to_set() {
        for text in ["", "0000000000000000 T tcp_sendmsg\n", "ffffffff81000000 d data\n"] {
            assert!(Symbols::parse(text).unwrap_err().to_string().contains("kernel.kptr_restrict=0"), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_line_of_the_table_is_passed_over() {
        let text = "ffffffff81000000 T good\nffffffff81000001\nzz T x\n\u{fffd}\n\
                    fffffffffffffffffffffffffff T long\nffffffff81000002 T\n   \n-1 T minus\nffffffff81000003 TT two\n";
        assert_eq!(found(text, &[BASE, BASE + 2, BASE + 3, 0]), ["good", "good", UNKNOWN, UNKNOWN]);
    }

    #[test]
    fn a_number_that_is_no_functions_has_no_name() {
        assert_eq!(Symbols::default().name(7), UNKNOWN);
        assert_eq!(Symbols::default().find(BASE), 0);
    }
}
