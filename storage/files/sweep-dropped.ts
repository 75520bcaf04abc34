// Deletes dropped objects with their rows, for every kind of object that has rows.

/** Rows that a sweep reads per page. */
const pageRows = 500;

/** A kind of dropped objects. A row is also the position after it. */
export interface Dropped<R> {
  /** Returns the next rows, in a fixed order. */
  page(after: R | null, limit: number): Promise<R[]>;
  /** Deletes the object and its row. */
  erase(row: R): Promise<void>;
}

/**
 * Deletes all dropped objects of a kind. Returns their number. A failure on one does not stop the others; the first failure is
 * thrown at the end.
 */
export async function sweepDropped<R>({ page, erase }: Dropped<R>): Promise<number> {
  let failure: unknown = null;
  let count = 0;
  for (let after: R | null = null; ; ) {
    const rows: R[] = await page(after, pageRows);
    for (const row of rows)
      await erase(row).catch((error: unknown) => {
        failure ??= error;
      });
    count += rows.length;
    after = rows.at(-1) ?? null;
    if (rows.length < pageRows) break;
  }
  if (failure !== null) throw failure;
  return count;
}
