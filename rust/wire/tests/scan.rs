//! No message that the fast parser would change goes unflagged.
#![allow(clippy::unwrap_used, reason = "tests")]

use ferrule_wire::scan::{DEEP, MAX_DEPTH, SLOW, flags};
use proptest::prelude::*;

/// The straightforward way: every run of digits, every escape.
fn must_be_slow(message: &str) -> bool {
    has_big_integer(message) || has_lone_surrogate(message.as_bytes())
}

fn has_big_integer(message: &str) -> bool {
    let mut rest = message;
    while let Some(start) = rest.find(|char: char| char.is_ascii_digit()) {
        let before = rest.get(..start).unwrap();
        let digits_on = rest.get(start..).unwrap();
        let end = digits_on.find(|char: char| !char.is_ascii_digit());
        let (digits, after) = digits_on.split_at(end.unwrap_or(digits_on.len()));
        let is_float = before.ends_with('.') || after.starts_with(['.', 'e', 'E']);
        let fits = if before.ends_with('-') {
            format!("-{digits}").parse::<i64>().is_ok()
        } else {
            digits.parse::<u64>().is_ok()
        };
        if !fits && !is_float {
            return true;
        }
        rest = after;
    }
    false
}

fn has_lone_surrogate(message: &[u8]) -> bool {
    let mut units = Vec::new();
    let mut rest = message;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            units.push(None);
            continue;
        }
        let Some((kind, after)) = rest.split_first() else {
            break;
        };
        rest = after;
        let digits = after
            .get(..4)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        if let (b'u', Some(unit)) = (kind, unit) {
            units.push(Some(unit));
            rest = after.get(4..).unwrap();
        } else {
            units.push(None);
        }
    }
    let is_low = |unit: &Option<u16>| matches!(unit, Some(0xDC00..=0xDFFF));
    let mut waits_for_low = false;
    for unit in units {
        if waits_for_low != is_low(&unit) {
            return true;
        }
        waits_for_low = matches!(unit, Some(0xD800..=0xDBFF));
    }
    waits_for_low
}

fn message() -> impl Strategy<Value = String> {
    let pieces = vec![
        "0",
        "1",
        "9",
        "18446744073709551615",
        "18446744073709551616",
        "9223372036854775808",
        "-",
        ".",
        "e",
        "\\",
        "\\\\",
        "\\u",
        "\\ud83d",
        "\\uDE00",
        "\\u0041",
        "\"",
        "x",
        "d83d",
        ",",
        "[",
        "12345678901234567",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_message_that_must_be_slow_is_flagged(message in message()) {
        if must_be_slow(&message) {
            prop_assert!(flags(message.as_bytes()) & SLOW != 0, "{message}");
        }
    }
}

#[test]
fn a_run_of_digits_is_found_at_any_place() {
    for before in 0..60 {
        let message = format!(
            "{}18446744073709551616{}",
            "x".repeat(before),
            "y".repeat(before % 7)
        );
        assert_eq!(flags(message.as_bytes()), SLOW, "{message}");
        let fitting = format!("{}18446744073709551615", "x".repeat(before));
        assert_eq!(flags(fitting.as_bytes()), 0, "{fitting}");
    }
}

#[test]
fn ordinary_text_is_not_flagged() {
    let text = r#"{"a":[1,2.5,-3e10,1700000000000],"b":"\u4f60\u597d \ud83d\ude00 \n \\ \"","c":"3.14159265358979323846"}"#;
    assert_eq!(flags(text.as_bytes()), 0);
    assert_eq!(flags(b""), 0);
}

#[test]
fn depth_is_looked_for_only_in_slow_messages() {
    let nested =
        |depth: usize, inner: &str| format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(flags(nested(MAX_DEPTH + 1, "1").as_bytes()), 0);
    assert_eq!(flags(nested(MAX_DEPTH, r#""\ud800""#).as_bytes()), SLOW);
    assert_eq!(
        flags(nested(MAX_DEPTH + 1, r#""\ud800""#).as_bytes()),
        SLOW | DEEP
    );
    let siblings = format!("[{}\"\\ud800\"]", "[],".repeat(5000));
    assert_eq!(flags(siblings.as_bytes()), SLOW);
}
