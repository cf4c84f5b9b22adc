//! `bloomgate gate`: an HTTP service in front of a table, that keeps lookups of absent keys away from it.

mod feeding;
mod parts;
mod serving;
mod settings;
mod telling;
mod tenants;

use std::collections::HashMap;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};

use crate::failure::{Failure, Outcome};
use crate::told::{self, Named};
use settings::{Settings, TABLE};

/// Shown by `gate --help`.
const ABOUT: &str = "Keep lookups of absent keys away from a database: an HTTP service in front of it";
const MORE: &str = "\
Examples:
  bloomgate gate --source sqlite:shop.db --table products --key sku --writers sole
  bloomgate gate --source postgres://app@db/shop --table products --key sku --cache redis://cache
  bloomgate gate install-feed --source sqlite:shop.db --table products --key sku     then: gate ... --writers feed
  bloomgate gate --source 'http://catalog:8080/products/{key}' --table products --key-list keys.txt
  bloomgate gate --source sqlite:bans.db --table bans --key address --meaning deny --writers sole
  bloomgate gate --source sqlite:shop.db --table products --key sku --tenant shop --writers sole
  bloomgate gate --upstream http://catalog:8080 --key 'path:/products/{id}' --keys-from keys.txt --writers sole \\
      --pass '/products/search /products/new'

  curl -i http://127.0.0.1:8480/v1/products/SKU      200 with the row, or 404; bloomgate-outcome says how it is known
  curl http://127.0.0.1:8480/explain/SKU             the whole decision about one key
  curl http://127.0.0.1:8480/stats                   what was blocked, what reached the source, the measured rate

A key that the filter does not know is answered with 404 at once, and the database never hears of it. That is right only \
while the filter knows every key, so --writers says who writes: sole, if every write passes this gate (PUT and DELETE, with \
--allow-writes); feed, if others write too and triggers tell of it (install-feed); else nothing is ever blocked, and the gate \
only counts what it would have blocked.

With --upstream the gate is a reverse proxy: lookups of absent keys are answered with 404, and everything else passes, \
streamed and untouched, to the service behind it. Its keys come from a file, a URL or a database (--keys-from); a write that \
passes adds its key. A route of the service that looks like a key, as /products/search beside /products/{id}, is taken for one \
and gets 404: name such routes by --pass. The gate's own paths are on --admin.

A setting is told by its flag, else by its variable (BLOOMGATE_NEGATIVE_TTL for --negative-ttl), else by its line in the \
file of --config (negative-ttl = \"30s\"), else it is as the help says. An unknown name is an error. Other users of the \
machine see flags: an address with a password belongs in a variable or a file.

It stops on SIGTERM or SIGINT, after the requests under way, and saves the filter for the next start.

Exit codes: 0 stopped as asked, 2 error.";

/// What was said on the command line: the flags are made from the table of settings.
pub struct Args {
    flags: HashMap<&'static str, String>,
    config: Option<PathBuf>,
    quiet: bool,
    verb: Option<feeding::Verb>,
}

/// Settings that are only true or false: the flag alone says yes.
fn is_switch(name: &str) -> bool {
    matches!(name, "accept-fewer" | "allow-writes" | "keys-as-listed" | "open-reads" | "outcome-header")
}

/// Settings that have no flag: they are secrets, and other users of the machine see flags.
fn is_secret(name: &str) -> bool {
    name == "source-header"
}

impl clap::Args for Args {
    fn augment_args(mut command: Command) -> Command {
        command = command.about(ABOUT).long_about(ABOUT).after_long_help(MORE);
        for setting in TABLE.iter().filter(|setting| !is_secret(setting.name())) {
            let mut help = setting.about[..1].to_uppercase() + &setting.about[1..];
            if !setting.default.is_empty() {
                help.push_str(&format!(" [default: {}]", setting.default));
            }
            let mut flag = Arg::new(setting.name()).long(setting.name()).value_name(setting.value).help(help);
            if is_switch(setting.name()) {
                flag = flag.num_args(0..=1).require_equals(true).default_missing_value("yes").value_name("YES");
            }
            command = command.arg(flag);
        }
        let config = Arg::new("config").long("config").value_name("FILE").env("BLOOMGATE_CONFIG");
        let quiet = Arg::new("quiet").short('q').long("quiet").action(ArgAction::SetTrue);
        command
            .arg(config.value_parser(clap::value_parser!(PathBuf)).help("A TOML file of settings"))
            .arg(quiet.help("Print nothing but errors"))
            .args_conflicts_with_subcommands(true)
            .subcommands(feeding::Verb::commands())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = TABLE.iter().filter(|setting| !is_secret(setting.name())).filter_map(|setting| {
            let said = matches.get_one::<String>(setting.name())?;
            Some((setting.name(), said.clone()))
        });
        Ok(Self {
            flags: flags.collect(),
            config: matches.get_one::<PathBuf>("config").cloned(),
            quiet: matches.get_flag("quiet"),
            verb: feeding::Verb::from(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Whether this is a setting of `gate`: its variable is no mistake beside another verb.
#[cfg(feature = "serve")]
pub fn is_setting(name: &str) -> bool {
    TABLE.iter().any(|setting| setting.name() == name)
}

#[cfg(feature = "serve")]
fn is_of_serve(name: &str) -> bool {
    crate::serve::is_setting(name)
}

#[cfg(not(feature = "serve"))]
fn is_of_serve(_: &str) -> bool {
    false
}

fn settings(args: &Args) -> Result<Settings, Failure> {
    let mut settings = Settings::default();
    let flag = |name: &str| args.flags.get(name).map(String::as_str);
    for (by, name, value) in told::all_beside(TABLE, flag, args.config.as_deref(), tenants::SECTION)? {
        settings::set(&mut settings, name, &value).map_err(|why| Failure::Message(format!("{by}: {why}")))?;
    }
    if let Some(path) = &args.config {
        settings.own = tenants::own(path)?;
    }
    told::unknown_variables(TABLE, is_of_serve)?;
    settings.check()?;
    Ok(settings)
}

/// Serves until it is told to stop, or does what was asked instead.
pub fn run(args: &Args) -> Outcome {
    if let Some(verb) = &args.verb {
        return feeding::run(verb);
    }
    crate::cores::leave_none();
    let settings = settings(args)?;
    serving::run(&settings, args.quiet)
}
