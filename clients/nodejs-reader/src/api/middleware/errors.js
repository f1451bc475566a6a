// Turns every error into one form of answer: {"error": {"reason", "message", "retriable", "requestId"}}.
import { randomUUID } from 'node:crypto';

import { ServiceError } from '../../utils/rpcErrors.js';

const BODY_ERRORS = {
  'entity.too.large': [413, 'BODY_TOO_LARGE', 'The body is larger than this service accepts.'],
  'entity.parse.failed': [400, 'MALFORMED_JSON', 'The body is not valid JSON.'],
  'encoding.unsupported': [415, 'UNSUPPORTED_MEDIA_TYPE', 'The content encoding is not supported.'],
  'charset.unsupported': [415, 'UNSUPPORTED_MEDIA_TYPE', 'The charset is not supported; use UTF-8.'],
  'request.aborted': [400, 'ABORTED_BODY', 'The connection ended within the body.'],
  'request.size.invalid': [400, 'ABORTED_BODY', 'The body does not have the length that was announced.'],
};
const REQUEST_ID = /^[\w.:-]{1,128}$/;

/** Every request has an id: that of its header X-Request-Id, or a new one. It is in the answer and in log lines. */
export function requestId(request, response, next) {
  const given = request.get('x-request-id') ?? '';
  request.id = REQUEST_ID.test(given) ? given : randomUUID();
  response.set('X-Request-Id', request.id);
  next();
}

export function notFound(request, response, next) {
  next(new ServiceError(404, 'NO_SUCH_ENDPOINT', `${request.method} ${request.path} does not exist.`));
}

export function errorHandler(logger) {
  // Express recognises error handlers by their four parameters.
  // eslint-disable-next-line no-unused-vars
  return (error, request, response, next) => {
    const found = asServiceError(error);
    if (found.httpStatus >= 500) {
      const fields = {
        requestId: request.id,
        method: request.method,
        path: request.path,
        reason: found.reason,
      };
      logger.warn(`request failed: ${found.message}`, { ...fields, cause: found.cause?.stack });
    }
    if (response.headersSent) {
      response.destroy();
      return;
    }
    if (found.retriable)
      response.set('Retry-After', String(Math.max(1, Math.ceil(found.retryAfterMs / 1_000))));
    // A body that was refused unread would be taken for the next request of the connection.
    if (!request.complete) response.set('Connection', 'close');
    response.status(found.httpStatus).json({ error: { ...found.toJSON(), requestId: request.id } });
  };
}

function asServiceError(error) {
  if (error instanceof ServiceError) return error;
  if (BODY_ERRORS[error.type]) return new ServiceError(...BODY_ERRORS[error.type]);
  const status = error.status ?? error.statusCode;
  if (status >= 400 && status < 500)
    return new ServiceError(status, 'BAD_REQUEST', 'The request is malformed.');
  return new ServiceError(500, 'INTERNAL', 'Internal error; see the log of the service.', { cause: error });
}
