//! The target for what is written: requests, messages, header values.

use crate::targets::{must_be, random_for};
use ferrule_wire::header_value;
use ferrule_wire::http::RequestTemplate;
use ferrule_wire::jsonrpc::Call;

pub fn check(input: &[u8]) -> Result<u64, String> {
    let text = String::from_utf8_lossy(input);
    let mut parts = text.split('\n').chain(std::iter::repeat(""));
    let mut random = random_for(input);
    // LF divides the parts; where it is meant to be in one, it is put back at random.
    let mut part = || {
        let part = parts.next().unwrap_or_default().to_owned();
        if random.below(8) == 0 {
            part + "\n"
        } else {
            part
        }
    };
    let (name, value, method, mirrored) = (part(), part(), part(), part());
    let (params, meta, target) = (part(), part(), part());
    let encoded = header_value::encode(&mirrored);
    must_be(
        encoded.bytes().all(|byte| matches!(byte, b' '..=b'~')) && encoded.trim() == encoded,
        "an encoded value can be sent",
    )?;
    must_be(
        header_value::decode(&encoded).as_deref() == Some(&mirrored),
        "an encoded value comes back",
    )?;
    if let Some(decoded) = header_value::decode(&value) {
        let again = header_value::encode(&decoded);
        must_be(
            decoded == value || again == decoded || again == value,
            "a value has one encoded form",
        )?;
    }
    let target = if target.is_empty() { "/" } else { &target };
    let fields = [(name.as_str(), value.as_str())];
    let Ok(template) = RequestTemplate::new("POST", target, &[("Host", "x")], true) else {
        return Ok(1);
    };
    let call = Call {
        id: Some(1),
        method: &method,
        params: Some(params.as_bytes()).filter(|params| !params.is_empty()),
        meta: Some(meta.as_bytes()).filter(|meta| !meta.is_empty()),
        extra_meta: None,
    };
    let request = match template.call(&call, Some(&mirrored), &fields) {
        Ok(request) => request,
        Err(fault) => return Ok(u64::from(fault.code.number()) + 2),
    };
    let bytes = request.to_vec();
    must_be(
        bytes.len() == request.len(),
        "a request has the size that it says",
    )?;
    request_is_read_as_meant(&bytes, &fields, &call)
}

/// An unrelated parser finds the fields that were given, no more, and a body of the length that is told.
fn request_is_read_as_meant(
    bytes: &[u8],
    fields: &[(&str, &str)],
    call: &Call<'_>,
) -> Result<u64, String> {
    let mut headers = [httparse::EMPTY_HEADER; 8];
    let mut parsed = httparse::Request::new(&mut headers);
    let Ok(httparse::Status::Complete(size)) = parsed.parse(bytes) else {
        return Err("an accepted request is read by an unrelated parser".to_owned());
    };
    let names: Vec<&str> = parsed.headers.iter().map(|header| header.name).collect();
    let expected = [
        "Host",
        "Mcp-Method",
        "Mcp-Name",
        fields[0].0,
        "Content-Length",
    ];
    must_be(names == expected, "no field is added or lost")?;
    let latin_1: String = parsed.headers[3]
        .value
        .iter()
        .copied()
        .map(char::from)
        .collect();
    let blank = [' ', '\t'];
    must_be(
        latin_1.trim_matches(blank) == fields[0].1.trim_matches(blank),
        "a value arrives as it was given",
    )?;
    let length = std::str::from_utf8(parsed.headers[4].value).ok();
    let length = length.and_then(|length| length.parse().ok());
    must_be(
        length == Some(bytes.len() - size),
        "Content-Length is the length of the body",
    )?;
    let body = call.encode(b"").map(|body| body.to_vec());
    must_be(
        body.as_deref() == Ok(&bytes[size..]),
        "the body is the message alone",
    )?;
    Ok(100 + u64::from(call.params.is_some()) + 2 * u64::from(call.meta.is_some()))
}
