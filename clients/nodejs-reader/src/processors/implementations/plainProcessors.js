// Values as text, and as bytes in base64.
import { ProcessingError } from '../processingError.js';

const utf8 = new TextDecoder('utf-8', { fatal: true });

export const stringProcessor = {
  name: 'string',
  decode(bytes) {
    try {
      return utf8.decode(bytes);
    } catch (error) {
      throw new ProcessingError('the value is not UTF-8', { cause: error });
    }
  },
};

export const binaryProcessor = { name: 'binary', decode: (bytes) => bytes.toString('base64') };
