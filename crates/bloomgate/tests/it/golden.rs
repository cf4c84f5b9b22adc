//! The golden files: what they hold was written once, is read by every later version, and is written again byte for
//! byte from the same keys. They are never made anew; a new shape gets a new file.
//!
//! For a new one: a line in the table, `BLOOMGATE_GOLDEN=write`, and the address and the maybes that the tests report.

use std::path::PathBuf;

use bloomgate::bloom::CounterBits;
use bloomgate::format::{Compression, inspect};
use bloomgate::key::Uuid;
use bloomgate::math::scalable::Tightening;
use bloomgate::*;

/// The public test secret: bytes 0 to 31.
fn secret() -> Secret {
    Secret::from_bytes(std::array::from_fn(|i| i as u8))
}

/// The `i`-th key of a golden file, in its encoding: text `key-I`, the number I squared, the UUID of I times an odd number.
fn insert(filter: &mut AnyFilter, i: u64) -> Result<bool> {
    match (filter.contract().algorithm(), filter.contract().encoding()) {
        (hash::Algorithm::Given, _) => filter.insert_digest(given(i)),
        (_, Encoding::Unsigned) => filter.insert(&(i * i)),
        (_, Encoding::Uuid) => filter.insert(&uuid(i)),
        (_, Encoding::Tuple(_)) => filter.insert(&(i, format!("key-{i}"))),
        _ => filter.insert(&format!("key-{i}")),
    }
}

fn contains<S: bits::Store>(filter: &AnyFilter<S>, i: u64) -> bool {
    match (filter.contract().algorithm(), filter.contract().encoding()) {
        (hash::Algorithm::Given, _) => filter.contains_digest(given(i)),
        (_, Encoding::Unsigned) => filter.contains(&(i * i)).unwrap(),
        (_, Encoding::Uuid) => filter.contains(&uuid(i)).unwrap(),
        (_, Encoding::Tuple(_)) => filter.contains(&(i, format!("key-{i}"))).unwrap(),
        _ => filter.contains(&format!("key-{i}")).unwrap(),
    }
}

fn uuid(i: u64) -> Uuid {
    Uuid(u128::from(i).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes())
}

fn given(i: u64) -> Digest {
    Digest::from_u128(u128::from(i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

/// Name, keys 0.., address of the file, and which of the 2,000 keys after them answer "maybe".
const GOLDEN: &[(&str, u64, &str, &[u64])] = &[
    (
        "classic",
        200,
        "db7763c0c26a233103e8f2dd5a3b3d402064a78c29e60437a20bc1bd39d9602f",
        &[
            276, 576, 776, 864, 942, 960, 1028, 1040, 1227, 1255, 1258, 1261, 1332, 1634, 1742, 1773, 1840, 2003, 2169,
            2190,
        ],
    ),
    (
        "classic-100-bits",
        12,
        "64fe3e28fbcc1aa4db3cec58c6e257a9d85afbc6eeb88ccd814bc01eef0f3ae2",
        &[
            50, 62, 65, 108, 160, 208, 420, 484, 580, 645, 681, 711, 720, 803, 930, 963, 967, 976, 992, 996, 1019,
            1109, 1162, 1179, 1208, 1213, 1261, 1270, 1290, 1316, 1345, 1363, 1402, 1406, 1439, 1519, 1547, 1548, 1565,
            1594, 1752, 1812, 1838, 1868, 1905, 1915, 1926, 1961, 1962, 1970, 2006, 2007,
        ],
    ),
    (
        "classic-refuse",
        40,
        "5fdf2dc8a226c3a38ce4e9da11484237e81444fb6b3fb575756f11bc08532eec",
        &[58, 142, 337, 876, 1261, 1317, 1485, 1785, 2031],
    ),
    (
        "classic-murmur3",
        100,
        "a69733adcd1310c850c2b35f81e4aa9db44837e1fc82226e1c75cf287063dff1",
        &[280, 296, 376, 385, 493, 607, 648, 895, 1055, 1173, 1622, 1646, 1853, 1884, 2057],
    ),
    (
        "classic-given",
        100,
        "39a3c87a579963752e441c8a696783b57a321e2eb93b7b32c4b0e0853c6e26a2",
        &[
            293, 301, 306, 422, 440, 462, 511, 640, 668, 706, 823, 962, 1024, 1126, 1130, 1218, 1276, 1422, 1576, 1695,
            1708, 1733,
        ],
    ),
    (
        "blocked",
        1000,
        "55ba3fb4430511351d30a108920634de13df783e141fb94b5ea7665667a66109",
        &[1331, 1500, 1801, 1976, 1985, 2127, 2131, 2230, 2429, 2466, 2523, 2717, 2804, 2823, 2830, 2856, 2919, 2988],
    ),
    (
        "blocked-u64",
        1000,
        "15247a57915501e421e22e293f00c69ef31f0062b590e33b39d4215a95f9f357",
        &[
            1054, 1188, 1485, 1625, 1646, 1649, 1732, 1772, 1817, 1989, 2042, 2070, 2155, 2254, 2446, 2611, 2787, 2816,
            2856, 2966,
        ],
    ),
    ("blocked-three-lines", 100, "a5c377d48c2c7adf00377d672b30846b82715e2a81fb0284e32a3b4fdc3df6c0", &[]),
    (
        "blocked-seeded",
        100,
        "bdc4f99e5434b9d9f245221b1068685adf11126368e6134e6292f81ab400a697",
        &[
            106, 155, 404, 573, 627, 714, 747, 1115, 1128, 1164, 1175, 1332, 1384, 1452, 1792, 1871, 1878, 1895, 1933,
            2006,
        ],
    ),
    (
        "blocked-siphash13",
        100,
        "fa31c5a39edb9d4992c59ea2ecdbda91f3b262e0cf9cdc4a043c452324b175b3",
        &[
            333, 377, 380, 508, 541, 993, 994, 1042, 1053, 1067, 1205, 1223, 1251, 1368, 1445, 1451, 1503, 1523, 1549,
            1720, 1791, 1853,
        ],
    ),
    (
        "blocked-siphash24",
        100,
        "36696bb917fcf1151e8e6d4bb16397464f033659cbd14dbd0e252ab34c5d9dc4",
        &[561, 714, 753, 1191, 1302, 1359, 1525, 1561, 1760, 1775, 1908, 1911],
    ),
    (
        "blocked-blake2b",
        100,
        "7d603ed775d72cffd07cd6d505163ff4e7b47bb9e05a8c74b2b9a39c3541a4f8",
        &[
            200, 219, 252, 381, 631, 741, 752, 839, 842, 998, 1088, 1122, 1137, 1150, 1246, 1416, 1578, 1592, 1600,
            1607, 1719, 1901, 1907, 2020, 2023, 2088,
        ],
    ),
    (
        "blocked-tuple",
        100,
        "7b3b453f29d8d89d422cb7e02b45ca52e9c932b3a2179e8f8d08d2e4d0cafcd2",
        &[291, 452, 482, 506, 640, 649, 729, 869, 879, 932, 959, 964, 975, 1149, 1509, 1512, 1633, 1705, 1790, 2012],
    ),
    ("blocked-sparse", 100, "af89c60ca445593b8d9966fbdef6f358abf8f25d3119e2a584982d8c8888b7dd", &[]),
    (
        "partitioned-uuid",
        200,
        "ad20c076bcc01c98348ceabeea925de5ac088e4722559f582ed2f3e42c8743e8",
        &[266, 445, 683, 884, 915, 1153, 1166, 1367, 1430, 1565, 1581, 1634, 1788, 1929, 1961, 2128],
    ),
    (
        "counting-4",
        100,
        "bdef9c026e1dc349358d95bd3ae2b562a12921b878f648680614ff4edc6bda09",
        &[
            208, 231, 317, 380, 513, 568, 712, 786, 795, 875, 880, 1039, 1045, 1333, 1472, 1490, 1754, 1756, 1909,
            1961, 1970,
        ],
    ),
    (
        "counting-8",
        100,
        "dd4c72f895c78fcabb67d324915cd554a5cfa37a445090648fad5d3de643c688",
        &[
            208, 231, 317, 380, 513, 568, 712, 786, 795, 875, 880, 1039, 1045, 1333, 1472, 1490, 1754, 1756, 1909,
            1961, 1970,
        ],
    ),
    (
        "counting-16",
        100,
        "51db12fac5beedeb40cd4dd2ca3b0a6da52776708d9305c47b7f4e09cf53b398",
        &[
            208, 231, 317, 380, 513, 568, 712, 786, 795, 875, 880, 1039, 1045, 1333, 1472, 1490, 1754, 1756, 1909,
            1961, 1970,
        ],
    ),
    ("scalable", 400, "0cd873a439f64cdbf14837f690416610da424811b14719c6453b8e195acffe7b", &[447, 1057]),
    (
        "scalable-classic",
        500,
        "1da1665b5ecb25a0c7c879025772d4f79989f4bbe76939178927dcbffd525cc0",
        &[586, 726, 884, 1215, 1506, 1569, 1609, 1751, 1840, 1921, 2003, 2153, 2233, 2476],
    ),
    (
        "scalable-partitioned",
        400,
        "74a48d7750a412b3836b59e54d5a1fb9f07dc84b2645d2e158afa5affd324ab4",
        &[506, 572, 716, 896, 910, 984, 1028, 1128, 1161, 1243, 1327, 1359, 1696, 2223, 2230, 2285, 2321],
    ),
];

fn empty(name: &str) -> AnyFilter {
    let secret = secret();
    match name {
        "classic" => Classic::builder().items(200).rate(0.01).build().unwrap().into(),
        "classic-100-bits" => Classic::builder().bits(100).hashes(3).build().unwrap().into(),
        "classic-refuse" => {
            Classic::builder().items(50).rate(0.02).when_full(WhenFull::Refuse).keys::<str>().build().unwrap().into()
        }
        "classic-murmur3" => Classic::builder().items(100).contract(Contract::murmur3(42)).build().unwrap().into(),
        "classic-given" => Classic::builder().items(100).contract(Contract::given()).build().unwrap().into(),
        "blocked" => Blocked::builder().items(1_000).rate(0.01).build().unwrap().into(),
        "blocked-u64" => Blocked::builder().items(1_000).rate(0.01).keys::<u64>().build().unwrap().into(),
        "blocked-three-lines" => Blocked::builder().items(100).rate(1e-6).build().unwrap().into(),
        "blocked-seeded" => {
            Blocked::builder().items(100).contract(Contract::xxh3_seeded(0x0123_4567_89ab_cdef)).build().unwrap().into()
        }
        "blocked-siphash13" => Blocked::builder().items(100).secret(&secret).build().unwrap().into(),
        "blocked-siphash24" => {
            Blocked::builder().items(100).contract(Contract::siphash24(&secret)).build().unwrap().into()
        }
        "blocked-blake2b" => Blocked::builder().items(100).contract(Contract::blake2b(&secret)).build().unwrap().into(),
        "blocked-tuple" => Blocked::builder().items(100).keys::<(u64, String)>().build().unwrap().into(),
        "blocked-sparse" => Blocked::builder().items(100_000).rate(0.01).build().unwrap().into(),
        "partitioned-uuid" => Partitioned::builder().items(200).rate(0.01).keys::<Uuid>().build().unwrap().into(),
        "counting-4" => Counting::builder().items(100).build().unwrap().into(),
        "counting-8" => Counting::builder().items(100).counter_bits(CounterBits::Eight).build().unwrap().into(),
        "counting-16" => Counting::builder().items(100).counter_bits(CounterBits::Sixteen).build().unwrap().into(),
        "scalable" => Scalable::builder().items(100).rate(0.01).build().unwrap().into(),
        "scalable-classic" => Scalable::builder()
            .items(100)
            .rate(0.01)
            .growth(2.0)
            .tightening(Tightening::Geometric(0.5))
            .stages(Kind::Classic)
            .build()
            .unwrap()
            .into(),
        "scalable-partitioned" => Scalable::builder()
            .items(100)
            .rate(0.01)
            .tightening(Tightening::Plateau { stages: 2, then: 0.5 })
            .stages(Kind::Partitioned)
            .build()
            .unwrap()
            .into(),
        other => panic!("no golden file is called {other}"),
    }
}

/// The filter as it is written down: key `i` once, in counting filters 1, 2 or 3 times.
fn filled(name: &str, keys: u64) -> AnyFilter {
    let mut filter = empty(name);
    for i in 0..keys {
        let times = if filter.kind() == Kind::Counting { i % 3 + 1 } else { 1 };
        for _ in 0..times {
            insert(&mut filter, i).unwrap();
        }
    }
    filter
}

fn bytes_of(name: &str, keys: u64) -> Vec<u8> {
    let compress = if name == "blocked-sparse" { Compression::WhereItPays } else { Compression::Never };
    filled(name, keys).to_bytes_with(&SaveOptions::new().compress(compress)).unwrap()
}

fn path_of(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.bloom"))
}

#[test]
fn the_library_of_today_writes_the_golden_bytes() {
    let write = std::env::var_os("BLOOMGATE_GOLDEN").is_some_and(|value| value == "write");
    for &(name, keys, address, _) in GOLDEN {
        let bytes = bytes_of(name, keys);
        if write && !path_of(name).exists() {
            std::fs::write(path_of(name), &bytes).unwrap();
        }
        let golden = std::fs::read(path_of(name)).unwrap();
        assert!(golden.len() <= 20_000, "{name}: {} bytes", golden.len());
        assert_eq!(Address::of(&bytes).to_string(), address, "{name}");
        assert_eq!(bytes, golden, "{name}");
    }
}

#[test]
fn the_golden_files_answer_as_they_always_did() {
    let secret = secret();
    let options = OpenOptions::new().secret(&secret);
    for &(name, keys, address, maybes) in GOLDEN {
        let about = inspect(path_of(name)).unwrap();
        assert_eq!(about.address.to_string(), address, "{name}");
        let loaded = AnyFilter::open_with(path_of(name), &options).unwrap();
        let found: Vec<u64> = (keys..keys + 2_000).filter(|&i| contains(&loaded, i)).collect();
        assert_eq!(found, maybes, "{name}");
        let found = |i: u64| i < keys || maybes.contains(&i);
        for i in 0..keys + 2_000 {
            assert_eq!(contains(&loaded, i), found(i), "{name}: key {i}");
        }
        match AnyFilter::map_with(path_of(name), &options) {
            Ok(mapped) => {
                for i in 0..keys + 2_000 {
                    assert_eq!(contains(&mapped, i), found(i), "{name} mapped: key {i}");
                }
            }
            Err(refusal) => {
                assert!(about.compressed, "{name}: {refusal}");
                assert_eq!(refusal.kind(), ErrorKind::Unsupported, "{name}: {refusal}");
            }
        }
        if let AnyFilter::Counting(mut filter) = loaded {
            for i in 0..keys {
                let key = format!("key-{i}");
                assert!(filter.count_estimate(&key).unwrap() > i % 3, "{name}");
                for _ in 0..=i % 3 {
                    assert!(filter.remove(&key).unwrap(), "{name}");
                }
            }
            assert_eq!((filter.len(), filter.set_cells()), (0, 0), "{name}: all removed, nothing left");
        }
    }
    let files = std::fs::read_dir(path_of("x").parent().unwrap()).unwrap();
    let bloom = files.filter(|f| f.as_ref().unwrap().path().extension().is_some_and(|e| e == "bloom")).count();
    assert_eq!(bloom, GOLDEN.len(), "every golden file has a line in the table");
}
