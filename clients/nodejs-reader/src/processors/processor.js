// How values of messages are read. A processor has `name` and `decode(bytes)`, which throws ProcessingError.
import { createAvroProcessor } from './implementations/avroProcessor.js';
import { jsonProcessor } from './implementations/jsonProcessor.js';
import { binaryProcessor, stringProcessor } from './implementations/plainProcessors.js';
import { ProcessingError } from './processingError.js';

export const FORMATS = ['json', 'avro', 'string', 'binary'];
const PLAIN = { json: jsonProcessor, string: stringProcessor, binary: binaryProcessor };

/** The processor of a format; `avro` needs a schema. Throws ProcessingError if the schema is invalid. */
export function createProcessor(format, { avroSchema } = {}) {
  if (format === 'avro') return createAvroProcessor(avroSchema);
  if (!PLAIN[format]) throw new ProcessingError(`unknown format ${format}: use ${FORMATS.join(', ')}`);
  return PLAIN[format];
}

/** The value of a message; null if it has none. */
export function decodeValue(processor, message) {
  return message.value === null ? null : processor.decode(message.value);
}
