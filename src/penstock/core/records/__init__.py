"""Record batches as bytes: header, checksum, records, compression."""
