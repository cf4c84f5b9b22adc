//! Keys from columns of a Parquet file, through the column readers: no row is put together that nobody asked for.
//!
//! Texts and bytes are keys as they are, integers in decimal digits, UUIDs as they are written. Nulls give no key. A
//! list gives each of its values.

use std::fs::File;

use ::parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::{ByteArray, DataType, FixedLenByteArray};
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use super::columns;
use super::feed::{Feed, Rows};
use crate::failure::Failure;

/// Rows that are read at once of each column.
const BATCH: usize = 4096;

/// The values of columns; those of several are the parts of one key.
pub fn open(file: File, name: &str, columns: &[String], keep_empty: bool) -> Result<Feed, Failure> {
    let refuse = |error: ParquetError| refuse(name, &error);
    let metadata = file.metadata().map_err(|error| Failure::Message(format!("{name}: {error}")))?;
    if !metadata.is_file() {
        return Err(Failure::Message(format!(
            "{name}: a Parquet file is read from its end, which a pipe has not yet: save it to a file and give that"
        )));
    }
    let length = metadata.len();
    let reader = SerializedFileReader::new(file).map_err(refuse)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let mut chosen = Vec::new();
    for column in columns {
        let at = find(schema, column).map_err(|what| Failure::Message(format!("{name}: {what}")))?;
        let described = schema.column(at);
        let cell = cell(&described).ok_or_else(|| {
            Failure::Message(format!(
                "{name}: the column {column} holds {}: a key is a text, bytes, an integer or a UUID; choose another column",
                type_name(&described)
            ))
        })?;
        if columns.len() > 1 && described.max_rep_level() > 0 {
            return Err(Failure::Message(format!(
                "{name}: the column {column} is a list, which cannot be a part of a key: take it alone"
            )));
        }
        chosen.push((at, cell));
    }
    let name = name.to_string();
    Feed::start(&name.clone(), "null", keep_empty, move |rows| read(&reader, &chosen, length, &name, rows))
}

fn refuse(name: &str, error: &ParquetError) -> Failure {
    let text = match error {
        ParquetError::General(text) | ParquetError::EOF(text) | ParquetError::NYI(text) => text.clone(),
        other => other.to_string(),
    };
    Failure::Message(format!("{name}: {text}: is this a whole Parquet file?"))
}

/// The column with this path; a list may be called by its own name, without the steps to its values.
fn find(schema: &SchemaDescriptor, wanted: &str) -> Result<usize, String> {
    let paths: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
    if let Some(at) = paths.iter().position(|path| path == wanted) {
        return Ok(at);
    }
    let within = format!("{wanted}.");
    let mut inner = (0..paths.len()).filter(|&at| paths[at].starts_with(&within));
    match (inner.next(), inner.next()) {
        (Some(at), None) => Ok(at),
        _ => Err(format!("there is no column {wanted}; there is: {}", columns::nearest(wanted, &paths))),
    }
}

/// How a column's values become keys.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cell {
    Bytes,
    Uuid,
    Signed,
    Unsigned,
}

fn cell(column: &ColumnDescriptor) -> Option<Cell> {
    let logical = column.logical_type_ref();
    match column.physical_type() {
        Physical::BYTE_ARRAY => match (logical, column.converted_type()) {
            (Some(LogicalType::Decimal { .. }), _) | (None, ConvertedType::DECIMAL) => None,
            _ => Some(Cell::Bytes),
        },
        Physical::FIXED_LEN_BYTE_ARRAY => match (logical, column.converted_type()) {
            (Some(LogicalType::Uuid), _) if column.type_length() == 16 => Some(Cell::Uuid),
            (None, ConvertedType::NONE) => Some(Cell::Bytes),
            _ => None,
        },
        Physical::INT32 | Physical::INT64 => match (logical, column.converted_type()) {
            (Some(LogicalType::Integer(integer)), _) => {
                Some(if integer.is_signed { Cell::Signed } else { Cell::Unsigned })
            }
            (Some(_), _) => None,
            (
                None,
                ConvertedType::NONE
                | ConvertedType::INT_8
                | ConvertedType::INT_16
                | ConvertedType::INT_32
                | ConvertedType::INT_64,
            ) => Some(Cell::Signed),
            (
                None,
                ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64,
            ) => Some(Cell::Unsigned),
            (None, _) => None,
        },
        _ => None,
    }
}

fn type_name(column: &ColumnDescriptor) -> String {
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(logical), _) => format!("{logical:?}").split([' ', '(']).next().unwrap_or_default().to_uppercase(),
        (None, ConvertedType::NONE) => column.physical_type().to_string(),
        (None, converted) => converted.to_string(),
    }
}

/// The values of one column in a batch of rows: the bytes of each that is not null, and levels that say which are.
#[derive(Default)]
struct Values {
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    bytes: Vec<ByteArray>,
    fixed: Vec<FixedLenByteArray>,
    small: Vec<i32>,
    large: Vec<i64>,
    /// How many entries there are, nulls among them.
    entries: usize,
    /// The next value to hand out.
    next: usize,
}

impl Values {
    /// Reads the next rows; gives how many there were.
    fn fill(&mut self, reader: &mut ColumnReader, most: usize) -> Result<usize, ParquetError> {
        (self.entries, self.next) = (0, 0);
        self.definitions.clear();
        self.repetitions.clear();
        let levels = (&mut self.definitions, &mut self.repetitions);
        let (rows, entries) = match reader {
            ColumnReader::ByteArrayColumnReader(reader) => records(reader, most, levels, &mut self.bytes)?,
            ColumnReader::FixedLenByteArrayColumnReader(reader) => records(reader, most, levels, &mut self.fixed)?,
            ColumnReader::Int32ColumnReader(reader) => records(reader, most, levels, &mut self.small)?,
            ColumnReader::Int64ColumnReader(reader) => records(reader, most, levels, &mut self.large)?,
            _ => return Err(ParquetError::General("the column changed its type".into())),
        };
        self.entries = entries;
        Ok(rows)
    }

    /// Pushes the next value that is not null.
    fn push(&mut self, cell: Cell, several: bool, rows: &mut Rows) -> Result<(), Failure> {
        let at = self.next;
        self.next += 1;
        if let Some(bytes) = self.bytes.get(at) {
            return rows.part(bytes.data(), several);
        }
        if let Some(bytes) = self.fixed.get(at) {
            return match (cell, bytes.data().try_into()) {
                (Cell::Uuid, Ok(uuid)) => rows.part(super::uuid_text(uuid).as_bytes(), several),
                _ => rows.part(bytes.data(), several),
            };
        }
        match (self.small.get(at), self.large.get(at)) {
            (Some(small), _) if cell == Cell::Unsigned => rows.integer(small.cast_unsigned()),
            (Some(small), _) => rows.integer(small),
            (_, Some(large)) if cell == Cell::Unsigned => rows.integer(large.cast_unsigned()),
            (_, Some(large)) => rows.integer(large),
            (None, None) => return Err(rows.refuse("the column has fewer values than it says")),
        }
        Ok(())
    }
}

/// Reads up to so many rows, fewer only at the end: gives how many rows and entries.
fn records<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    most: usize,
    (definitions, repetitions): (&mut Vec<i16>, &mut Vec<i16>),
    values: &mut Vec<T::T>,
) -> Result<(usize, usize), ParquetError> {
    values.clear();
    let (mut rows, mut entries) = (0, 0);
    while rows < most {
        let (more, _, levels) =
            reader.read_records(most - rows, Some(&mut *definitions), Some(&mut *repetitions), values)?;
        if more == 0 {
            break;
        }
        rows += more;
        entries += levels;
    }
    Ok((rows, entries))
}

fn read(
    file: &SerializedFileReader<File>,
    chosen: &[(usize, Cell)],
    length: u64,
    name: &str,
    rows: &mut Rows,
) -> Result<(), Failure> {
    let refuse = |error: ParquetError| refuse(name, &error);
    let schema = file.metadata().file_metadata().schema_descr();
    let levels: Vec<i16> = chosen.iter().map(|&(at, _)| schema.column(at).max_def_level()).collect();
    let list = chosen.iter().any(|&(at, _)| schema.column(at).max_rep_level() > 0);
    let total = file.metadata().file_metadata().num_rows().max(1) as f64;
    // The bar is one of the file's bytes, though the other columns are never read: rows stand for them.
    let (mut done, mut told) = (0u64, 0u64);
    for group in 0..file.num_row_groups() {
        let group = file.get_row_group(group).map_err(refuse)?;
        let (promised, mut found) = (group.metadata().num_rows(), 0);
        let mut readers = Vec::new();
        for &(at, _) in chosen {
            let column = group.metadata().column(at);
            let places = [column.compressed_size(), column.data_page_offset()];
            // The library stops the program at these.
            if places.into_iter().chain(column.dictionary_page_offset()).any(|place| place < 0) {
                return Err(
                    rows.refuse("a column begins before the file or has less than no bytes: the file is damaged")
                );
            }
            readers.push(group.get_column_reader(at).map_err(refuse)?);
        }
        let mut values: Vec<Values> = chosen.iter().map(|_| Values::default()).collect();
        loop {
            let mut counts = Vec::with_capacity(readers.len());
            for (reader, values) in readers.iter_mut().zip(&mut values) {
                counts.push(values.fill(reader, BATCH).map_err(refuse)?);
            }
            let count = counts[0];
            if counts.iter().any(|other| *other != count) {
                return Err(rows.refuse("the columns have not the same number of rows: the file is damaged"));
            }
            if count == 0 {
                break;
            }
            found += count as i64;
            for entry in 0..values[0].entries {
                // In a list, entries that repeat belong to the row before.
                if list && entry > 0 && values[0].repetitions[entry] == 0 {
                    rows.next_row();
                }
                for ((values, &level), &(_, cell)) in values.iter_mut().zip(&levels).zip(chosen) {
                    match values.definitions.get(entry) {
                        Some(&definition) if definition < level => rows.null(),
                        _ => values.push(cell, chosen.len() > 1, rows)?,
                    }
                }
                rows.end()?;
                if !list {
                    rows.next_row();
                }
            }
            if list {
                rows.next_row();
            }
            done += count as u64;
            let share = (length as f64 * (done as f64 / total).min(1.0)) as u64;
            rows.consumed(share - told);
            told = share;
        }
        // Rows that are not there would be keys that are missing.
        if found != promised {
            return Err(rows.refuse(format_args!(
                "a group of rows ends here after {found} of the {promised} that it says it has: the file is damaged"
            )));
        }
    }
    let said = file.metadata().file_metadata().num_rows();
    if i64::try_from(done) != Ok(said) {
        return Err(rows.refuse(format_args!("the file ends here and says it has {said} rows: it is damaged")));
    }
    Ok(())
}
