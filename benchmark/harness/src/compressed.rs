//! Decompression of Zstandard files, RFC 8878.

use std::io::{Error, ErrorKind, Read};

use ruzstd::decoding::StreamingDecoder;

/// Decompresses a whole Zstandard file, which may have several frames.
///
/// # Errors
/// Damaged or incomplete data, another format, or a wrong frame checksum.
pub(crate) fn decompress(mut data: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    while !data.is_empty() {
        let mut frame = StreamingDecoder::new(&mut data).map_err(Error::other)?;
        frame.read_to_end(&mut content)?;
        let decoder = frame.into_frame_decoder();
        let stored = decoder.get_checksum_from_data();
        if stored.is_some() && stored != decoder.get_calculated_checksum() {
            return Err(Error::new(ErrorKind::InvalidData, "the checksum of a frame differs from its content"));
        }
    }
    Ok(content)
}
