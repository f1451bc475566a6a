// Security of the channel to a gRPC service: TLS with PEM files, and a bearer token in the metadata of every call.
import { readFileSync } from 'node:fs';

import * as grpc from '@grpc/grpc-js';

const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost']);

/** Settings GRPC_* as `{tls, caFile, certFile, keyFile, token, tokenFile}`; pushes what is wrong to `faults`. */
export function readGrpcSecurity(value, urls, faults) {
  const files = [value.GRPC_TLS_CA, value.GRPC_TLS_CERT, value.GRPC_TLS_KEY].some(Boolean);
  const security = {
    tls: value.GRPC_TLS || files,
    caFile: value.GRPC_TLS_CA,
    certFile: value.GRPC_TLS_CERT,
    keyFile: value.GRPC_TLS_KEY,
    token: value.GRPC_TOKEN,
    tokenFile: value.GRPC_TOKEN_FILE,
  };
  if (Boolean(security.certFile) !== Boolean(security.keyFile)) {
    faults.push('GRPC_TLS_CERT and GRPC_TLS_KEY belong together: set both, or neither');
  }
  if (security.token && security.tokenFile) {
    faults.push('GRPC_TOKEN and GRPC_TOKEN_FILE exclude each other');
  }
  const away = urls.find((url) => !LOOPBACK.has(hostOf(url)));
  if ((security.token || security.tokenFile) && !security.tls && away) {
    faults.push(`GRPC_TOKEN would be sent to ${away} without TLS: set GRPC_TLS or GRPC_TLS_CA`);
  }
  return security;
}

function hostOf(url) {
  return url.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
}

/** Credentials of a channel. Throws if a file cannot be read. */
export function channelCredentials(security = {}) {
  if (!security.tls) return grpc.credentials.createInsecure();
  const [ca, key, cert] = [security.caFile, security.keyFile, security.certFile].map((path) =>
    path ? readFileSync(path) : null,
  );
  return grpc.credentials.createSsl(ca, key, cert);
}

/** Metadata of a call. The token's file is read again for each, because tokens expire. */
export function callMetadata(security = {}, options = {}) {
  const metadata = new grpc.Metadata(options);
  const token = security.tokenFile ? readFileSync(security.tokenFile, 'utf8').trim() : security.token;
  if (token) metadata.set('authorization', `Bearer ${token}`);
  return metadata;
}
