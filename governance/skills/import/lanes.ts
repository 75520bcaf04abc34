/** Does work for each item, some at once. After a failure no further item begins, and `stop` is called. */
export async function inLanes<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<void>,
  stop: () => void = () => {},
): Promise<void> {
  let next = 0;
  let hasFailed = false;
  const lane = async (): Promise<void> => {
    while (next < items.length && !hasFailed) {
      try {
        await work(items[next++] as T);
      } catch (error) {
        hasFailed = true;
        stop();
        throw error;
      }
    }
  };
  const lanes = Array.from({ length: Math.min(atOnce, items.length) }, lane);
  const failed = (await Promise.allSettled(lanes)).find((one) => one.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}
