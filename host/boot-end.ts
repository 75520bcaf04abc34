/** The server was asked to stop before it was ready. */
export class EndedInBoot extends Error {
  override readonly name = "EndedInBoot";
}

/** Returns the result of `work`. Rejects with `EndedInBoot`, without waiting for `work`, if the server is asked to stop. */
export async function unlessEnded<T>(stop: AbortSignal, work: () => Promise<T> | T): Promise<T> {
  const ended = Promise.withResolvers<never>();
  const end = (): void => ended.reject(new EndedInBoot());
  if (stop.aborted) throw new EndedInBoot();
  stop.addEventListener("abort", end, { once: true });
  try {
    return await Promise.race([work(), ended.promise]);
  } finally {
    stop.removeEventListener("abort", end);
  }
}
