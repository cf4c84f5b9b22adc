//! A mapped file that another program makes shorter: the system sends `SIGBUS`, and this makes a message of it.
//!
//! No program can turn a lost page into an answer: the bits are gone, and a lookup that went on would say "no" from
//! nothing. So the process ends; what can be chosen is whether with a core dump or with a sentence.

/// Lets a process that touches a lost part of a mapped file say so and exit with code 2, instead of dumping core.
///
/// For programs with `main` of their own: it takes over `SIGBUS` for the whole process, so a library should leave it to
/// who calls it. Only that signal, and only for an address without memory behind it (a file that was made shorter, a
/// sparse file on a full disk, a disk that cannot be read); any other `SIGBUS` is what it was. What was not flushed to
/// standard output is lost. Where there are no signals it does nothing.
///
/// ```
/// bloomgate::bits::report_lost_mapping();
/// ```
pub fn report_lost_mapping() {
    #[cfg(unix)]
    install();
}

/// Written to standard error in one call.
#[cfg(unix)]
const MESSAGE: &[u8] =
    b"bloomgate: the filter file was made shorter while it was mapped, or its disk is full or failing: \
what is lost cannot be answered; fetch or build the file again\n";

#[cfg(unix)]
fn install() {
    // SAFETY: an all-zero sigaction is a valid one (no flags, an empty mask, the default action).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = lost as *const () as usize;
    // On the alternate stack if the thread has one, as the runtime's own handler is.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `action` is whole, its handler has the signature that SA_SIGINFO asks for and keeps to what is safe in a
    // signal handler; the old action is not wanted. A refusal leaves everything as it was.
    unsafe { libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()) };
}

#[cfg(unix)]
extern "C" fn lost(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands a valid siginfo to a handler that was set with SA_SIGINFO. `write`, `_exit`, `signal` and
    // `raise` are async-signal-safe, and MESSAGE is a constant.
    unsafe {
        if (*info).si_code == libc::BUS_ADRERR {
            libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
            libc::_exit(2);
        }
        // Not ours: as if there were no handler. It is delivered when this one returns.
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
