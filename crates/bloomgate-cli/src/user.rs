//! `bloomgate user add`: a user of the server, written into its access file before anybody can reach it.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use bloomgate_server::access::{Directory, generate_password, rules};

use crate::failure::{DONE, Failure, Outcome};
use crate::screen;

/// Make users of the server, in its access file
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Make a user, or give one another password and other roles
    #[command(after_long_help = "\
Examples:
  bloomgate user add boss --roles read,write,delete,admin < password.txt
  bloomgate user add shop --roles read,write --generate --data /var/lib/bloomgate

The password is the first line of standard input, or made with --generate and printed. It is kept as Argon2id. For a server \
that runs, ACL SETUSER does the same; one that runs reads this file again after ACL LOAD or SIGHUP.

Exit codes: 0 done, 2 error.")]
    Add {
        /// The name: 1 to 128 of A-Z a-z 0-9 . _ -
        name: String,
        /// What the user may do: read, write, delete and admin, separated by commas
        #[arg(long, value_name = "ROLE,...", value_delimiter = ',', required = true)]
        roles: Vec<String>,
        /// The namespace the user is bound to, which is in the file already [default: all names]
        #[arg(long, value_name = "NAME")]
        namespace: Option<String>,
        /// Make a random password and print it
        #[arg(long)]
        generate: bool,
        /// The folder of the server, in which the file is access.toml [default: bloomgate-data]
        #[arg(long, value_name = "DIR", conflicts_with = "access")]
        data: Option<PathBuf>,
        /// The access file, where it is elsewhere
        #[arg(long, value_name = "FILE")]
        access: Option<PathBuf>,
    },
}

/// What `--roles` takes; `all` is the other four.
const ROLES: [&str; 5] = ["read", "write", "delete", "admin", "all"];

/// The first line of standard input.
fn given_password() -> Result<Vec<u8>, Failure> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Err(Failure::Message(
            "the password comes from standard input, where nobody sees it: `< FILE`, or --generate to have one made"
                .into(),
        ));
    }
    let mut line = Vec::new();
    let read = stdin.lock().take(4_096).read_to_end(&mut line);
    read.map_err(|error| Failure::Message(format!("reading the password from standard input: {error}")))?;
    line.truncate(line.iter().position(|&byte| byte == b'\n').unwrap_or(line.len()));
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(line)
}

/// Makes the folder of a server as the server would.
fn make_folder(folder: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| Failure::at(folder, error))
}

/// Runs the verb.
pub fn run(verb: &Verb) -> Outcome {
    let Verb::Add { name, roles, namespace, generate, data, access } = verb;
    if let Some(role) = roles.iter().find(|role| !ROLES.contains(&role.as_str())) {
        return Err(Failure::Message(format!("--roles: there is no role '{role}'; there are {}", ROLES.join(", "))));
    }
    let password = if *generate { generate_password(256)?.into_bytes() } else { given_password()? };
    let path = match access {
        Some(path) => path.clone(),
        None => {
            let folder = data.clone().unwrap_or_else(|| super::serve::DATA.into());
            make_folder(&folder)?;
            folder.join("access.toml")
        }
    };
    let mut words: Vec<Vec<u8>> = vec![b"reset".to_vec(), b"on".to_vec(), [b">", &password[..]].concat()];
    words.extend(roles.iter().map(|role| format!("+@{role}").into_bytes()));
    words.extend(namespace.iter().map(|namespace| format!("namespace={namespace}").into_bytes()));
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let directory = Directory::of_file(&path)?;
    let set = directory.change(|book| rules::set_user(&directory, book, name.as_bytes(), &words));
    // The words were ours: what is wrong is what they were made of.
    set.map_err(|why| {
        let rest = why.strip_prefix("Error in ACL SETUSER modifier '").and_then(|rest| rest.split_once("': "));
        match rest {
            Some((word, why)) if word.starts_with('>') => format!("the password: {why}"),
            Some((word, why)) if word.starts_with("namespace=") => format!("--namespace: {why}"),
            Some((_, why)) => why.to_owned(),
            None => why,
        }
    })?;
    screen::tell(format_args!("{}: user {name} may {}", path.display(), roles.join(", ")));
    if *generate {
        println!("{}", String::from_utf8_lossy(&password));
    }
    Ok(DONE)
}
