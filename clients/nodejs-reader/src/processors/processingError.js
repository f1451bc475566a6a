// A message that no retry can cure: its bytes do not fit the format.
export class ProcessingError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = 'ProcessingError';
    this.isPermanent = true;
  }
}
