//! How the keys of a source are read: the options that all verbs share, and the stream that they open.

use std::io::Read;

use super::csv::{self, Csv, Shape};
use super::hibp::Hashes;
use super::input::{self, Decompress, Input};
use super::jsonl::{Field, JsonLines};
use super::lines::Lines;
use super::{Cut, KeyStream, Source, columns};
use crate::failure::Failure;

/// Where keys may come from, for the long help of the verbs that read them.
pub const SOURCES: &str = "\
Sources: files, standard input (-), and databases. gzip and zstd are recognised and decompressed. Without an option \
every line is a key; otherwise:
  --csv COLUMN      a column by its name in the header; --tsv with tabs
  --jsonl FIELD     a field of JSON lines: id, or user.id within user
  --parquet COLUMN  a column of Parquet files: id, or user.id within user
  --query SQL       rows of sqlite:FILE or of postgres://user@host/database

Texts and bytes are keys as they are, integers are written in decimal digits and UUIDs in their usual form (as --keys \
u64, i64 and uuid read them). Where a value is null or missing there is no key, and a note says how many. Dates, \
booleans and numbers with a fraction have no one way to be written: they are refused, and a query can say how \
(CAST). Several columns, as in --csv country,id, are one key with a tab between its parts, as --keys 'tuple(text,u64)' \
reads it.

The password of a database is taken from the environment variable PGPASSWORD.";

/// How sources are read.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Reading {
    #[command(flatten)]
    pub cut: Cut,
    /// Take a column of CSV files, by its name in the header or by its number with --no-header; several, with commas,
    /// are one key with tabs between its parts
    #[arg(long, value_name = "COLUMN", value_parser = names, groups = ["rows", "table"], help_heading = "Reading keys")]
    csv: Option<Names>,
    /// The same with tabs between fields; quotes are as in CSV
    #[arg(long, value_name = "COLUMN", value_parser = names, groups = ["rows", "table"], help_heading = "Reading keys")]
    tsv: Option<Names>,
    /// The character between fields of --csv, such as ';' or '|' or \t [default: ,]
    #[arg(long, value_name = "CHAR", value_parser = csv::delimiter, requires = "csv", help_heading = "Reading keys")]
    delimiter: Option<u8>,
    /// The first row of --csv or --tsv is no header: columns are numbers, from 1
    #[arg(long, requires = "table", help_heading = "Reading keys")]
    no_header: bool,
    /// Quotes in --csv or --tsv are characters like others (otherwise a field may stand in them, as in RFC 4180)
    #[arg(long, requires = "table", help_heading = "Reading keys")]
    no_quotes: bool,
    /// Take a field of JSON lines; user.id is a field within a field, and so is /user/id
    #[arg(long, value_name = "FIELD", value_parser = names, group = "rows", help_heading = "Reading keys")]
    jsonl: Option<Names>,
    /// Take a column of Parquet files; user.id is a column within user
    #[arg(long, value_name = "COLUMN", value_parser = names, group = "rows", help_heading = "Reading keys")]
    parquet: Option<Names>,
    /// Take the rows of a query to sqlite:FILE or postgres://user@host/db
    #[arg(long, value_name = "SQL", group = "rows", help_heading = "Reading keys")]
    query: Option<String>,
    /// How files and standard input are compressed: none, gzip, zstd, or auto, which looks at their first bytes
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        help_heading = "Reading keys"
    )]
    decompress: Decompress,
    /// Lines are HASH:COUNT, as Have I Been Pwned gives out breached passwords: the key is the hash, in upper case
    #[arg(long, conflicts_with = "rows", help_heading = "Reading keys")]
    pub hibp: bool,
}

/// The names of columns or fields.
#[derive(Debug, Clone)]
struct Names(Vec<String>);

fn names(text: &str) -> Result<Names, String> {
    columns::list(text).map(Names)
}

impl Reading {
    /// The options as they are written, to be repeated in another command.
    pub fn options(&self) -> Vec<String> {
        let cut = self.cut;
        let flags = [
            (cut.null, "--null"),
            (cut.crlf, "--crlf"),
            (cut.keep_empty, "--keep-empty"),
            (self.no_header, "--no-header"),
            (self.no_quotes, "--no-quotes"),
            (self.hibp, "--hibp"),
        ];
        let names = |names: &Option<Names>| names.as_ref().map(|Names(names)| columns::written(names));
        let delimiter = self.delimiter.map(|byte| if byte == b'\t' { "\\t".into() } else { char::from(byte).into() });
        let decompress = match self.decompress {
            Decompress::Auto => None,
            Decompress::None => Some("none".into()),
            Decompress::Gzip => Some("gzip".into()),
            Decompress::Zstd => Some("zstd".into()),
        };
        let values = [
            ("--csv", names(&self.csv)),
            ("--tsv", names(&self.tsv)),
            ("--delimiter", delimiter),
            ("--jsonl", names(&self.jsonl)),
            ("--parquet", names(&self.parquet)),
            ("--query", self.query.clone()),
            ("--decompress", decompress),
        ];
        let flags = flags.into_iter().filter(|(given, _)| *given).map(|(_, option)| option.to_string());
        // As one word, so that a value may begin with a dash.
        let values = values.into_iter().filter_map(|(option, value)| value.map(|value| format!("{option}={value}")));
        flags.chain(values).collect()
    }

    /// Whether the bytes of a source are the lines themselves, so that a sample of it tells their number. Asked of what
    /// can be read twice.
    pub fn takes_lines_of(&self, source: &Source) -> bool {
        let rows = [&self.csv, &self.tsv, &self.jsonl, &self.parquet].into_iter().any(Option::is_some);
        match self.decompress {
            _ if rows || self.query.is_some() => false,
            Decompress::None => true,
            Decompress::Auto => is_plain(source),
            Decompress::Gzip | Decompress::Zstd => false,
        }
    }

    /// The keys of a source.
    pub fn open(&self, source: &Source) -> Result<Box<dyn KeyStream>, Failure> {
        let stream = self.rows(source)?;
        Ok(if self.hibp { Box::new(Hashes::new(stream)) } else { stream })
    }

    fn rows(&self, source: &Source) -> Result<Box<dyn KeyStream>, Failure> {
        let name = source.name();
        if let Some(sql) = &self.query {
            return self.query(source, &name, sql);
        }
        let file = source.open()?;
        let keep_empty = self.cut.keep_empty;
        if let Some(Names(columns)) = &self.parquet {
            return parquet(file, &name, columns, keep_empty);
        }
        let input = Input::new(file, self.decompress);
        let shape = |columns: &[String], delimiter: u8| Shape {
            columns: columns.to_vec(),
            delimiter,
            header: !self.no_header,
            quotes: !self.no_quotes,
            keep_empty,
        };
        Ok(match (&self.csv, &self.tsv, &self.jsonl) {
            (Some(Names(columns)), ..) => {
                Box::new(Csv::of(input, &name, shape(columns, self.delimiter.unwrap_or(b','))))
            }
            (_, Some(Names(columns)), _) => Box::new(Csv::of(input, &name, shape(columns, b'\t'))),
            (.., Some(Names(fields))) => {
                let fields = fields.iter().map(|field| Field::of(field)).collect();
                Box::new(JsonLines::of(input, &name, fields, keep_empty))
            }
            _ => Box::new(Lines::of(input, &name, self.cut)),
        })
    }

    fn query(&self, source: &Source, name: &str, sql: &str) -> Result<Box<dyn KeyStream>, Failure> {
        match source {
            Source::Sqlite(path) => sqlite(path, name, sql, self.cut.keep_empty),
            Source::Postgres(address) => postgres(address, name, sql, self.cut.keep_empty),
            Source::File(_) | Source::Stdin => Err(Failure::Message(format!(
                "--query asks a database, and {name} is none: give sqlite:FILE or postgres://user@host/database"
            ))),
        }
    }
}

/// Whether the first bytes are not those of another form; standard input stays where it was.
fn is_plain(source: &Source) -> bool {
    let look = || {
        let start = source.position()?;
        let mut head = Vec::new();
        let read = source.open()?.take(16).read_to_end(&mut head);
        source.rewind(start)?;
        Ok::<bool, Failure>(read.is_ok() && input::is_plain(&head))
    };
    look().unwrap_or(false)
}

#[cfg(feature = "parquet")]
fn parquet(
    file: std::fs::File,
    name: &str,
    columns: &[String],
    keep_empty: bool,
) -> Result<Box<dyn KeyStream>, Failure> {
    Ok(Box::new(super::parquet::open(file, name, columns, keep_empty)?))
}

#[cfg(not(feature = "parquet"))]
fn parquet(_: std::fs::File, _: &str, _: &[String], _: bool) -> Result<Box<dyn KeyStream>, Failure> {
    Err(built_without("parquet"))
}

#[cfg(feature = "sqlite")]
fn sqlite(path: &std::path::Path, name: &str, sql: &str, keep_empty: bool) -> Result<Box<dyn KeyStream>, Failure> {
    Ok(Box::new(super::sqlite::query(path, name, sql, keep_empty)?))
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: &std::path::Path, _: &str, _: &str, _: bool) -> Result<Box<dyn KeyStream>, Failure> {
    Err(built_without("sqlite"))
}

#[cfg(feature = "postgres")]
fn postgres(address: &str, name: &str, sql: &str, keep_empty: bool) -> Result<Box<dyn KeyStream>, Failure> {
    Ok(Box::new(super::postgres::query(address, name, sql, keep_empty)?))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &str, _: &str, _: &str, _: bool) -> Result<Box<dyn KeyStream>, Failure> {
    Err(built_without("postgres"))
}

#[cfg(not(all(feature = "parquet", feature = "postgres", feature = "sqlite")))]
fn built_without(feature: &str) -> Failure {
    Failure::Message(format!("this bloomgate was built without {feature}; install with --features {feature}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        reading: Reading,
    }

    fn reading(arguments: &[&str]) -> Reading {
        Command::try_parse_from(["test"].iter().chain(arguments)).unwrap().reading
    }

    #[test]
    fn options_are_written_as_they_are_read() {
        for arguments in [
            &["--null", "--crlf"][..],
            &["--keep-empty", "--no-header", "--no-quotes", "--csv=\"a,b\",c", "--delimiter=\\t"],
            &["--tsv=-id"],
            &["--jsonl=user.id", "--decompress=zstd"],
            &["--parquet=id"],
            &["--query=SELECT 'a'", "--decompress=none"],
        ] {
            assert_eq!(reading(arguments).options(), arguments);
        }
    }

    #[test]
    fn only_plain_lines_are_sampled() {
        let folder = tempfile::tempdir().unwrap();
        let source = |name: &str, bytes: &[u8]| {
            std::fs::write(folder.path().join(name), bytes).unwrap();
            Source::File(folder.path().join(name))
        };
        let (plain, gzip) = (source("plain", b"a\nb\n"), source("gzip", b"\x1f\x8b\x08rest"));
        assert!(reading(&[]).takes_lines_of(&plain) && !reading(&[]).takes_lines_of(&gzip));
        assert!(reading(&["--decompress=none"]).takes_lines_of(&gzip));
        for arguments in ["--csv=a", "--tsv=a", "--jsonl=a", "--parquet=a", "--query=a", "--decompress=gzip"] {
            assert!(!reading(&[arguments]).takes_lines_of(&plain), "{arguments}");
        }
    }
}
