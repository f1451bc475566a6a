// Writes to one WebSocket and knows when it has taken what was written.
//
// "Taken" means that the operating system has accepted the bytes: a client that does not read soon fills the buffers
// of the connection, and then nothing more is taken.
import { WebSocket } from 'ws';

export class SocketWriter {
  #waiting = [];

  constructor(socket, bufferBytesMax) {
    this.socket = socket;
    this.bufferBytesMax = bufferBytesMax;
    socket.on('close', () => this.#wake());
  }

  get isOpen() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  get isFull() {
    return this.socket.bufferedAmount >= this.bufferBytesMax;
  }

  /** Resolves with true once the socket has taken it, with false if it never will. */
  write(content) {
    return new Promise((resolve) => {
      if (!this.isOpen) {
        resolve(false);
        return;
      }
      const data = Buffer.isBuffer(content) ? content : JSON.stringify(content);
      this.socket.send(data, { binary: false }, (error) => {
        resolve(!error);
        if (this.socket.bufferedAmount <= this.bufferBytesMax / 2) this.#wake();
      });
    });
  }

  /** Resolves once at least half of the buffer is free, or the socket is closed. */
  async drained() {
    if (!this.isOpen || this.socket.bufferedAmount <= this.bufferBytesMax / 2) return;
    await new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Says why, then closes. */
  fail(error, code = 1011) {
    this.write({ type: 'error', error: { reason: error.reason ?? 'INTERNAL', message: error.message } });
    this.socket.close(code, String(error.reason ?? 'INTERNAL').slice(0, 100));
  }

  #wake() {
    this.#waiting.splice(0).forEach((resolve) => resolve());
  }
}
