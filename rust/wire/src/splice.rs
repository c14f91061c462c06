//! Pieces that become one allocation. Knows nothing of what they say.

/// Bytes put together from pieces: measured first, copied once.
#[derive(Debug, Default)]
pub struct Splice<'a> {
    lead: Vec<u8>,
    pieces: Vec<&'a [u8]>,
}

impl<'a> Splice<'a> {
    /// Starts with bytes made for this occasion.
    pub(crate) const fn new(lead: Vec<u8>) -> Self {
        Splice {
            lead,
            pieces: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, piece: &'a [u8]) {
        self.pieces.push(piece);
    }

    /// The size of the whole.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lead.len() + self.pieces.iter().map(|piece| piece.len()).sum::<usize>()
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the whole into `out`, which has [`len`](Self::len) bytes.
    pub fn copy_into(&self, out: &mut [u8]) {
        let mut out = out;
        for piece in std::iter::once(self.lead.as_slice()).chain(self.pieces.iter().copied()) {
            let size = piece.len().min(out.len());
            let (now, later) = out.split_at_mut(size);
            now.copy_from_slice(piece.get(..size).unwrap_or_default());
            out = later;
        }
    }

    /// The whole as a vector.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![0; self.len()];
        self.copy_into(&mut out);
        out
    }
}
