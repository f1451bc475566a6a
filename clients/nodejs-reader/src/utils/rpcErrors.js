// Translates errors of the gRPC services to errors of this service: one table, with the hint when to try again.
import { status as Code } from '@grpc/grpc-js';
import protobuf from 'protobufjs';

const { root } = protobuf.parse(`
  syntax = "proto3";
  package google.rpc;
  message Any { string type_url = 1; bytes value = 2; }
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message ErrorInfo { string reason = 1; string domain = 2; map<string, string> metadata = 3; }
  message Duration { int64 seconds = 1; int32 nanos = 2; }
  message RetryInfo { Duration retry_delay = 1; }
`);
const Status = root.lookupType('google.rpc.Status');
const DETAILS = {
  'google.rpc.ErrorInfo': root.lookupType('google.rpc.ErrorInfo'),
  'google.rpc.RetryInfo': root.lookupType('google.rpc.RetryInfo'),
};

const HTTP_STATUS = {
  [Code.CANCELLED]: 503,
  [Code.INVALID_ARGUMENT]: 400,
  [Code.DEADLINE_EXCEEDED]: 504,
  [Code.NOT_FOUND]: 404,
  [Code.ALREADY_EXISTS]: 409,
  [Code.PERMISSION_DENIED]: 403,
  [Code.RESOURCE_EXHAUSTED]: 429,
  [Code.FAILED_PRECONDITION]: 409,
  [Code.ABORTED]: 503,
  [Code.OUT_OF_RANGE]: 416,
  [Code.UNIMPLEMENTED]: 501,
  [Code.UNAVAILABLE]: 503,
  [Code.UNAUTHENTICATED]: 502,
};
const HTTP_STATUS_BY_REASON = { RECORD_TOO_LARGE: 413 };
const RETRIABLE_CODES = new Set([Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.ABORTED, Code.CANCELLED]);
const RETRY_AFTER_MS = 1_000;

/** An error with an HTTP status and a stable reason. Everything that a client of this service sees is one. */
export class ServiceError extends Error {
  constructor(
    httpStatus,
    reason,
    message,
    { retriable = false, retryAfterMs = 0, rpcCode, details, cause } = {},
  ) {
    super(message, { cause });
    this.name = 'ServiceError';
    this.httpStatus = httpStatus;
    this.reason = reason;
    this.retriable = retriable;
    this.retryAfterMs = retryAfterMs;
    this.rpcCode = rpcCode;
    this.details = details;
  }

  toJSON() {
    const { reason, message, retriable, details } = this;
    return { reason, message, retriable, ...(details ? { details } : {}) };
  }
}

/** An error of a gRPC call, with the reason and the retry hint of its details. */
export function fromRpcError(error) {
  if (error instanceof ServiceError) return error;
  if (typeof error?.code !== 'number')
    return new ServiceError(500, 'INTERNAL', 'Internal error.', { cause: error });
  const found = readDetails(error.metadata);
  const retriable = found.retriable ?? RETRIABLE_CODES.has(error.code);
  return build(error.code, found.reason || Code[error.code], error.details || error.message, {
    retriable,
    retryAfterMs: found.retryAfterMs ?? (retriable ? RETRY_AFTER_MS : 0),
    cause: error,
  });
}

/** A `Failure` inside a response of a service. */
export function fromFailure({ code, reason, message, retriable, retryAfterMs }) {
  return build(code, reason, message, { retriable, retryAfterMs });
}

function build(code, reason, message, options) {
  const httpStatus = HTTP_STATUS_BY_REASON[reason] ?? HTTP_STATUS[code] ?? 500;
  return new ServiceError(httpStatus, reason, message, { ...options, rpcCode: code });
}

function readDetails(metadata) {
  const found = {};
  const [bytes] = metadata?.get('grpc-status-details-bin') ?? [];
  if (!Buffer.isBuffer(bytes)) return found;
  for (const { typeUrl = '', value } of decode(Status, bytes)?.details ?? []) {
    const name = typeUrl.slice(typeUrl.lastIndexOf('/') + 1);
    const detail = DETAILS[name] && decode(DETAILS[name], value);
    if (detail?.reason) {
      found.reason = detail.reason;
      if (detail.metadata?.retriable) found.retriable = detail.metadata.retriable === 'true';
    }
    const delay = detail?.retryDelay;
    if (delay) found.retryAfterMs = (delay.seconds ?? 0) * 1_000 + Math.ceil((delay.nanos ?? 0) / 1e6);
  }
  return found;
}

function decode(type, bytes) {
  try {
    return type.toObject(type.decode(bytes), { longs: Number, arrays: true });
  } catch {
    return null; // details of a newer protocol: the code of the call is enough
  }
}
