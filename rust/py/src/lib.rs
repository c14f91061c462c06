//! The Python binding of `ferrule-wire`: `_core`. Knows how bytes and frames cross to Python and back;
//! every rule of the wire is in `ferrule-wire`, every meaning is in Python.
//!
//! Names no Python module, so that the package works under any name. Raises only built-in
//! exceptions; what the peer did wrong comes as a frame.

#![allow(
    clippy::needless_pass_by_value,
    reason = "PyO3 hands arguments over by value"
)]

mod buffer;
mod decoders;
mod frames;
mod head;
mod json;
mod pages;
mod request;
mod value;

use ferrule_wire::{Code, Fault, http, scan};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A call cannot be encoded: the fault as `ValueError(code, position, size)`.
fn refused(fault: Fault) -> PyErr {
    PyValueError::new_err((fault.code.number(), fault.position, fault.size))
}

/// Bytes to protocol frames and back.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use crate::decoders::{BodyDecoder, LineDecoder, ResponseDecoder};
    #[pymodule_export]
    use crate::head::ResponseHead;
    #[pymodule_export]
    use crate::json::check_json;
    #[pymodule_export]
    use crate::request::{
        RequestTemplate, decode_header_value, encode_header_value, encode_message,
    };
    #[pymodule_export]
    use crate::value::new_value;

    use crate::{Code, frames, http, scan};
    use pyo3::prelude::*;
    use pyo3::types::PyDict;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let codes = PyDict::new(module.py());
        for code in Code::ALL {
            codes.set_item(code.number(), code.name())?;
        }
        module.add("CODES", codes)?;
        module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
        for (name, kind) in frames::KINDS {
            module.add(name, kind)?;
        }
        module.add("FLAG_SLOW", scan::SLOW)?;
        module.add("FLAG_DEEP", scan::DEEP)?;
        module.add("KIND_OTHER", http::Kind::Other as u8)?;
        module.add("KIND_JSON", http::Kind::Json as u8)?;
        module.add("KIND_SSE", http::Kind::Sse as u8)?;
        name_classes(module)
    }

    /// Classes say which module they are of: the one that is being imported, whatever its name.
    fn name_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let name = module.name()?;
        for class in [
            "BodyDecoder",
            "LineDecoder",
            "RequestTemplate",
            "ResponseDecoder",
            "ResponseHead",
        ] {
            module.getattr(class)?.setattr("__module__", &name)?;
        }
        Ok(())
    }
}
