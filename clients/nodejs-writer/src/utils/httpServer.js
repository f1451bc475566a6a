// Listens and writes the ready file. The caller closes the server.
import { rename, rm, writeFile } from 'node:fs/promises';
import http from 'node:http';

export async function listen(app, { host, port, readyFile }) {
  const server = http.createServer(app);
  server.requestTimeout = 60_000;
  server.headersTimeout = 20_000;
  await new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  if (readyFile) {
    const ready = { host, port: server.address().port, pid: process.pid };
    await writeFile(`${readyFile}.new`, JSON.stringify(ready));
    await rename(`${readyFile}.new`, readyFile);
  }
  return server;
}

/** Accepts no more connections; resolves once every request is answered. */
export async function closeServer(server, readyFile) {
  if (readyFile) await rm(readyFile, { force: true });
  await new Promise((resolve) => server.close(resolve));
}
