/** The server was asked to end before it took requests. */
export class EndedInBoot extends Error {
  override readonly name = "EndedInBoot";
}

/** What `work` comes to, unless the server is asked to end before: then it is waited for no more, and this rejects with `EndedInBoot`. */
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
