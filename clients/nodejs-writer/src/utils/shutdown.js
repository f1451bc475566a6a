// Ends the process on SIGTERM and SIGINT: once cleanly; a second signal ends it at once.
export function onSignals(stop, logger, exit = process.exit) {
  let isStopping = false;
  const handle = async (signal) => {
    if (isStopping) {
      logger.warn('second signal, exiting at once', { signal });
      exit(1);
      return;
    }
    isStopping = true;
    logger.info('stopping', { signal });
    try {
      await stop();
      logger.info('stopped cleanly');
      exit(0);
    } catch (error) {
      logger.error('cannot stop cleanly', { error: error.message });
      exit(1);
    }
  };
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => handle(signal));
}

/** Resolves with true once the promise settles, with false after so many milliseconds. */
export async function settlesWithin(promise, timeoutMs) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, timeoutMs, false);
  });
  try {
    return await Promise.race([promise.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
