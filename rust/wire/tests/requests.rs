//! Requests, messages and header values as they are written.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use ferrule_wire::http::RequestTemplate;
use ferrule_wire::jsonrpc::{Call, response_id};
use ferrule_wire::{Code, Fault, header_value};
use proptest::prelude::*;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn call<'a>(params: Option<&'a str>, meta: Option<&'a str>, extra: Option<&'a str>) -> Call<'a> {
    Call {
        id: Some(7),
        method: "tools/call",
        params: params.map(str::as_bytes),
        meta: meta.map(str::as_bytes),
        extra_meta: extra.map(str::as_bytes),
    }
}

#[test]
fn members_are_spliced_with_commas_only_between_them() {
    let lead = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call""#;
    let table = [
        (None, None, None, ""),
        (Some("{}"), None, None, r#","params":{}"#),
        (Some(" { } "), Some("{}"), None, r#","params":{"_meta":{}}"#),
        (
            None,
            Some(r#"{"a":1}"#),
            None,
            r#","params":{"_meta":{"a":1}}"#,
        ),
        (
            None,
            None,
            Some(r#"{"b":2}"#),
            r#","params":{"_meta":{"b":2}}"#,
        ),
        (
            Some(r#"{"n":"x"}"#),
            Some(r#"{"a":1}"#),
            Some(r#"{"b":2}"#),
            r#","params":{"n":"x","_meta":{"a":1,"b":2}}"#,
        ),
        (
            Some(r#"{"n":"x"}"#),
            Some("{}"),
            Some(r#"{"b":2}"#),
            r#","params":{"n":"x","_meta":{"b":2}}"#,
        ),
        (
            Some("{}"),
            Some(r#"{"a":1}"#),
            Some("{}"),
            r#","params":{"_meta":{"a":1}}"#,
        ),
    ];
    for (params, meta, extra, expected) in table {
        let message = call(params, meta, extra).encode(b"\n").unwrap().to_vec();
        assert_eq!(text(&message), format!("{lead}{expected}}}\n"));
    }
}

#[test]
fn a_notification_has_no_id() {
    let call = Call {
        method: "notifications/initialized",
        ..Call::default()
    };
    let message = call.encode(b"").unwrap().to_vec();
    assert_eq!(
        text(&message),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#
    );
}

#[test]
fn a_method_is_escaped() {
    let call = Call {
        method: "a\"b\\c\n\u{1}é",
        ..Call::default()
    };
    let message = call.encode(b"").unwrap().to_vec();
    assert_eq!(
        text(&message),
        r#"{"jsonrpc":"2.0","method":"a\"b\\c\u000a\u0001é"}"#
    );
}

#[test]
fn what_is_no_object_is_refused() {
    for (index, bad) in [(0, "[]"), (1, "null"), (2, "{"), (0, "}"), (1, "")] {
        let part = |wanted| (index == wanted).then_some(bad);
        let refused = call(part(0), part(1), part(2)).encode(b"").unwrap_err();
        assert_eq!(
            refused,
            Fault::new(Code::NotAnObject, index, bad.len() as u64)
        );
    }
}

#[test]
fn a_request_is_head_mirrored_fields_own_fields_length_and_body() {
    let fields = [("Host", "example.com"), ("Accept", "application/json")];
    let template = RequestTemplate::new("POST", "/mcp?a=b", &fields, true).unwrap();
    let call = call(Some(r#"{"name":"é"}"#), None, None);
    let own = [("Mcp-Param-Region", "us-west1"), ("X-Empty", "")];
    let request = template.call(&call, Some("é"), &own).unwrap();
    let expected = "POST /mcp?a=b HTTP/1.1\r\nHost: example.com\r\nAccept: application/json\r\n\
        Mcp-Method: tools/call\r\nMcp-Name: =?base64?w6k=?=\r\n\
        Mcp-Param-Region: us-west1\r\nX-Empty: \r\nContent-Length: 69\r\n\r\n\
        {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"é\"}}";
    assert_eq!(text(&request.to_vec()), expected);
    assert_eq!(request.len(), request.to_vec().len());
}

#[test]
fn only_the_mirror_repeats_method_and_name() {
    let template = RequestTemplate::new("POST", "/", &[], false).unwrap();
    let request = template
        .call(&call(None, None, None), Some("x"), &[])
        .unwrap();
    assert!(!text(&request.to_vec()).contains("Mcp-"));
    let template = RequestTemplate::new("POST", "/", &[], true).unwrap();
    let request = template.call(&call(None, None, None), None, &[]).unwrap();
    assert!(text(&request.to_vec()).contains("\r\nMcp-Method: tools/call\r\n"));
    assert!(!text(&request.to_vec()).contains("Mcp-Name"));
}

#[test]
fn a_bare_request_has_no_length() {
    let template = RequestTemplate::new("GET", "/mcp", &[("Host", "x")], false).unwrap();
    let request = template.bare(&[("Last-Event-ID", "1")]).unwrap();
    assert_eq!(
        text(&request.to_vec()),
        "GET /mcp HTTP/1.1\r\nHost: x\r\nLast-Event-ID: 1\r\n\r\n"
    );
}

#[test]
fn a_value_goes_out_as_latin_1() {
    let template = RequestTemplate::new("GET", "/", &[("X", "\u{e9}\t~")], false).unwrap();
    let bytes = template.bare(&[]).unwrap().to_vec();
    assert_eq!(bytes, b"GET / HTTP/1.1\r\nX: \xe9\t~\r\n\r\n");
}

#[test]
fn nothing_can_be_injected() {
    let template = RequestTemplate::new("GET", "/", &[], false).unwrap();
    let names = ["", "a b", "a:", "a\r", "a\n", "a\0", "é", "a(b)", "\u{7f}"];
    let values = [
        "a\r\nb", "a\r", "\n", "\0", "\u{1}", "\u{7f}", "\u{80}", "\u{9f}", "\u{100}", "世",
    ];
    for name in names {
        let refused = template.bare(&[("A", "b"), (name, "x")]).unwrap_err();
        assert_eq!(
            (refused.code, refused.position),
            (Code::HeaderName, 1),
            "{name:?}"
        );
    }
    for value in values {
        let refused = template.message(b"{}", &[("A", value)]).unwrap_err();
        assert_eq!(
            (refused.code, refused.position),
            (Code::HeaderValue, 0),
            "{value:?}"
        );
    }
    for name in [
        "Content-Length",
        "content-length",
        "Transfer-Encoding",
        "TRANSFER-ENCODING",
    ] {
        let refused = template.message(b"{}", &[(name, "0")]).unwrap_err();
        assert_eq!(refused.code, Code::FramingHeader, "{name:?}");
    }
    for (method, target, position) in [
        ("", "/", 0),
        ("GE T", "/", 0),
        ("GET\r\n", "/", 0),
        ("GET", "", 1),
        ("GET", "/ x", 1),
        ("GET", "/\r\n", 1),
        ("GET", "/é", 1),
        ("GET", "/\0", 1),
    ] {
        let refused = RequestTemplate::new(method, target, &[], false).unwrap_err();
        assert_eq!(
            (refused.code, refused.position),
            (Code::RequestLine, position)
        );
    }
}

/// The examples of 2026-07-28, Streamable HTTP, Value Encoding, and the edges around them.
const VALUES: [(&str, &str); 12] = [
    ("us-west1", "us-west1"),
    ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
    (" padded ", "=?base64?IHBhZGRlZCA=?="),
    ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
    ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ("", ""),
    ("a b", "a b"),
    ("\t", "=?base64?CQ==?="),
    ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
    ("=?base64?open", "=?base64?open"),
    ("=?BASE64?eA==?=", "=?BASE64?eA==?="),
    (
        "file:///projects/myapp/config.json",
        "file:///projects/myapp/config.json",
    ),
];

#[test]
fn values_are_encoded_where_http_cannot_carry_them() {
    for (value, encoded) in VALUES {
        assert_eq!(header_value::encode(value), encoded);
        assert_eq!(header_value::decode(encoded).unwrap(), value);
    }
}

#[test]
fn only_canonical_base64_of_utf_8_is_decoded() {
    for bad in [
        "eA=", "eA", "eA===", "e", "eB==", "e A=", "eA==\n", "====", "_w==", "/w==", "eA==eA==",
    ] {
        assert_eq!(
            header_value::decode(&format!("=?base64?{bad}?=")),
            None,
            "{bad}"
        );
    }
    assert_eq!(header_value::decode("=?base64??=").unwrap(), "");
    assert_eq!(header_value::decode("=?base64?=").unwrap(), "=?base64?=");
}

#[test]
fn ids_are_found_in_the_beginning_of_a_response() {
    let table = [
        (r#"{"jsonrpc":"2.0","id":1,"result":"#, Some(1)),
        (r#" {"id" : -5 , "result":{"#, Some(-5)),
        (r#"{"result":{"id":3},"id":4}"#, Some(4)),
        (r#"{"id":"12","x"#, Some(12)),
        (r#"{"id":1,"method":"x""#, Some(1)),
        (r#"{"id":1,"method":"x","#, None),
        (r#"{"method":"x","id":1,"#, None),
        (r#"{"id":1.5,"#, None),
        (r#"{"id":null,"#, None),
        (r#"{"id":12"#, None),
        (r#"{"id":99999999999999999999,"#, None),
        (r#"[{"id":1},"#, None),
        (r#"{"a":"\\","id":2,"#, Some(2)),
        (r#"{"a":"\"","id":2,"#, Some(2)),
        (r#"{"a":[[],{"b":"]"}],"id":2}"#, Some(2)),
        (r#"{]"id":2,"#, None),
        ("", None),
        ("{", None),
        ("nonsense", None),
    ];
    for (beginning, id) in table {
        assert_eq!(response_id(beginning.as_bytes()), id, "{beginning}");
    }
}

proptest! {
    #[test]
    fn every_value_comes_back(value in any::<String>()) {
        let encoded = header_value::encode(&value);
        prop_assert!(encoded.bytes().all(|byte| matches!(byte, b' '..=b'~')));
        prop_assert_eq!(encoded.trim_matches(' '), &*encoded);
        let decoded = header_value::decode(&encoded).unwrap();
        prop_assert_eq!(&*decoded, &*value);
    }

    #[test]
    fn bytes_that_are_no_object_never_panic(beginning in prop::collection::vec(prop::sample::select(br#"{}[]",:\id12 -"#.to_vec()), 0..40)) {
        let _ = response_id(&beginning);
    }
}
