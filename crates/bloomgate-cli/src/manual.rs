//! `bloomgate completions` and `bloomgate man`: what shells and `man` want to know, written from the same definitions as
//! the help, so that they cannot disagree with it.

use std::io::Write;
use std::path::{Path, PathBuf};

use bloomgate::format::write_atomically;
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::failure::{DONE, Failure, Outcome};
use crate::screen;

/// Print the completions of a shell: bash, zsh, fish, powershell or elvish
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  source <(bloomgate completions bash)              for this shell only
  bloomgate completions zsh > ~/.zfunc/_bloomgate   with ~/.zfunc in fpath
  bloomgate completions fish > ~/.config/fish/completions/bloomgate.fish
  bloomgate completions powershell >> $PROFILE

For bash for good, write them to ~/.local/share/bash-completion/completions/bloomgate.

Exit codes: 0 done, 2 error.")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Print the manual page, or write those of all verbs into a directory
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate man | man -l -                     read it now
  bloomgate man -o ~/.local/share/man/man1     then: man bloomgate-build

Exit codes: 0 done, 2 error.")]
pub struct ManArgs {
    /// Write one page for each verb into this directory, made if it is not there: bloomgate.1, bloomgate-build.1 ...
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Runs `completions`.
pub fn completions<C: CommandFactory>(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut C::command(), "bloomgate", &mut script);
    print(&script)
}

/// Runs `man`.
pub fn man<C: CommandFactory>(args: &ManArgs) -> Outcome {
    // `help` repeats the others and has no page of its own.
    let mut command = C::command().disable_help_subcommand(true);
    command.build();
    let Some(directory) = &args.output else { return print(&page(command)?) };
    std::fs::create_dir_all(directory).map_err(|error| Failure::at(directory, error))?;
    let written = write_pages(command, directory)?;
    let first = directory.join("bloomgate.1");
    screen::tell(format_args!("{}: {written} pages; read one with man -l {}", directory.display(), first.display()));
    Ok(DONE)
}

/// Writes the page of a command and of all below it; how many.
fn write_pages(command: clap::Command, directory: &Path) -> Result<u32, Failure> {
    let mut written = 1;
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned() {
        written += write_pages(verb, directory)?;
    }
    let path = directory.join(Man::new(command.clone()).get_filename());
    let page = page(command)?;
    write_atomically(&path, |out| {
        out.write_all(&page).map_err(|error| bloomgate::Error::io(format!("writing {}", path.display()), error))
    })?;
    Ok(written)
}

/// The page of one command. Its version is one line, as it is in every other page.
fn page(command: clap::Command) -> Result<Vec<u8>, Failure> {
    let version = command.get_version().unwrap_or(env!("CARGO_PKG_VERSION")).to_string();
    let mut page = Vec::new();
    Man::new(command.long_version(version)).manual("Bloomgate").render(&mut page)?;
    Ok(with_examples(&String::from_utf8_lossy(&page)).into_bytes())
}

/// What stands below the options, under its own heading, with the commands as they are typed: `man` would otherwise
/// stretch them to the width of the page.
fn with_examples(page: &str) -> String {
    let Some((before, extra)) = page.split_once(".SH EXTRA\n") else { return page.into() };
    let (heading, extra) = match extra.strip_prefix("Examples:\n") {
        Some(rest) => ("EXAMPLES", rest),
        None => ("NOTES", extra),
    };
    let mut out = format!("{before}.SH {heading}\n");
    let mut typed = false;
    for line in extra.lines() {
        if line.starts_with("  ") != typed {
            out.push_str(if typed { ".fi\n" } else { ".nf\n" });
            typed = !typed;
        }
        out.push_str(line);
        out.push('\n');
    }
    if typed {
        out.push_str(".fi\n");
    }
    out
}

fn print(bytes: &[u8]) -> Outcome {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_a_page_stay_as_they_are_typed() {
        let page = ".SH OPTIONS\nx\n.SH EXTRA\nExamples:\n  a    b\n  c\n\nWords.\n  d\n";
        let shown = ".SH OPTIONS\nx\n.SH EXAMPLES\n.nf\n  a    b\n  c\n.fi\n\nWords.\n.nf\n  d\n.fi\n";
        assert_eq!(with_examples(page), shown);
        assert_eq!(with_examples(".SH EXTRA\nWords.\n"), ".SH NOTES\nWords.\n");
        assert_eq!(with_examples("x\n"), "x\n");
    }
}
