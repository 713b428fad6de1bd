//! Simulation of an older kernel.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};
use std::collections::BTreeMap;

/// Number of the option in Linux's `socket.h`; not in the C library's headers yet.
const SO_PASSRIGHTS: u64 = 83;

/// From now on the kernel does not know `SO_PASSRIGHTS`, as before Linux 6.16.
pub(crate) fn without_pass_rights() {
    let option = SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, SO_PASSRIGHTS);
    let rule = SeccompRule::new(vec![option.expect("a condition")]).expect("a rule");
    let rules = BTreeMap::from([(libc::SYS_setsockopt, vec![rule])]);
    let unknown = SeccompAction::Errno(libc::ENOPROTOOPT as u32);
    let architecture = std::env::consts::ARCH.try_into().expect("an architecture");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, unknown, architecture).expect("a filter");
    let program: BpfProgram = filter.try_into().expect("a program");
    apply_filter(&program).expect("a kernel with filters");
}
