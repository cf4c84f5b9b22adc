//! Columns of CSV: separators, quotes and line feeds within quotes as in RFC 4180, bytes of any encoding.
//!
//! Rows are cut by `csv-core`, which keeps no more than one of them: a quote that is never closed costs 16 MiB, not the
//! file. Every row must have as many fields as the first, and nothing may follow a closing quote: a key from the wrong
//! column, or two rows joined by a quote that was none, would be a wrong "no" later.

use std::io::{self, Read};
use std::sync::Arc;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::input::{Input, Meter};
use super::{Block, KeyStream, MOST_KEY, Writer, columns, count};
use crate::failure::Failure;
use crate::number;

/// What is read at once.
const PIECE: usize = 256 << 10;

/// Which columns, and how they are written.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Names of the header, or numbers from 1.
    pub columns: Vec<String>,
    /// The byte between fields.
    pub delimiter: u8,
    /// Whether the first row holds the names.
    pub header: bool,
    /// Whether fields may stand in quotes.
    pub quotes: bool,
    /// Whether an empty field is a key.
    pub keep_empty: bool,
}

/// Where the text of a row is with respect to quotes, which the cutter does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Quotes {
    /// A field begins: a quote here opens.
    #[default]
    Begin,
    /// In a field without quotes, where a quote is a character like others.
    Outside,
    Inside,
    /// After a quote that closes, or is the first of two.
    Closed,
}

impl Quotes {
    /// Goes on over some text of a row, from quote to quote; false if something follows one that closed.
    fn pass(&mut self, text: &[u8], delimiter: u8) -> bool {
        let outside = |before: u8| if before == delimiter { Self::Begin } else { Self::Outside };
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let quote = memchr::memchr(b'"', rest);
            match (*self, quote) {
                (Self::Closed, _) => {
                    *self = match rest[0] {
                        b'"' => Self::Inside,
                        b'\r' | b'\n' => Self::Closed,
                        byte if byte == delimiter => Self::Begin,
                        _ => return false,
                    };
                    at += 1;
                    continue;
                }
                (Self::Inside, Some(_)) => *self = Self::Closed,
                (Self::Inside, None) => {}
                (Self::Begin, Some(0)) => *self = Self::Inside,
                (_, Some(0)) => {}
                (_, Some(quote)) => {
                    *self = if outside(rest[quote - 1]) == Self::Begin { Self::Inside } else { Self::Outside };
                }
                (_, None) => *self = outside(rest[rest.len() - 1]),
            }
            at += quote.map_or(rest.len(), |quote| quote + 1);
        }
        true
    }
}

/// The keys of a column, or of several with a tab between each.
pub struct Csv<R> {
    from: R,
    name: Arc<str>,
    shape: Shape,
    core: Reader,
    /// What was read and not cut yet: `piece[at..]`.
    piece: Vec<u8>,
    at: usize,
    ended: bool,
    row: Row,
    /// The columns by their place, once they are known, and how many fields a row has.
    places: Vec<usize>,
    width: usize,
    /// Line feeds before `at`.
    lines: u64,
    meter: Option<Meter>,
}

/// The row that is being cut.
#[derive(Default)]
struct Row {
    /// Its fields after one another.
    text: Vec<u8>,
    len: usize,
    /// Where each ends.
    ends: Vec<usize>,
    count: usize,
    /// The line that it begins in.
    line: u64,
    /// Whether some of it was read.
    begun: bool,
    quotes: Quotes,
}

impl Row {
    fn field(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[start..self.ends[at]]
    }
}

impl Csv<Input> {
    /// The columns of an open source, decompressed where it is compressed.
    pub fn of(from: Input, name: &str, shape: Shape) -> Self {
        let meter = Some(from.meter());
        Self { meter, ..Self::new(from, name, shape) }
    }
}

impl<R: Read + Send> Csv<R> {
    fn new(from: R, name: &str, shape: Shape) -> Self {
        Self {
            from,
            name: name.into(),
            core: ReaderBuilder::new().delimiter(shape.delimiter).quoting(shape.quotes).build(),
            shape,
            piece: Vec::new(),
            at: 0,
            ended: false,
            row: Row { text: vec![0; 1024], ends: vec![0; 64], ..Row::default() },
            places: Vec::new(),
            width: 0,
            lines: 0,
            meter: None,
        }
    }

    fn refuse(&self, line: u64, what: impl std::fmt::Display) -> Failure {
        Failure::Message(format!("{}:{line}: {what}", self.name))
    }

    /// Reads the next piece when the last one is used up.
    fn read(&mut self) -> Result<(), Failure> {
        let first = self.lines == 0 && self.piece.is_empty();
        self.at = 0;
        self.piece.resize(PIECE, 0);
        let mut len = 0;
        // The byte order mark is recognised in the first piece, which a pipe may bring a byte at a time.
        while !self.ended && (len == 0 || (first && len < 3)) {
            match self.from.read(&mut self.piece[len..]) {
                Ok(0) => self.ended = true,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::Message(format!("{}: {error}", self.name))),
            }
        }
        self.piece.truncate(len);
        Ok(())
    }

    /// Moves on in the piece, counting lines.
    fn pass(&mut self, bytes: usize) {
        self.lines += count(b'\n', &self.piece[self.at..self.at + bytes]);
        self.at += bytes;
    }

    /// Cuts the next row out of what was read; nothing when more has to be read first, or at the end.
    fn cut(&mut self) -> Result<bool, Failure> {
        loop {
            if !self.row.begun {
                // Between rows: empty lines are none. The line feed of a CR LF is here too.
                let blank = self.piece[self.at..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
                self.pass(blank);
                self.row.line = self.lines + 1;
            }
            let mut input = &self.piece[self.at..];
            let last = input.is_empty();
            if last {
                if !self.ended || !self.row.begun {
                    return Ok(false);
                }
                // A last row without its line end gets one: within quotes that does not end it, which tells them.
                input = b"\n";
            }
            let row = &mut self.row;
            let (result, read, written, ends) =
                self.core.read_record(input, &mut row.text[row.len..], &mut row.ends[row.count..]);
            row.len += written;
            row.count += ends;
            row.begun = true;
            if !last {
                let text = &self.piece[self.at..self.at + read];
                if self.shape.quotes && !row.quotes.pass(text, self.shape.delimiter) {
                    return Err(self.refuse(
                        self.row.line,
                        "something follows the closing quote of a field: a quote within quotes is written twice; if this \
                         file does not use quotes, say --no-quotes",
                    ));
                }
                self.pass(read);
            }
            let row = &mut self.row;
            match result {
                ReadRecordResult::Record => return Ok(true),
                ReadRecordResult::End => return Ok(false),
                ReadRecordResult::InputEmpty if last => {
                    return Err(self.refuse(self.row.line, "the quote that opens in this row is never closed (for quotes that are text there is --no-quotes)"));
                }
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull
                    if row.len + 16 * row.count > MOST_KEY =>
                {
                    return Err(self.refuse(
                        self.row.line,
                        format_args!(
                            "the row is longer than {} bytes, the most that is allowed: is a quote left open?",
                            number::grouped(MOST_KEY as u64)
                        ),
                    ));
                }
                ReadRecordResult::OutputFull => row.text.resize(row.text.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => row.ends.resize(row.ends.len() * 2, 0),
            }
        }
    }

    /// Takes the row that was cut: the names, or a key.
    fn take(&mut self, writer: &mut Writer<'_>) -> Result<(), Failure> {
        if self.places.is_empty() {
            self.find_columns()?;
            if self.shape.header {
                return Ok(());
            }
        }
        let row = &self.row;
        if row.count != self.width {
            return Err(self.refuse(
                row.line,
                format_args!(
                    "the row has {}, but the {} has {}: is the delimiter {:?} right, and every quote closed?",
                    number::counted(row.count as u64, "field"),
                    if self.shape.header { "header" } else { "first row" },
                    self.width,
                    self.shape.delimiter as char
                ),
            ));
        }
        let several = self.places.len() > 1;
        for (part, &place) in self.places.iter().enumerate() {
            let field = row.field(place);
            if several && field.contains(&b'\t') {
                return Err(self.refuse(
                    row.line,
                    format_args!(
                        "the field {} holds a tab, which stands between the parts of a key: take one column, or \
                         replace the tab",
                        self.shape.columns[part]
                    ),
                ));
            }
            if part > 0 {
                writer.bytes.push(b'\t');
            }
            writer.bytes.extend_from_slice(field);
        }
        // A key of several parts is empty when all of them are.
        let empty = self.places.iter().all(|&place| row.field(place).is_empty());
        if empty && !self.shape.keep_empty {
            writer.take_back()
        } else {
            writer.end(row.line)
        }
        Ok(())
    }

    /// Finds the columns in the first row.
    fn find_columns(&mut self) -> Result<(), Failure> {
        self.width = self.row.count;
        let wide = number::counted(self.width as u64, "column");
        if !self.shape.header {
            for column in &self.shape.columns {
                match column.parse::<usize>() {
                    Ok(number) if (1..=self.width).contains(&number) => self.places.push(number - 1),
                    Ok(_) => {
                        return Err(self.refuse(
                            self.row.line,
                            format_args!("there is no column {column}: the first row has {wide}, counted from 1"),
                        ));
                    }
                    Err(_) => {
                        return Err(Failure::Message(format!(
                            "{column:?} is a name, and with --no-header there are none: give the number of the column, \
                             from 1"
                        )));
                    }
                }
            }
            return Ok(());
        }
        let names: Vec<String> =
            (0..self.width).map(|at| String::from_utf8_lossy(self.row.field(at)).into_owned()).collect();
        for column in &self.shape.columns {
            let found: Vec<usize> = (0..names.len()).filter(|&at| names[at] == *column).collect();
            match found[..] {
                [place] => self.places.push(place),
                [first, second, ..] => {
                    return Err(self.refuse(
                        self.row.line,
                        format_args!(
                            "two columns are called {column}, number {} and {}: take the header off with \
                             `tail -n +2` and give the number with --no-header",
                            first + 1,
                            second + 1
                        ),
                    ));
                }
                [] => {
                    let hint = match column.parse::<usize>() {
                        Ok(_) => "; a number is for files without a header, with --no-header".into(),
                        Err(_) if self.width == 1 => {
                            let delimiter = self.shape.delimiter as char;
                            format!(
                                "; columns are divided by {delimiter:?}: for another character there is --delimiter"
                            )
                        }
                        Err(_) => String::new(),
                    };
                    return Err(self.refuse(
                        self.row.line,
                        format_args!(
                            "there is no column {column}; there is: {}{hint}",
                            columns::nearest(column, &names)
                        ),
                    ));
                }
            }
        }
        Ok(())
    }
}

impl<R: Read + Send> KeyStream for Csv<R> {
    fn next(&mut self, block: &mut Block) -> Result<bool, Failure> {
        let name = self.name.clone();
        let mut writer = block.start(&name);
        let mut more = true;
        while more && !writer.is_full() {
            if self.cut()? {
                self.take(&mut writer)?;
                (self.row.len, self.row.count, self.row.begun) = (0, 0, false);
                self.row.quotes = Quotes::Begin;
            } else if self.ended {
                more = false;
            } else if !writer.is_empty() {
                // What came is handed out before more is waited for.
                break;
            } else {
                self.read()?;
            }
        }
        let some = !writer.is_empty();
        *writer.consumed = self.meter.as_mut().map_or(0, Meter::since);
        if !more && self.places.is_empty() && self.shape.header {
            return Err(Failure::Message(format!(
                "{}: this is empty: there is no header that names the column {}",
                self.name, self.shape.columns[0]
            )));
        }
        Ok(more || some)
    }
}

/// The byte between fields, from what was written on the command line.
pub fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" | b"tab" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n') => Ok(*byte),
        _ => Err(format!("{text:?} is no delimiter: write one character, such as ';' or '|', or \\t for a tab")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::slow::Slow;
    use super::*;

    fn shape(columns: &str) -> Shape {
        Shape {
            columns: columns::list(columns).unwrap(),
            delimiter: b',',
            header: true,
            quotes: true,
            keep_empty: false,
        }
    }

    fn read(bytes: &[u8], step: usize, shape: Shape) -> Result<Vec<(u64, Vec<u8>)>, String> {
        let mut csv = Csv::new(Slow(bytes, step), "test", shape);
        let (mut all, mut block) = (Vec::new(), Block::default());
        loop {
            match csv.next(&mut block) {
                Ok(true) => {}
                Ok(false) => return Ok(all),
                Err(Failure::Message(message)) => return Err(message),
                Err(Failure::Gone) => unreachable!("nothing is written"),
            }
            let keys = block.keys();
            all.extend(keys.keys.iter().enumerate().map(|(at, key)| (keys.line(at), key.to_vec())));
        }
    }

    fn key(line: u64, key: &[u8]) -> (u64, Vec<u8>) {
        (line, key.to_vec())
    }

    #[test]
    fn rows_are_cut_however_they_arrive() {
        let text = b"\xef\xbb\xbfid,name\r\n1,plain\r\n\r\n2,\"quoted, \"\"twice\"\"\r\nand on\"\r\n3,\xff\xfe\r\n4,\r\n5,last";
        let expected = [key(2, b"plain"), key(4, b"quoted, \"twice\"\r\nand on"), key(6, b"\xff\xfe"), key(8, b"last")];
        for step in [1, 2, 3, 5, 1000] {
            assert_eq!(read(text, step, shape("name")).unwrap(), expected, "{step}");
            let ids: Vec<_> = read(text, step, shape("id")).unwrap().into_iter().map(|(_, key)| key).collect();
            assert_eq!(ids, [b"1", b"2", b"3", b"4", b"5"]);
        }
        let kept = read(text, 7, Shape { keep_empty: true, ..shape("name") }).unwrap();
        assert!(kept.contains(&key(7, b"")) && kept.len() == 5);
        assert_eq!(read(b"a;b\n1;2\n", 1, Shape { delimiter: b';', ..shape("b,a") }).unwrap(), [key(2, b"2\t1")]);
        let bare = Shape { header: false, ..shape("2") };
        assert_eq!(read(b"x,y\n\"\",\"\"\n", 1, bare).unwrap(), [key(1, b"y")]);
        assert_eq!(read(b"a\r\n\"\nx\"\r\n\r\n", 1, shape("a")).unwrap(), [key(2, b"\nx")]);
        for step in [1, 2, 3, 100] {
            let text = b"a,b\n\"\"\"\",\"x\"\n5\" disk,\"\"\"y\"\"\"\r\n\"z\",\"\"";
            assert_eq!(read(text, step, shape("a")).unwrap(), [key(2, b"\""), key(3, b"5\" disk"), key(4, b"z")]);
            assert_eq!(read(text, step, shape("b")).unwrap(), [key(2, b"x"), key(3, b"\"y\"")]);
            let plain = read(b"a,b\n1,\"x\n2,\"y\"\n", step, Shape { quotes: false, ..shape("b") }).unwrap();
            assert_eq!(plain, [key(2, b"\"x"), key(3, b"\"y\"")]);
        }
        assert_eq!(read(b"a\n\"\"\nb\n", 1, shape("a")).unwrap(), [key(3, b"b")]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let refused = |text: &[u8], columns: &str, said: &[&str]| {
            for step in [1, 1000] {
                let error = read(text, step, shape(columns)).unwrap_err();
                assert!(said.iter().all(|said| error.contains(said)), "{error}");
            }
        };
        refused(b"id,name\n1,\"a\nb\"\n2\n", "name", &["test:4: ", "1 field,", "has 2"]);
        refused(b"id,name\n1,2,3\n", "name", &["test:2: ", "3 fields,"]);
        refused(b"id,name\n1,a\n2,\"b\n3,c\n", "name", &["test:3: ", "never closed"]);
        refused(b"id,name\n1,a\n\"", "name", &["test:3: ", "never closed"]);
        refused(b"id,user_name\n", "username", &["test:1: ", "user_name, id"]);
        refused(b"id;name\n", "name", &["--delimiter"]);
        refused(b"id,name\n", "2", &["--no-header"]);
        refused(b"id,id\n", "id", &["1 and 2"]);
        refused(b"", "id", &["empty", "id"]);
        // Two rows that a quote would join into one of the right length.
        refused(b"a,b\n1,\"x\n2,\"y\n3,z\n", "a", &["test:2: ", "--no-quotes"]);
        refused(b"a,b\n1,\"x\" \n", "a", &["test:2: ", "closing quote"]);
        refused(b"a,b\n1,\"x\ty\"\n", "a,b", &["test:2: ", "tab"]);
        let bare = |columns: &str| read(b"x,y\n", 1, Shape { header: false, ..shape(columns) }).unwrap_err();
        assert!(bare("3").contains("2 columns") && bare("0").contains("no column 0") && bare("x").contains("from 1"));
    }

    #[test]
    fn an_open_quote_costs_sixteen_mebibytes_and_no_more() {
        let endless = io::repeat(b'x').take(1 << 30);
        let mut csv = Csv::new(io::Cursor::new(b"id\n\"").chain(endless), "test", shape("id"));
        let mut block = Block::default();
        let error = loop {
            match csv.next(&mut block) {
                Ok(more) => assert!(more),
                Err(Failure::Message(message)) => break message,
                Err(Failure::Gone) => unreachable!("nothing is written"),
            }
        };
        assert!(error.starts_with("test:2: ") && error.contains("16,777,216"), "{error}");
        assert!(csv.row.text.len() <= 4 * MOST_KEY);
    }

    #[test]
    fn delimiters_are_one_character() {
        assert_eq!((delimiter(";"), delimiter("\\t"), delimiter("\t")), (Ok(b';'), Ok(b'\t'), Ok(b'\t')));
        for bad in ["", ";;", "\"", "\n", "é"] {
            assert!(delimiter(bad).is_err(), "{bad:?}");
        }
    }
}
