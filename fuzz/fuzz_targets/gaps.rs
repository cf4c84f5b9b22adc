//! Gap coding: what is coded comes back, and arbitrary bytes decode to what they say or are refused.

#![no_main]

use bloomgate::format::gaps;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let coded = gaps::encode(data);
    assert_eq!(gaps::decode(&coded, data.len() as u64).expect("our own coding"), data);

    let Some((length, _)) = data.split_first_chunk::<8>() else { return };
    let length = u64::from_le_bytes(*length);
    if length > 1 << 20 {
        return;
    }
    if let Ok(raw) = gaps::decode(data, length) {
        assert_eq!(raw.len() as u64, length);
        assert_eq!(gaps::decode(&gaps::encode(&raw), length).expect("our own coding"), raw);
    }
});
