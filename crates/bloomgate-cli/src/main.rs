//! The `bloomgate` command: reads the arguments, runs one verb, gives back its exit code.
#![forbid(unsafe_code)]

mod add;
mod asking;
#[cfg(feature = "gate")]
mod attack;
mod bench;
mod build;
mod change;
mod chart;
mod check;
mod confirm;
mod convert;
mod conveyor;
#[cfg(any(feature = "gate", feature = "serve"))]
mod cores;
mod dedup;
mod delta_info;
mod diff;
mod digest;
mod failure;
mod file;
mod fold;
#[cfg(feature = "gate")]
mod gate;
mod help;
mod hyperloglog;
#[cfg(feature = "redis")]
mod import;
mod info;
mod intersect;
mod json;
mod keys;
mod lines_about;
mod manual;
mod merge;
mod number;
mod patch;
mod picture;
mod plan;
mod plot;
mod progress;
#[cfg(any(feature = "gate", feature = "serve"))]
mod random;
mod remove;
mod screen;
mod secret;
#[cfg(feature = "serve")]
mod serve;
mod shell;
mod spill;
mod standing;
mod svg;
#[cfg(any(feature = "gate", feature = "serve"))]
mod told;
#[cfg(feature = "serve")]
mod user;
mod verify;
mod version;
#[cfg(any(feature = "gate", feature = "serve"))]
mod zipf;

use std::ffi::OsString;
use std::process::ExitCode;

#[cfg(feature = "serve")]
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use failure::{DONE, ERROR, Failure};

/// Is this key definitely absent, or maybe present? Filters that keep their promise.
///
/// A filter answers for a set of keys in about 10 bits a key: "no" is never wrong, "maybe" is wrong as often as was
/// asked for (1 % unless said otherwise).
#[derive(Parser)]
#[command(
    name = "bloomgate",
    version,
    long_version = version::long(),
    max_term_width = 100,
    after_help = "\
Exit codes: 0 done (check: some key may be there), 1 check: no key is there (verify: it fails), 2 error.",
    after_long_help = "\
Examples:
  bloomgate plan --items 10M --rate 1%      which filter, how large
  bloomgate build -o urls.bloom urls.txt    a filter of the lines of a file
  bloomgate check urls.bloom < keys.txt     prints the keys that may be there
  bloomgate dedup access.log                prints each line once, unsorted
  bloomgate info urls.bloom                 what is in it, and a picture
  bloomgate merge -o all.bloom a.bloom b.bloom    one filter of the keys of both
  bloomgate bench                           how fast each kind is on this machine
  bloomgate verify urls.bloom urls.txt      is every key there, the rate kept?

Exit codes:
  0  done; for check: at least one key may be there
  1  check: every key is certainly absent
     verify: a key is missing, or the rate is above the promise
  2  error, with a message on standard error

NO_COLOR=1 turns colours off; they are off by themselves when the output is not a terminal."
)]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Plan(plan::Args),
    Build(build::Args),
    #[cfg(feature = "redis")]
    Import(import::Args),
    Check(check::Args),
    Add(add::Args),
    Remove(remove::Args),
    Info(info::Args),
    Merge(merge::Args),
    Intersect(intersect::Args),
    Fold(fold::Args),
    Diff(diff::Args),
    Patch(patch::Args),
    Convert(convert::Args),
    Dedup(dedup::Args),
    Verify(verify::Args),
    #[command(subcommand)]
    Secret(secret::Verb),
    #[cfg(feature = "serve")]
    Serve(serve::Args),
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    User(user::Verb),
    #[cfg(feature = "gate")]
    Attack(attack::Args),
    #[cfg(feature = "gate")]
    Gate(Box<gate::Args>),
    Bench(bench::Args),
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
}

/// The arguments, with `-0` of check written out: its keys may be negative numbers, and `-0` would be taken for one.
fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut given: Vec<OsString> = given.collect();
    if given.get(1).is_some_and(|verb| verb == "check") {
        given.iter_mut().take_while(|given| *given != "--").filter(|given| *given == "-0").for_each(|given| {
            *given = "--null".into();
        });
    }
    given
}

/// Ends with what was wrong with the arguments.
fn misunderstood(arguments: &[OsString], error: &clap::Error) -> ! {
    #[cfg(feature = "serve")]
    if let (Some(ContextValue::String(flag)), Some(verb)) = (error.get(ContextKind::InvalidArg), arguments.get(1))
        && error.kind() == clap::error::ErrorKind::UnknownArgument
        && verb == "serve"
        && let Some(message) = serve::without_flag(flag)
    {
        screen::complain(message);
        std::process::exit(i32::from(ERROR));
    }
    #[cfg(not(feature = "serve"))]
    let _ = arguments;
    error.exit()
}

fn main() -> ExitCode {
    // Filters are asked where they lie: one that is made shorter meanwhile is an error with a message, not a core dump.
    bloomgate::bits::report_lost_mapping();
    let arguments = arguments(std::env::args_os());
    let given = help::grouped(Command::command()).try_get_matches_from(&arguments);
    let given = given.unwrap_or_else(|error| misunderstood(&arguments, &error));
    let command = Command::from_arg_matches(&given).unwrap_or_else(|error| error.exit());
    let outcome = match command.verb {
        Verb::Plan(args) => plan::run(&args),
        Verb::Build(args) => build::run(&args),
        #[cfg(feature = "redis")]
        Verb::Import(args) => import::run(&args),
        Verb::Check(args) => check::run(&args),
        Verb::Add(args) => add::run(&args),
        Verb::Remove(args) => remove::run(&args),
        Verb::Info(args) => info::run(&args),
        Verb::Merge(args) => merge::run(&args),
        Verb::Intersect(args) => intersect::run(&args),
        Verb::Fold(args) => fold::run(&args),
        Verb::Diff(args) => diff::run(&args),
        Verb::Patch(args) => patch::run(&args),
        Verb::Convert(args) => convert::run(&args),
        Verb::Dedup(args) => dedup::run(&args),
        Verb::Verify(args) => verify::run(&args),
        Verb::Secret(verb) => secret::run(&verb),
        #[cfg(feature = "serve")]
        Verb::Serve(args) => serve::run(&args),
        #[cfg(feature = "serve")]
        Verb::User(verb) => user::run(&verb),
        #[cfg(feature = "gate")]
        Verb::Attack(args) => attack::run(&args),
        #[cfg(feature = "gate")]
        Verb::Gate(args) => gate::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Completions(args) => manual::completions::<Command>(&args),
        Verb::Man(args) => manual::man::<Command>(&args),
    };
    ExitCode::from(match outcome {
        Ok(code) => code,
        // Whoever read our output has seen enough: that is no error.
        Err(Failure::Gone) => DONE,
        Err(Failure::Message(message)) => {
            screen::complain(message);
            ERROR
        }
    })
}
