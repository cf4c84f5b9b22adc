//! The golden files: what they hold was written once, is read by every later version, and is written again byte for
//! byte from the same keys. They are never made anew; a new shape gets a new file.
//!
//! For a new one: a line in the table, `BLOOMGATE_GOLDEN=write`, and the address and the maybes that the tests report.

use std::path::PathBuf;
use std::time::Duration;

use bloomgate::bloom::CounterBits;
use bloomgate::foreign::{BfV1, Guava, Parquet, RedisBloom, RedisCuckoo};
use bloomgate::format::{Compression, inspect};
use bloomgate::math::scalable::Tightening;
use bloomgate::*;

/// The public test secret: bytes 0 to 31.
fn secret() -> Secret {
    Secret::from_bytes(std::array::from_fn(|i| i as u8))
}

/// The `i`-th key of a golden file, in its encoding: text `key-I`, the number I squared, the UUID of I times an odd number.
fn insert(filter: &mut AnyFilter, i: u64) -> Result<bool> {
    match (filter.contract().algorithm(), filter.contract().encoding()) {
        (Algorithm::Given, _) => filter.insert_digest(given(i)),
        (_, Encoding::Unsigned) => filter.insert(&(i * i)),
        (_, Encoding::Uuid) => filter.insert(&uuid(i)),
        (_, Encoding::Tuple(_)) => filter.insert(&(i, format!("key-{i}"))),
        _ => filter.insert(&format!("key-{i}")),
    }
}

fn contains<S: bits::Store>(filter: &AnyFilter<S>, i: u64) -> bool {
    match (filter.contract().algorithm(), filter.contract().encoding()) {
        (Algorithm::Given, _) => filter.contains_digest(given(i)),
        (_, Encoding::Unsigned) => filter.contains(&(i * i)).unwrap(),
        (_, Encoding::Uuid) => filter.contains(&uuid(i)).unwrap(),
        (_, Encoding::Tuple(_)) => filter.contains(&(i, format!("key-{i}"))).unwrap(),
        _ => filter.contains(&format!("key-{i}")).unwrap(),
    }
}

fn remove(filter: &mut AnyFilter, i: u64) -> Result<bool> {
    match (filter, i) {
        (AnyFilter::Counting(filter), i) if filter.contract().algorithm() == Algorithm::Given => {
            Ok(filter.remove_digest(given(i)))
        }
        (filter, i) if filter.contract().encoding() == Encoding::Unsigned => filter.remove(&(i * i)),
        (filter, i) => filter.remove(&format!("key-{i}")),
    }
}

/// How often key `i` is in a filter: 1, 2 or 3 times where copies are counted.
fn times(kind: Kind, i: u64) -> u64 {
    if matches!(kind, Kind::Counting | Kind::Quotient) { i % 3 + 1 } else { 1 }
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
        "f71a68c81d89d7742a7d754a52168cc8a8dcbd02c463e9dba1175fa697ab8b27",
        &[522, 549, 563, 963, 1061, 1147, 1315, 1429, 1430, 1477, 1595, 1812, 1965],
    ),
    (
        "classic-100-bits",
        12,
        "d0553d0fbf45cd773fb6a039d2d5d13e3ca684d1572b0d03ad72f70a7d3fe295",
        &[
            13, 39, 50, 57, 178, 180, 218, 220, 247, 275, 281, 468, 472, 521, 563, 580, 662, 681, 688, 689, 712, 730,
            731, 740, 746, 792, 795, 826, 829, 980, 991, 1015, 1102, 1268, 1276, 1375, 1389, 1406, 1425, 1434, 1441,
            1464, 1472, 1537, 1547, 1588, 1642, 1684, 1740, 1746, 1751, 1812, 1858, 1874, 1921, 1944, 1977,
        ],
    ),
    (
        "classic-refuse",
        40,
        "7d3282ad57c8e87c67a6775a77bbf0d5f91ef1c37b08fbef5615d13e45e699f2",
        &[379, 434, 503, 603, 704, 1170, 1437, 1521, 1544, 1694, 1745, 1836, 1893],
    ),
    (
        "classic-murmur3",
        100,
        "883279256b3a7dca0f1ba57c43b25c253166249d0e1b1364e3861c4aa2ff7f6e",
        &[134, 272, 301, 600, 692, 760, 823, 1069, 1303, 1400, 1489, 1698, 1821, 1964, 1969, 2090],
    ),
    (
        "classic-given",
        100,
        "1e095c984e2ed876e30e82b0790ce17c2e135c22cc57f5adcdd5ab7b42f462cc",
        &[
            397, 446, 611, 698, 855, 1006, 1044, 1130, 1222, 1316, 1500, 1508, 1538, 1707, 1720, 1843, 1852, 1884,
            2032, 2053, 2076, 2084,
        ],
    ),
    (
        "blocked",
        1000,
        "b339ae98870ca9e67152da48967549852aa7d63e64590a4fac9e6eff9e009a1d",
        &[1050, 1206, 1385, 1434, 1719, 1796, 1899, 1977, 2099, 2350, 2412, 2501, 2769],
    ),
    (
        "blocked-u64",
        1000,
        "797641a6ee3d309f09a62455b80ea2e8c91c6abf8f7fb5b392d9830f64251526",
        &[
            1135, 1250, 1358, 1597, 1636, 1688, 1746, 1753, 1759, 1824, 1833, 1903, 2160, 2161, 2174, 2236, 2298, 2376,
            2405, 2595, 2642, 2726, 2870, 2939, 2970,
        ],
    ),
    ("blocked-three-lines", 100, "a5c377d48c2c7adf00377d672b30846b82715e2a81fb0284e32a3b4fdc3df6c0", &[]),
    (
        "blocked-seeded",
        100,
        "bc880f9d2e6c388ae48d203cc944049b18c35c7d6f67ed69b7387ea20b443b3b",
        &[104, 212, 215, 283, 307, 497, 523, 1062, 1106, 1163, 1284, 1635, 1680, 1794, 2068],
    ),
    (
        "blocked-siphash13",
        100,
        "eab1987050029f6d7d172820eaf804bcf728bc6ddfaf84a97e5201d331f743c4",
        &[
            156, 222, 227, 306, 549, 567, 568, 974, 1247, 1505, 1508, 1511, 1634, 1655, 1662, 1704, 1758, 1811, 1847,
            1848, 2037,
        ],
    ),
    (
        "blocked-siphash24",
        100,
        "38fe4dbd26b6981d52f5e3807db32e7d309f33d23a77099a362f7ce3aae5f546",
        &[251, 304, 564, 842, 962, 1013, 1210, 1244, 1553, 1602, 1623, 1870, 1882, 1933],
    ),
    (
        "blocked-blake2b",
        100,
        "16c0cbeaffc6159d70a807e6ffc9e975d7ad665316ecd399486e1ca91f0c157a",
        &[144, 145, 156, 280, 372, 485, 565, 656, 853, 854, 872, 1001, 1114, 1396, 1562, 1629, 1784, 1787, 2082],
    ),
    (
        "blocked-tuple",
        100,
        "185ff56dd8dfc7bc73534c4734f6cc5f4e43cbd6f5ad0ea7dae9b2a10dad3de9",
        &[220, 318, 483, 520, 527, 725, 754, 763, 766, 874, 1011, 1207, 1218, 1274, 1378, 1521],
    ),
    ("blocked-given", 100, "117532af142415949d162cae6702f0de5f3b2525a65ae72c41a75ead7e335408", &[]),
    ("blocked-sparse", 100, "32a779665071fccc7f19acca201e3dae6103e0f06ef9325d6c2a8082dcb5c599", &[]),
    (
        "partitioned-uuid",
        200,
        "8bb52618afbda66383adfb8f63e45f5d2a44afcd1fe84a19643515b01a820c32",
        &[211, 242, 267, 492, 610, 624, 667, 788, 791, 808, 1074, 1238, 1312, 1315, 1375, 1416, 1486, 1795, 1801, 2062],
    ),
    (
        "partitioned-given",
        100,
        "8c156a63ef7b784dfedda68e8c96e3a5b94f34ec92f915c7d11f384af8f4f32f",
        &[
            162, 265, 409, 517, 610, 636, 655, 682, 703, 712, 1078, 1085, 1271, 1278, 1281, 1380, 1396, 1416, 1458,
            1482, 1526, 1528, 1662, 1703, 1787, 1864, 1990,
        ],
    ),
    (
        "counting-4",
        100,
        "959437d90df0ad7770045fa912ca14e59ed33686867537a0b88e44a4ddf64de0",
        &[207, 378, 472, 585, 648, 1316, 1367, 1369, 1455, 1665, 1800, 1871, 1889, 1953],
    ),
    (
        "counting-8",
        100,
        "153a127e76b6142db56200c3b6e2fbbb2b3c62597977c6ea3e16c91cba32ec1c",
        &[207, 378, 472, 585, 648, 1316, 1367, 1369, 1455, 1665, 1800, 1871, 1889, 1953],
    ),
    (
        "counting-16",
        100,
        "0e850e71e23f57692fc6e867c251cff5b7b52d5e1e84f2b4763317567da1b0a5",
        &[207, 378, 472, 585, 648, 1316, 1367, 1369, 1455, 1665, 1800, 1871, 1889, 1953],
    ),
    (
        "counting-given",
        100,
        "95e5c9580f88a3788c90a1482fac344ac93e61ee224ed6976064bce7b61bef71",
        &[319, 357, 387, 412, 530, 579, 1023, 1120, 1140, 1145, 1151, 1422, 1441, 1585],
    ),
    ("scalable", 400, "3a69d71f222473e4479596c4799aaf3b005a6eb76aeb39c1cbb3ae91bc70aa7c", &[1030]),
    (
        "scalable-classic",
        500,
        "3308eb393ffe676d1ddb378f806549c7f508c864b02553c107d4eb9cf98b2583",
        &[647, 775, 866, 960, 1002, 1247, 1306, 1347, 1353, 1595, 1607, 1768, 1804, 2034, 2438, 2462],
    ),
    (
        "scalable-partitioned",
        400,
        "c6bb3756ceda160e0e1740d2f639e2fdbb880fd7f14b9e10127bc8ba23aba755",
        &[417, 663, 896, 966, 999, 1509, 1761, 1977, 2034, 2045, 2222],
    ),
    (
        "rotating",
        240,
        "23eec95d7911f24f8abba7a5359a943662707ffb0040ed9a4c24c68a021a2489",
        &[306, 724, 755, 936, 1008, 1524, 1882, 1901, 2171, 2205],
    ),
    (
        "stable",
        100,
        "7bfb524d37a73a552341212b6ecd47b683a5df144d902056951f42909f52e427",
        &[366, 480, 599, 632, 661, 706, 1116, 1877, 2095],
    ),
    (
        "cuckoo",
        200,
        "6540079eccc0e659751da01dd878853fe32a08466b60ff52612014809c6f5645",
        &[454, 512, 593, 693, 1049, 1358, 1389, 1397, 1860, 2008, 2105, 2198],
    ),
    ("cuckoo-u64", 200, "79ff8457f87e6a048f3f4dec27901493b3a60636110af4fec405256384e4737d", &[]),
    ("growing-cuckoo", 250, "4392f6adb38b2a962eef3fee3450515fd19bdf8502f220fa7ac2646c780c0050", &[380, 772]),
    (
        "quotient",
        200,
        "bff0aa0fdce70fa9d2aac131bf8cb9cfed8e3f4e81cfc9a04a3d9e9e9ed39c6c",
        &[472, 1083, 1360, 1759, 1769, 2056],
    ),
    ("quotient-grown", 100, "30cad544de563f18f03f32985b2c415687e5f2f24adf6414d788513e8d692dc6", &[1080, 1261]),
    (
        "fuse",
        200,
        "28f97614dceddfa85c6014e01a9f60423cea57cc571ead6b6b988dbeebef324e",
        &[248, 409, 539, 646, 786, 807, 896, 899, 1095, 1129, 1563, 1857, 1909, 2196],
    ),
    (
        "fuse-8",
        200,
        "4baf42dd10ee4c68cbaa3f35c519412e9b3b890af4e8d887f135e1c1bf9d41c8",
        &[248, 409, 539, 646, 786, 807, 896, 1857],
    ),
    ("fuse-empty", 0, "de30d3214b062f9ba23f7a02fcbceb7c50325aa98aab429eb09b05c2199ae33c", &[]),
    (
        "ribbon",
        2000,
        "9674f124a544e8f9b3e6975c29b438c5ef0b70873126807e3e7075cffeb70cef",
        &[2506, 2611, 2702, 2767, 2850, 2886, 3062, 3200, 3514, 3574, 3915, 3952],
    ),
    ("ribbon-10", 300, "df0cb6d176b8427d4ad719025d370574712e692b23d8e4bd3f9cc6ef004f1d02", &[900]),
    ("ribbon-empty", 0, "e7608d52fbec3c88c1edcf0a73709aae4a04609d3ff1d87c18fe0bda3fdee6ec", &[]),
    (
        "bfv1",
        100,
        "a51b50736e3ed35c46bd312e34cc70e8aef1cb631b506bda0e4ae3bb8dacd41c",
        &[
            210, 358, 374, 537, 572, 576, 596, 756, 789, 815, 942, 975, 1069, 1107, 1161, 1397, 1439, 1583, 1697, 1702,
            1737, 1817, 1925, 1952, 2078, 2092,
        ],
    ),
    (
        "redisbloom",
        80,
        "5b82da66c3ab3574c49fa7b18401f9208248665acbb3da9a0f7c8c7d0b34d6f9",
        &[278, 333, 706, 853, 905, 1025, 1105, 1649, 2028],
    ),
    (
        "rediscuckoo",
        100,
        "0d624aaccee1b8d3369d587642f41dc3e9c83f0ebc1b1c2a5c6a44e5272e4703",
        &[
            131, 134, 154, 158, 197, 278, 365, 398, 451, 541, 571, 682, 797, 914, 933, 980, 1010, 1231, 1263, 1288,
            1293, 1329, 1348, 1364, 1422, 1515, 1528, 1572, 1605, 1613, 1627, 1628, 1655, 1689, 1695, 1772, 1792, 1836,
            1840, 1917, 1923, 1928, 1979, 1998, 2007, 2093,
        ],
    ),
    (
        "guava",
        100,
        "ba9ae1d24aaba8936ca79060bab811f2a67baf37d9722e6ff30b2c54a4fb0437",
        &[
            196, 216, 325, 331, 401, 499, 536, 573, 588, 669, 674, 714, 805, 1073, 1216, 1226, 1411, 1432, 1473, 1479,
            1533, 1586, 1634, 1869, 1914,
        ],
    ),
    ("parquet", 100, "e10e23f07cc3a2db5c415a261f9052748a197f1b5e89b5b630f0a0f4282e1b1c", &[852]),
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
        "blocked-given" => Blocked::builder().items(100).rate(1e-6).contract(Contract::given()).build().unwrap().into(),
        "partitioned-given" => Partitioned::builder().items(100).contract(Contract::given()).build().unwrap().into(),
        "counting-given" => Counting::builder().items(100).contract(Contract::given()).build().unwrap().into(),
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
        "rotating" => Rotating::builder()
            .window(Duration::from_secs(100))
            .max_step(Duration::from_secs(3_600))
            .items(400)
            .build()
            .unwrap()
            .into(),
        "stable" => Stable::builder().items(100).build().unwrap().into(),
        "cuckoo" => Cuckoo::builder().items(200).build().unwrap().into(),
        "cuckoo-u64" => Cuckoo::builder().items(200).rate(1e-6).keys::<u64>().build().unwrap().into(),
        "growing-cuckoo" => GrowingCuckoo::builder().items(40).build().unwrap().into(),
        "quotient" => Quotient::builder().items(500).build().unwrap().into(),
        "quotient-grown" => Quotient::builder().items(50).grow_to(1_000).keys::<u64>().build().unwrap().into(),
        "bfv1" => BfV1::builder().items(100).seed(42).build().unwrap().into(),
        "redisbloom" => RedisBloom::builder().items(50).build().unwrap().into(),
        "rediscuckoo" => RedisCuckoo::builder().items(64).build().unwrap().into(),
        "guava" => Guava::builder().items(100).keys::<str>().build().unwrap().into(),
        "parquet" => Parquet::builder().items(100).build().unwrap().into(),
        other => panic!("no golden file is called {other}"),
    }
}

/// The kinds that are built once, from all their keys.
fn built(name: &str, keys: u64) -> Option<AnyFilter> {
    let keys = (0..keys).map(|i| format!("key-{i}"));
    Some(match name {
        "fuse" | "fuse-empty" => Fuse::builder().build_from(keys).unwrap().into(),
        "fuse-8" => Fuse::builder().fingerprint_bits(8).build_from(keys).unwrap().into(),
        "ribbon" | "ribbon-empty" => Ribbon::builder().build_from(keys).unwrap().into(),
        "ribbon-10" => Ribbon::builder().rate(0.001).build_from(keys).unwrap().into(),
        _ => return None,
    })
}

/// The filter as it is written down: key `i` once, or as often as copies of it are counted.
fn filled(name: &str, keys: u64) -> AnyFilter {
    if let Some(filter) = built(name, keys) {
        return filter;
    }
    let mut filter = empty(name);
    match &mut filter {
        // The ring has turned twelve times, and turns twice more as keys come: four each second.
        AnyFilter::Rotating(ring) => {
            ring.advance(Duration::from_secs(1_000));
            ring.advance(Duration::from_secs(1_300));
        }
        // Four rounds of the hand.
        AnyFilter::Stable(stable) => {
            for i in 10_000..10_200 {
                stable.insert(&format!("key-{i}")).unwrap();
            }
        }
        _ => {}
    }
    for i in 0..keys {
        for _ in 0..times(filter.kind(), i) {
            insert(&mut filter, i).unwrap();
        }
        if let AnyFilter::Rotating(ring) = &mut filter {
            ring.advance(Duration::from_millis(1_300_250 + 250 * i));
        }
    }
    filter
}

fn bytes_of(name: &str, filter: &AnyFilter) -> Vec<u8> {
    let compress = if name == "blocked-sparse" { Compression::WhereItPays } else { Compression::Never };
    filter.to_bytes_with(&SaveOptions::new().compress(compress)).unwrap()
}

fn path_of(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.bloom"))
}

/// A line of the table as it should be, for all that differ at once.
fn row(name: &str, keys: u64, address: Address, maybes: &[u64]) -> String {
    format!("({name:?}, {keys}, \"{address}\", &{maybes:?}),\n")
}

#[test]
fn the_library_of_today_writes_the_golden_bytes() {
    let write = std::env::var_os("BLOOMGATE_GOLDEN").is_some_and(|value| value == "write");
    let mut wrong = String::new();
    for &(name, keys, address, maybes) in GOLDEN {
        let filter = filled(name, keys);
        let bytes = bytes_of(name, &filter);
        if write && !path_of(name).exists() {
            std::fs::write(path_of(name), &bytes).unwrap();
        }
        let golden = std::fs::read(path_of(name)).unwrap();
        assert!(golden.len() <= 20_000, "{name}: {} bytes", golden.len());
        let found: Vec<u64> = (keys..keys + 2_000).filter(|&i| contains(&filter, i)).collect();
        if bytes != golden || Address::of(&bytes).to_string() != address || found != maybes {
            wrong += &row(name, keys, Address::of(&bytes), &found);
        }
    }
    assert!(wrong.is_empty(), "these are written otherwise, or answer otherwise:\n{wrong}");
}

#[test]
fn the_golden_files_answer_as_they_always_did() {
    let secret = secret();
    let options = OpenOptions::new().secret(&secret);
    for &(name, keys, address, maybes) in GOLDEN {
        let about = inspect(path_of(name)).unwrap();
        assert_eq!(about.address.to_string(), address, "{name}");
        let loaded = AnyFilter::open_with(path_of(name), &options).unwrap_or_else(|e| panic!("{name}: {e}"));
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
        let mut loaded = loaded;
        if loaded.kind().takes_removals() {
            for i in 0..keys {
                for _ in 0..times(loaded.kind(), i) {
                    assert!(remove(&mut loaded, i).unwrap(), "{name}: key {i}");
                }
            }
            assert_eq!((loaded.len(), loaded.fill_ratio()), (0, 0.0), "{name}: all removed, nothing left");
        }
    }
    let files = std::fs::read_dir(path_of("x").parent().unwrap()).unwrap();
    let bloom = files.filter(|f| f.as_ref().unwrap().path().extension().is_some_and(|e| e == "bloom")).count();
    assert_eq!(bloom, GOLDEN.len(), "every golden file has a line in the table");
}
