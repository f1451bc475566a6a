// Token authentication: `Authorization: Bearer <token>`. Without configured tokens every request passes.
import { createHash, timingSafeEqual } from 'node:crypto';

import { ServiceError } from '../../utils/rpcErrors.js';

const digest = (text) => createHash('sha256').update(text).digest();

/** A function that tells whether a token is one of these. Takes the same time for every wrong token. */
export function tokenCheck(tokens) {
  const known = tokens.map(digest);
  return (token) => {
    const given = digest(token ?? '');
    return known.reduce((found, one) => timingSafeEqual(one, given) || found, false);
  };
}

export function bearerToken(request) {
  return /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1];
}

export function authenticate(tokens) {
  if (tokens.length === 0) return (request, response, next) => next();
  const isKnown = tokenCheck(tokens);
  return (request, response, next) => {
    if (isKnown(bearerToken(request))) return next();
    response.set('WWW-Authenticate', 'Bearer');
    return next(
      new ServiceError(401, 'UNAUTHENTICATED', 'Send a valid token: Authorization: Bearer <token>.'),
    );
  };
}
