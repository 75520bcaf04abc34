/** Longer than anything that is waited for here; a test that runs into it has failed. */
const waitMsMax = 30_000;

/** Looks again and again until it sees something that is neither undefined nor false, and gives that. */
export async function eventually<T>(what: string, look: () => Promise<T | undefined | false>): Promise<T> {
  const deadline = performance.now() + waitMsMax;
  while (performance.now() < deadline) {
    const seen = await look();
    if (seen !== undefined && seen !== false) return seen;
    // What is looked at may be answered without a turn of the event loop, and what is waited for need one.
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error(`not seen: ${what}`);
}
