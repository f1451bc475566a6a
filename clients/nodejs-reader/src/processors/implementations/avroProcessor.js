// Values in Avro's binary encoding, without a container, as the producer service writes them.
import avro from 'avsc';

import { ProcessingError } from '../processingError.js';

export function createAvroProcessor(schema) {
  const type = parse(schema);
  return {
    name: `avro:${type.fingerprint().toString('hex')}`,
    decode(bytes) {
      try {
        return type.fromBuffer(bytes);
      } catch (error) {
        throw new ProcessingError(`the value does not fit the Avro schema: ${error.message}`, {
          cause: error,
        });
      }
    },
  };
}

function parse(schema) {
  if (schema == null) throw new ProcessingError('the format avro needs avroSchema');
  try {
    return avro.Type.forSchema(typeof schema === 'string' ? JSON.parse(schema) : schema);
  } catch (error) {
    throw new ProcessingError(`invalid Avro schema: ${error.message}`, { cause: error });
  }
}
