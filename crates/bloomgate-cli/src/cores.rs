//! No core files: in the memory of a server are its secrets, in that of a gate the logins of its database, and a core file is a copy
//! of it that outlives the process, lies in a folder and goes along with bug reports.
//!
//! The limit alone would not do: where `core_pattern` names a program (systemd-coredump, apport), the kernel pipes it everything whatever
//! the limit is. A process that is not dumpable leaves none either way; and nobody but root can read its memory through /proc,
//! or trace it, not even another process of the same user.

/// Whatever this process was allowed, it leaves no core file from here on.
#[cfg(unix)]
pub fn leave_none() {
    use rustix::process::{Resource, Rlimit, setrlimit};

    let limited = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    #[cfg(any(target_os = "android", target_os = "linux"))]
    let limited = {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        limited.and(set_dumpable_behavior(DumpableBehavior::NotDumpable))
    };
    if let Err(why) = limited {
        crate::screen::tell(format_args!(
            "warning: core files cannot be switched off ({why}): one would hold secrets, so let the system write none"
        ));
    }
}

/// Other systems write none unless somebody sets that up.
#[cfg(not(unix))]
pub fn leave_none() {}

#[cfg(all(test, any(target_os = "android", target_os = "linux")))]
mod tests {
    use rustix::process::{DumpableBehavior, Resource, dumpable_behavior, getrlimit};

    /// What tests/cli/leaks.rs cannot see of another process: that it is not dumpable, which is all that counts where cores are piped.
    #[test]
    fn neither_a_file_nor_a_program_gets_a_core() {
        assert_eq!(dumpable_behavior(), Ok(DumpableBehavior::Dumpable));
        super::leave_none();
        assert_eq!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
        let limit = getrlimit(Resource::Core);
        assert_eq!((limit.current, limit.maximum), (Some(0), Some(0)));
    }
}
