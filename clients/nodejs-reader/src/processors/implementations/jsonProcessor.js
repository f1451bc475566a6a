// Values in JSON.
import { ProcessingError } from '../processingError.js';

const utf8 = new TextDecoder('utf-8', { fatal: true });

export const jsonProcessor = {
  name: 'json',
  decode(bytes) {
    try {
      return JSON.parse(utf8.decode(bytes));
    } catch (error) {
      throw new ProcessingError(`the value is not JSON: ${error.message}`, { cause: error });
    }
  },
};
