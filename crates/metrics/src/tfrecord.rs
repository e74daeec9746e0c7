//! TFRecord framing, the container format of TensorFlow event files.
//!
//! A file is a sequence of records with little-endian numbers: `u64` length, `u32` checksum of these 8 bytes, data,
//! `u32` checksum of the data. The checksum is CRC-32C (Castagnoli), rotated and offset so that it remains effective
//! for data that contain checksums. Source: TensorFlow, `tensorflow/core/lib/io/record_writer.h`.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

/// Maximum record size; larger records (graphs, images) are skipped. A guess: a record of scalars is below 1 kB.
const MAX_RECORD_BYTES: u64 = 16 << 20;

/// Read buffer in bytes; a guess, small enough for a thousand files and large enough for speed.
const BUFFER_BYTES: usize = 64 << 10;

/// Added to the rotated checksum; from TensorFlow, `tensorflow/core/lib/hash/crc32c.h`.
const MASK_DELTA: u32 = 0xa282_ead8;

const HEADER_BYTES: u64 = 12;
const FOOTER_BYTES: u64 = 4;

/// Reads the records of one file up to its current end.
#[derive(Debug)]
pub(super) struct RecordReader<R> {
    input: BufReader<R>,
    /// Offset of the next record.
    offset: u64,
    /// File size.
    end: u64,
    record: Vec<u8>,
}

/// Result of a read at the current offset.
#[derive(Debug, PartialEq)]
pub(super) enum Record<'a> {
    /// Complete record with correct checksums.
    Data(&'a [u8]),
    /// Record above the size limit.
    Skipped,
    /// End of the file, or an incomplete record, as is normal while the writer runs. The offset is unchanged.
    Incomplete,
    /// Wrong checksum. The offset is unchanged; the next record cannot be located.
    Corrupt(&'static str),
}

impl<R: Read + Seek> RecordReader<R> {
    /// Reads `input` from `offset`, the start of a record, to `end`, its size; both in bytes.
    ///
    /// # Errors
    /// If `input` cannot seek to `offset`.
    pub(super) fn new(mut input: R, offset: u64, end: u64) -> io::Result<Self> {
        input.seek(SeekFrom::Start(offset))?;
        Ok(Self { input: BufReader::with_capacity(BUFFER_BYTES, input), offset, end, record: Vec::new() })
    }

    /// Offset of the next record, from which another reader can resume.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads the next record. Allocates memory only for existing bytes, not for the length a record claims.
    ///
    /// # Errors
    /// Errors of the input; the reader must not be used afterwards.
    pub(super) fn next_record(&mut self) -> io::Result<Record<'_>> {
        let available = self.end.saturating_sub(self.offset);
        if available < HEADER_BYTES {
            return Ok(Record::Incomplete);
        }
        let mut header = [0; HEADER_BYTES as usize];
        if !self.fill(&mut header)? {
            return Ok(Record::Incomplete);
        }
        let (length, checksum) = header.split_at(8);
        if masked_crc32c(length) != little_endian_u32(checksum) {
            return Ok(Record::Corrupt("the checksum of its length is wrong"));
        }
        let data_bytes = u64::from_le_bytes(length.try_into().expect("the header was split after 8 bytes"));
        if data_bytes > available - HEADER_BYTES || available - HEADER_BYTES - data_bytes < FOOTER_BYTES {
            return Ok(Record::Incomplete);
        }
        if data_bytes > MAX_RECORD_BYTES {
            self.offset += HEADER_BYTES + data_bytes + FOOTER_BYTES;
            self.input.seek(SeekFrom::Start(self.offset))?;
            return Ok(Record::Skipped);
        }
        let mut record = std::mem::take(&mut self.record);
        let size = usize::try_from(data_bytes + FOOTER_BYTES).expect("at most MAX_RECORD_BYTES and a checksum");
        record.resize(size, 0);
        let is_whole = self.fill(&mut record)?;
        self.record = record;
        if !is_whole {
            return Ok(Record::Incomplete);
        }
        let (data, checksum) = self.record.split_at(size - FOOTER_BYTES as usize);
        if masked_crc32c(data) != little_endian_u32(checksum) {
            return Ok(Record::Corrupt("the checksum of its data is wrong"));
        }
        self.offset += HEADER_BYTES + data_bytes + FOOTER_BYTES;
        Ok(Record::Data(data))
    }

    /// Fills `bytes`; returns false if the file was truncated.
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<bool> {
        match self.input.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.end = self.offset;
                self.input.consume(self.input.buffer().len());
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Checksum in stored form.
pub(super) fn masked_crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(MASK_DELTA)
}

fn little_endian_u32(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn framed(data: &[u8]) -> Vec<u8> {
        let length = (data.len() as u64).to_le_bytes();
        [&length[..], &masked_crc32c(&length).to_le_bytes(), data, &masked_crc32c(data).to_le_bytes()].concat()
    }

    fn read_all(bytes: &[u8]) -> (Vec<Vec<u8>>, u64, bool) {
        let mut reader = RecordReader::new(Cursor::new(bytes), 0, bytes.len() as u64).unwrap();
        let mut records = Vec::new();
        loop {
            match reader.next_record().unwrap() {
                Record::Data(data) => records.push(data.to_vec()),
                Record::Skipped => {}
                Record::Incomplete => return (records, reader.offset(), false),
                Record::Corrupt(_) => return (records, reader.offset(), true),
            }
        }
    }

    #[test]
    fn crc32c_matches_rfc_3720() {
        // RFC 3720 B.4: 32 bytes of zeroes give 0x8a9136aa.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(masked_crc32c(&[0; 32]), 0x8a91_36aa_u32.rotate_right(15).wrapping_add(0xa282_ead8));
    }

    #[test]
    fn records_before_a_cut_at_any_byte_are_read() {
        let bytes = [framed(b"first"), framed(b""), framed(b"third one")].concat();
        assert_eq!(read_all(&bytes).0, [&b"first"[..], b"", b"third one"]);
        for cut in 0..bytes.len() {
            let (records, offset, corrupt) = read_all(&bytes[..cut]);
            assert!(!corrupt, "cut at {cut}");
            assert_eq!(records.iter().map(|record| record.len() as u64 + 16).sum::<u64>(), offset);
        }
    }

    #[test]
    fn huge_claimed_length_is_incomplete_and_allocates_no_memory() {
        let length = (1_u64 << 60).to_le_bytes();
        for length in [length, u64::MAX.to_le_bytes()] {
            let bytes = [&length[..], &masked_crc32c(&length).to_le_bytes(), b"data"].concat();
            assert_eq!(read_all(&bytes), (vec![], 0, false));
        }
    }

    #[test]
    fn large_record_is_skipped() {
        let large = vec![7; MAX_RECORD_BYTES as usize + 1];
        let bytes = [framed(b"first"), framed(&large), framed(b"last")].concat();
        assert_eq!(read_all(&bytes).0, [&b"first"[..], b"last"]);
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let bytes = [framed(b"first"), framed(b"second")].concat();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let (records, offset, corrupt) = read_all(&damaged);
            assert!(corrupt, "bit {bit}");
            assert_eq!(offset, if records.is_empty() { 0 } else { 21 });
        }
    }

    #[test]
    fn file_that_shrinks_during_reading_is_incomplete() {
        let bytes = framed(b"first");
        let mut reader = RecordReader::new(Cursor::new(&bytes[..14]), 0, bytes.len() as u64).unwrap();
        assert_eq!(reader.next_record().unwrap(), Record::Incomplete);
        assert_eq!(reader.next_record().unwrap(), Record::Incomplete);
        assert_eq!(reader.offset(), 0);
    }
}
