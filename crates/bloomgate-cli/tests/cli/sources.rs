//! Sources of keys: compressed files, CSV, JSON lines, Parquet and SQLite; each built from and asked for again.

use std::io::Write;

use crate::scene::{Scene, lines};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    // With the checksum that the zstd command writes too.
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Builds with these options and finds exactly these keys: every one, by a filter as precise as a set.
fn holds(scene: &Scene, options: &str, keys: &[&[u8]]) {
    let built = scene.run(&format!("build -o f.bloom --rate 1e-9 --json {options}")).code(0);
    assert_eq!(built.number("keys_read"), keys.len() as f64, "{options}");
    let mut asked = keys.join(&0);
    asked.push(0);
    let found = scene.run_with("check -0 --keep-empty f.bloom", asked.clone()).code(0);
    assert!(found.out().as_bytes() == String::from_utf8_lossy(&asked).as_bytes(), "{options}: a key is missing");
}

/// What is left of the stderr of a run that builds.
fn notes(scene: &Scene, options: &str) -> String {
    scene.run(&format!("build -o f.bloom {options}")).code(0).err()
}

#[test]
fn compressed_files_and_streams_are_recognised() {
    let scene = Scene::new();
    let (one, two) = (lines("one", 20_000), lines("two", 20_000));
    let all = one.clone() + &two;
    // A skippable frame first, as pzstd writes it: sixteen magic numbers, a length, and that many bytes.
    let skippable = [&b"\x5a\x2a\x4d\x18\x03\0\0\0abc"[..], &zstd(all.as_bytes())].concat();
    for (name, bytes) in [
        ("gz", gzip(all.as_bytes())),
        ("gz2", [gzip(one.as_bytes()), gzip(two.as_bytes())].concat()),
        ("zst", zstd(all.as_bytes())),
        ("zst2", [zstd(one.as_bytes()), zstd(two.as_bytes())].concat()),
        ("skippable", skippable),
        ("plain", all.clone().into_bytes()),
    ] {
        scene.write(name, &bytes);
        for (way, input) in [(name, &b""[..]), ("-", &bytes)] {
            let built = scene.run_with(&format!("build -o f.bloom --json {way}"), input).code(0);
            assert_eq!(built.number("keys_read"), 40_000.0, "{name}");
            let found = scene.run_with(&format!("check f.bloom -f {way}"), input).code(0);
            assert!(found.out() == all, "{name} {way}");
        }
    }
    // Mixed, and said by name.
    assert_eq!(scene.run("build -o f.bloom --json gz zst plain").code(0).number("keys_read"), 120_000.0);
    for (how, file) in [("gzip", "gz2"), ("zstd", "zst2"), ("none", "plain"), ("auto", "gz")] {
        let built = scene.run(&format!("build -o f.bloom --json --decompress {how} {file}")).code(0);
        assert_eq!(built.number("keys_read"), 40_000.0);
    }
    // A redirected file is counted first, and read again from where it was.
    let redirected = std::process::Command::new(assert_cmd::cargo::cargo_bin!("bloomgate"))
        .args(["build", "--json", "-o"])
        .arg(scene.path("redirected.bloom"))
        .stdin(std::fs::File::open(scene.path("gz")).unwrap())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&redirected.stdout).contains("\"keys_read\":40000,"), "{redirected:?}");
}

#[test]
fn compressed_data_that_are_cut_or_damaged_are_an_error() {
    let scene = Scene::new();
    let text = lines("some key ", 50_000);
    for (form, whole) in [("gzip", gzip(text.as_bytes())), ("zstd", zstd(text.as_bytes()))] {
        scene.write("cut", &whole[..whole.len() / 2]);
        let half = bloomgate_grouped(whole.len() / 2);
        scene.run("build -q -o f.bloom cut").refused(&["cut: ", form, "in the middle", &half]);
        scene.run_with("build -q -o f.bloom", &whole[..whole.len() - 1]).refused(&["standard input", "middle"]);
        let mut damaged = whole.clone();
        damaged[whole.len() / 2] ^= 0x55;
        damaged[whole.len() / 2 + 1] ^= 0x55;
        scene.write("damaged", &damaged);
        scene.run("build -q -o f.bloom damaged").refused(&["damaged: ", form]);
    }
    scene.write("plain", lines("a", 100));
    scene.run("build -q -o f.bloom --decompress gzip plain").refused(&["plain: ", "--decompress"]);
    scene.run("build -q -o f.bloom --decompress xz plain").refused(&["auto", "none", "gzip", "zstd"]);
    scene.write("xz", b"\xfd7zXZ\0rest");
    scene.run("build -q -o f.bloom xz").refused(&["xz: ", "xzcat"]);
    scene.run("build -q -o f.bloom --decompress none xz").code(0);
    scene.write("par", b"PAR1rest");
    scene.run("build -q -o g.bloom par").refused(&["--parquet"]);
    assert_eq!(scene.files(), ["cut", "damaged", "f.bloom", "par", "plain", "xz"]);
}

fn bloomgate_grouped(number: usize) -> String {
    assert!((1000..1_000_000).contains(&number));
    format!("{},{:03}", number / 1000, number % 1000)
}

#[test]
fn a_bomb_is_refused_at_the_longest_key() {
    let scene = Scene::new();
    // 64 MiB in one line, from a few kilobytes.
    let bomb = gzip(&vec![b'x'; 64 << 20]);
    assert!(bomb.len() < 1 << 20);
    scene.write("bomb.gz", &bomb);
    scene.run("build -q -o f.bloom bomb.gz").refused(&["bomb.gz:1: ", "16,777,216"]);
    scene.run("build -q -o f.bloom --jsonl id bomb.gz").refused(&["bomb.gz:1: ", "16,777,216"]);
    scene.run("build -q -o f.bloom --csv id bomb.gz").refused(&["bomb.gz:1: ", "16,777,216"]);
    #[cfg(target_os = "linux")]
    {
        // In an address space of 200 MiB, of which a program with its libraries takes a part.
        let run = std::process::Command::new("sh")
            .args(["-c", "ulimit -v 204800; exec \"$0\" build -q -o f.bloom bomb.gz"])
            .arg(assert_cmd::cargo::cargo_bin!("bloomgate"))
            .current_dir(scene.path("."))
            .output()
            .unwrap();
        assert!(String::from_utf8_lossy(&run.stderr).contains("16,777,216"), "{run:?}");
    }
}

#[test]
fn csv_columns_are_keys() {
    let scene = Scene::new();
    let text = b"\xef\xbb\xbfid,\"e-mail\",name\r\n1,a@b,\"Doe, Jane\"\r\n2,,\"two\r\nlines\"\r\n3,c@d,\"\xff\xfe \"\"q\"\"\"\r\n";
    scene.write("t.csv", text).write("t.csv.gz", gzip(text));
    let names: [&[u8]; 3] = [b"Doe, Jane", b"two\r\nlines", b"\xff\xfe \"q\""];
    holds(&scene, "--csv name t.csv", &names);
    holds(&scene, "--csv name t.csv.gz", &names);
    holds(&scene, "--csv id t.csv", &[b"1", b"2", b"3"]);
    holds(&scene, "--csv e-mail t.csv", &[b"a@b", b"c@d"]);
    holds(&scene, "--csv e-mail --keep-empty t.csv", &[b"a@b", b"", b"c@d"]);
    holds(&scene, "--csv e-mail,id t.csv", &[b"a@b\t1", b"\t2", b"c@d\t3"]);
    scene.write("semi.csv", "5;x\n6;y\n").write("t.tsv", "id\tname\n7\tan \"odd\" one\n");
    holds(&scene, "--csv 2 --no-header --delimiter ; semi.csv", &[b"x", b"y"]);
    holds(&scene, "--tsv name t.tsv", &[b"an \"odd\" one"]);
    holds(&scene, "--csv name --delimiter \\t t.tsv", &[b"an \"odd\" one"]);
    scene.write("dump.tsv", "id\tname\n1\t\"a\n2\tb\" c\n");
    holds(&scene, "--tsv name --no-quotes dump.tsv", &[b"\"a", b"b\" c"]);
    scene.run("build -q -o f.bloom --tsv name dump.tsv").refused(&["dump.tsv:2: ", "--no-quotes"]);
    // Parts of a tuple are what --keys says, and check reads the same columns.
    scene.run("build -q -o t.bloom --csv id,name --keys tuple(u64,bytes) t.csv").refused(&["t.csv:5: ", "UTF-8"]);
    scene.run("build -q -o t.bloom --tsv id,name --keys tuple(u64,text) t.tsv").code(0);
    assert_eq!(scene.run("check t.bloom --tsv id,name -f t.tsv").code(0).out(), "7\tan \"odd\" one\n");
    assert_eq!(scene.run_with("check t.bloom", "0007\tan \"odd\" one\n8\tb\n").code(0).out(), "0007\tan \"odd\" one\n");
    assert!(notes(&scene, "--csv id t.csv").lines().count() == 1);
}

#[test]
fn csv_that_is_wrong_is_refused_with_its_line() {
    let scene = Scene::new();
    scene.write("t.csv", "id,user_name\n1,\"a\nb\"\n2\n");
    scene.run("build -q -o f.bloom --csv username t.csv").refused(&["t.csv:1", "user_name, id"]);
    scene.run("build -q -o f.bloom --csv id t.csv").refused(&["t.csv:4: ", "1 field,", "has 2"]);
    scene.run("build -q -o f.bloom --csv 3 --no-header t.csv").refused(&["2 columns"]);
    scene.run("build -q -o f.bloom --csv id --tsv id t.csv").refused(&["--tsv"]);
    scene.run("build -q -o f.bloom --csv id -0 t.csv").refused(&["--null"]);
    scene.run("build -q -o f.bloom --csv id --delimiter :: t.csv").refused(&["one character"]);
    scene.run("build -q -o f.bloom --delimiter ; t.csv").refused(&["--csv"]);
    scene.run("build -q -o f.bloom --no-header t.csv").refused(&["--csv"]);
    assert_eq!(scene.files(), ["t.csv"]);
}

#[test]
fn fields_of_json_lines_are_keys() {
    let scene = Scene::new();
    let text = "{\"user\":{\"id\":17,\"name\":\"J\\u00fcrgen\\n\"}}\r\n\n{\"user\":{\"id\":null}}\n{\"user\":{\"id\":\"x\"}}\n{}\n";
    scene.write("t.jsonl", text).write("t.zst", zstd(text.as_bytes()));
    holds(&scene, "--jsonl user.id t.jsonl", &[b"17", b"x"]);
    holds(&scene, "--jsonl /user/id t.zst", &[b"17", b"x"]);
    holds(&scene, "--jsonl user.name t.jsonl", &["Jürgen\n".as_bytes()]);
    holds(&scene, "--jsonl user.id,user.name t.jsonl", &["17\tJürgen\n".as_bytes()]);
    let told = notes(&scene, "--jsonl user.id t.jsonl");
    assert!(told.contains("note: t.jsonl: 1 line without the field and 1 line where it is null skipped"), "{told}");
    let planned = scene.run("plan --jsonl user.id --from t.jsonl").code(0);
    assert!(planned.err().contains("note: t.jsonl: 1 line without the field and 1 line"), "{}", planned.err());
    let asked = scene.run("check f.bloom --jsonl user.id -f t.jsonl").code(0);
    assert_eq!((asked.out(), asked.err().contains("skipped")), ("17\nx\n".into(), true));
    scene.run("build -q -o f.bloom --jsonl user.idd t.jsonl").refused(&["none of 4 lines", "user.id,"]);
    // What was meant is another file: the lines of a filter are nobody's keys.
    scene.run("build -q -o g.bloom f.bloom").refused(&["f.bloom: this is a filter", "give the files of its keys"]);
    scene.run("check f.bloom -f f.bloom").refused(&["f.bloom: this is a filter"]);
    scene.run("build -q -o f.bloom --jsonl user t.jsonl").refused(&["t.jsonl:1: ", "an object"]);
    scene.write("bad.jsonl", "{\"a\":1}\n{\"a\":1,}\n");
    scene.run("build -q -o f.bloom --jsonl a bad.jsonl").refused(&["bad.jsonl:2:8: "]);
    scene.run("build -q -o f.bloom --jsonl a --keys u64 t.jsonl").refused(&["none of"]);
}

/// `cargo nextest run -p bloomgate-cli --no-default-features` runs this.
#[cfg(not(any(feature = "parquet", feature = "postgres", feature = "sqlite")))]
#[test]
fn what_was_built_without_a_feature_says_so() {
    let scene = Scene::new();
    scene.write("t.parquet", "");
    let told = |feature: &str| format!("this bloomgate was built without {feature}; install with --features {feature}");
    scene.run("build -q -o f.bloom --parquet id t.parquet").refused(&[&told("parquet")]);
    for (feature, source) in [("sqlite", "sqlite:none.db"), ("postgres", "postgres://nobody@localhost/none")] {
        scene.run_spaced("build -q -o f.bloom --query", "SELECT 1", source).refused(&[&told(feature)]);
    }
}

/// A file that strangers wrote must not command the terminal that shows why it is refused.
#[test]
fn no_control_character_of_a_refused_value_is_shown() {
    let scene = Scene::new();
    let ran = scene.run_with("build -o f.bloom --jsonl id", "{\"id\":[\"\u{9b}31mred\"]}\n").code(2);
    assert!(ran.err().contains("31mred") && !ran.err().contains('\u{9b}'), "{:?}", ran.err());
}

#[cfg(feature = "parquet")]
mod parquet {
    use std::fs::File;
    use std::sync::Arc;

    use ::parquet::basic::{Compression, ZstdLevel};
    use ::parquet::data_type::{
        BoolType, ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, Int32Type, Int64Type,
    };
    use ::parquet::file::properties::WriterProperties;
    use ::parquet::file::writer::SerializedFileWriter;
    use ::parquet::schema::parser::parse_message_type;

    use super::*;

    const SCHEMA: &str = "message table {
        required int64 id; optional binary name (UTF8); required int32 small (INTEGER(32,false));
        required fixed_len_byte_array(16) uuid (UUID); required group user { optional binary mail; }
        required boolean flag; required int64 time (TIMESTAMP(MILLIS,true));
        optional group tags (LIST) { repeated group list { optional binary element (UTF8); } }
    }";

    /// Two row groups of 5,000 rows; every tenth name is null, every row has two tags but the first, which has none.
    fn write(scene: &Scene, name: &str, compression: Compression) {
        let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
        let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
        let mut writer =
            SerializedFileWriter::new(File::create(scene.path(name)).unwrap(), schema, properties).unwrap();
        for group in 0..2i64 {
            let rows = || group * 5_000..(group + 1) * 5_000;
            let text = |text: String| ByteArray::from(text.into_bytes());
            let mut group = writer.next_row_group().unwrap();
            macro_rules! column {
                ($type:ty, $values:expr, $definitions:expr, $repetitions:expr) => {{
                    let mut column = group.next_column().unwrap().unwrap();
                    let values: Vec<_> = $values.collect();
                    column.typed::<$type>().write_batch(&values, $definitions, $repetitions).unwrap();
                    column.close().unwrap();
                }};
            }
            let named: Vec<i16> = rows().map(|row| i16::from(row % 10 != 0)).collect();
            column!(Int64Type, rows().map(|row| row - 100), None, None);
            column!(
                ByteArrayType,
                rows().filter(|row| row % 10 != 0).map(|row| text(format!("n{row}"))),
                Some(&named),
                None
            );
            column!(Int32Type, rows().map(|row| -1 - row as i32), None, None);
            column!(FixedLenByteArrayType, rows().map(uuid).map(FixedLenByteArray::from), None, None);
            column!(ByteArrayType, rows().map(|row| ByteArray::from(mail(row))), Some(&[1; 5_000]), None);
            column!(BoolType, rows().map(|_| true), None, None);
            column!(Int64Type, rows(), None, None);
            let tags = || rows().flat_map(|row| if row == 0 { vec![] } else { vec![(row, 0), (row, 1)] });
            let empty = rows().contains(&0);
            let definitions: Vec<i16> = empty.then_some(0).into_iter().chain(tags().map(|_| 3)).collect();
            let repetitions: Vec<i16> = empty.then_some(0).into_iter().chain(tags().map(|(_, at)| at)).collect();
            column!(
                ByteArrayType,
                tags().map(|(row, at)| text(format!("t{row}-{at}"))),
                Some(&definitions),
                Some(&repetitions)
            );
            group.close().unwrap();
        }
        writer.close().unwrap();
    }

    /// Bytes that are no text, without the NUL that ends a key when it is asked for.
    fn mail(row: i64) -> Vec<u8> {
        vec![0xff, (row % 250 + 1) as u8, (row / 250 + 1) as u8]
    }

    fn uuid(row: i64) -> Vec<u8> {
        (row as u128 * 0x0123_4567_89ab_cdef_0123_4567_89ab).to_be_bytes().to_vec()
    }

    fn all(key: impl Fn(i64) -> Option<String>) -> Vec<Vec<u8>> {
        (0..10_000).filter_map(key).map(String::into_bytes).collect()
    }

    #[track_caller]
    fn column_holds(scene: &Scene, options: &str, keys: Vec<Vec<u8>>) {
        holds(scene, options, &keys.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }

    /// Rows that the file says it has and that are not there are keys that would be missing.
    #[test]
    fn a_group_with_fewer_rows_than_it_says_is_refused() {
        let scene = Scene::new();
        write(&scene, "t.parquet", Compression::UNCOMPRESSED);
        let mut bytes = scene.read("t.parquet");
        // 5,000 as the footer writes it, the last time: the rows of the second group. Now they are 5,001.
        let at = bytes.windows(2).rposition(|two| two == [0x90, 0x4e]).unwrap();
        bytes[at] = 0x92;
        scene.write("t.parquet", bytes);
        scene.run("build -o f.bloom --parquet id t.parquet").refused(&["5000 of the 5001", "damaged"]);
        assert_eq!(scene.files(), ["t.parquet"]);
    }

    /// In the footer a change of the last bit turns a number negative.
    #[test]
    fn no_damage_of_the_footer_stops_the_program() {
        let scene = Scene::new();
        let schema = Arc::new(parse_message_type("message t { required int64 id; }").unwrap());
        let file = File::create(scene.path("whole.parquet")).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&[1, 2, 3], None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        let whole = scene.read("whole.parquet");
        let length = u32::from_le_bytes(whole[whole.len() - 8..whole.len() - 4].try_into().unwrap()) as usize;
        let mut refused = 0;
        for at in whole.len() - 8 - length..whole.len() - 8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            let ran = scene.write("t.parquet", bytes).run("build -q -o f.bloom --parquet id t.parquet");
            assert!(!ran.err().contains("panicked"), "{at}: {}", ran.err());
            refused += u32::from(ran.err().contains("t.parquet: "));
        }
        assert!(refused > 20, "{refused}");
    }

    #[test]
    fn columns_of_every_type_are_keys() {
        let scene = Scene::new();
        for (name, compression) in [
            ("t.parquet", Compression::UNCOMPRESSED),
            ("snappy.parquet", Compression::SNAPPY),
            ("zstd.parquet", Compression::ZSTD(ZstdLevel::default())),
        ] {
            write(&scene, name, compression);
            column_holds(&scene, &format!("--parquet id {name}"), all(|row| Some((row - 100).to_string())));
        }
        let named = |row: i64| (row % 10 != 0).then(|| format!("n{row}"));
        column_holds(&scene, "--parquet name t.parquet", all(named));
        column_holds(&scene, "--parquet small t.parquet", all(|row| Some((u32::MAX as i64 - row).to_string())));
        let mails = (0..10_000).map(mail).collect();
        column_holds(&scene, "--parquet user.mail t.parquet", mails);
        column_holds(
            &scene,
            "--parquet name,id t.parquet",
            all(|row| named(row).map(|n| format!("{n}\t{}", row - 100))),
        );
        let tags = (1..10_000).flat_map(|row| [format!("t{row}-0").into(), format!("t{row}-1").into()]).collect();
        column_holds(&scene, "--parquet tags t.parquet", tags);
        // Integers and UUIDs as --keys reads them.
        scene.run("build -q -o f.bloom --parquet id --keys i64 t.parquet").code(0);
        scene.run("check f.bloom -- -100 9899 +0").code(0);
        scene.run("build -q -o f.bloom --parquet uuid --keys uuid t.parquet").code(0);
        let written: String = uuid(77).iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(scene.run(&format!("check -c f.bloom {written}")).code(0).out(), "1\n");
        assert_eq!(scene.run("check -c f.bloom --parquet uuid -f t.parquet").code(0).out(), "10000\n");
        let told = notes(&scene, "--parquet name t.parquet");
        assert!(told.contains("t.parquet: 1,000 nulls skipped"), "{told}");
    }

    #[test]
    fn what_is_no_key_or_no_file_is_refused() {
        let scene = Scene::new();
        write(&scene, "t.parquet", Compression::SNAPPY);
        let whole = scene.read("t.parquet");
        scene.run("build -q -o f.bloom --parquet nam t.parquet").refused(&["t.parquet: ", "name, "]);
        scene.run("build -q -o f.bloom --parquet flag t.parquet").refused(&["flag holds BOOLEAN"]);
        scene.run("build -q -o f.bloom --parquet time t.parquet").refused(&["time holds TIMESTAMP"]);
        scene.run("build -q -o f.bloom --parquet tags,id t.parquet").refused(&["tags is a list"]);
        scene.run_with("build -q -o f.bloom --parquet id", whole.clone()).refused(&["standard input", "pipe"]);
        scene.write("cut.parquet", &whole[..whole.len() / 2]).write("text", "a\n");
        scene.run("build -q -o f.bloom --parquet id cut.parquet").refused(&["cut.parquet: ", "Parquet file"]);
        scene.run("build -q -o f.bloom --parquet id text").refused(&["text: "]);
        scene.run("build -q -o f.bloom --parquet id none.parquet").refused(&["none.parquet: "]);
        assert_eq!(scene.files(), ["cut.parquet", "t.parquet", "text"]);
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use rusqlite::Connection;

    use super::*;

    fn database(scene: &Scene) {
        let connection = Connection::open(scene.path("app.db")).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE users (id INTEGER, email TEXT, photo BLOB, height REAL);
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
                 INSERT INTO users SELECT i - 10, CASE WHEN i % 5 THEN 'user' || i || '@example.org' END, x'ff00', 1.5 FROM n;",
            )
            .unwrap();
    }

    fn run(scene: &Scene, verb: &str, query: &str, rest: &str) -> crate::scene::Ran {
        scene.run_spaced(&format!("{verb} --query"), query, rest)
    }

    #[test]
    fn queries_give_keys() {
        let scene = Scene::new();
        database(&scene);
        let before = scene.read("app.db");
        let built = run(&scene, "build -o f.bloom --json", "SELECT email FROM users", "sqlite:app.db").code(0);
        assert_eq!((built.number("keys_read"), built.number("distinct")), (40_000.0, 40_000.0));
        assert!(built.err().contains("note: sqlite:app.db: 10,000 nulls skipped"), "{}", built.err());
        let keys: String = (1..=50_000).filter(|i| i % 5 != 0).map(|i| format!("user{i}@example.org\n")).collect();
        assert!(scene.run_with("check f.bloom", keys.clone()).code(0).out() == keys, "a key is missing");
        let asked = run(&scene, "check f.bloom", "SELECT email FROM users", "-f sqlite:app.db").code(0);
        assert!(asked.out() == keys);
        run(&scene, "build -q -o f.bloom --keys i64", "SELECT id FROM users", "sqlite:app.db").code(0);
        assert_eq!(scene.run("check f.bloom -- -9 49990 0").code(0).out(), "-9\n49990\n0\n");
        run(&scene, "build -q -o f.bloom", "SELECT photo FROM users", "sqlite:app.db").code(0);
        scene.run_with("check -0 f.bloom", b"\xff\0").code(1);
        scene.run_with("check f.bloom", b"\xff\0").code(0);
        let pair = "SELECT id, email FROM users";
        run(&scene, "build -q -o f.bloom --keys tuple(i64,text)", pair, "sqlite:app.db").code(0);
        assert_eq!(scene.run_with("check -c f.bloom", "-9\tuser1@example.org\n").code(0).out(), "1\n");
        assert_eq!(scene.read("app.db"), before);
        assert_eq!(scene.files(), ["app.db", "f.bloom"], "no journal is left behind");
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_nothing_is_made_or_changed() {
        let scene = Scene::new();
        database(&scene);
        scene.write("text", "a\n".repeat(1000));
        let refused = |query: &str, rest: &str, said: &[&str]| {
            run(&scene, "build -q -o f.bloom", query, rest).refused(said);
        };
        refused("SELECT id FROM users", "sqlite:none.db", &["sqlite:none.db: ", "No such file"]);
        refused("SELECT id FROM users", "sqlite:text", &["sqlite:text: ", "not a database"]);
        refused("SELECT id FROM user", "sqlite:app.db", &["sqlite:app.db: ", "no such table: user"]);
        refused("SELECT height FROM users", "sqlite:app.db", &["row 1: ", "CAST(height AS TEXT)"]);
        refused("DELETE FROM users RETURNING id", "sqlite:app.db", &["readonly"]);
        refused("ATTACH 'new.db' AS new", "sqlite:app.db", &["SELECT"]);
        refused("SELECT id FROM users", "text", &["--query", "text is none"]);
        scene.run("build -q -o f.bloom sqlite:app.db").refused(&["--query"]);
        scene.run("build -q -o f.bloom app.db").refused(&["sqlite:FILE"]);
        scene.run("build -q -o f.bloom --csv id sqlite:app.db").refused(&["--query"]);
        run(&scene, "build -q -o app.db", "SELECT id FROM users", "sqlite:app.db").refused(&["is read"]);
        assert_eq!(scene.files(), ["app.db", "text"]);
    }
}
