import { systemSql } from "../store/statements.ts";
import type { Scope, WriteOp } from "../store/store.ts";

// The state of each caller's rate limit: one row per caller that has used some of it. A change is one guarded update by
// a process that has read the row. It writes a unique mark and names the mark that it was based on. A caller without a
// row has used nothing, so expired rows can be deleted at any time.

/** A row, and the time of the read on the store's clock. */
export interface StoredBucket {
  /** JSON; null without a row. */
  readonly state: string | null;
  /** Empty without a row. */
  readonly mark: string;
  readonly now: number;
}

/** A change of a row. */
export interface BucketChange {
  readonly bucket: string;
  readonly state: string;
  readonly mark: string;
  /** Time on the store's clock from which the bucket is full and the row can be deleted. */
  readonly full_at: number;
}

// The time is selected from a separate row, so that it is returned even without a bucket.
const selectBucket = systemSql(
  "rate_bucket_get",
  `SELECT :now AS now, bucket.state, bucket.mark
   FROM (SELECT 1 AS one) AS clock LEFT JOIN rate_buckets AS bucket ON bucket.bucket = ?`,
);
const changeBucket = systemSql(
  "rate_bucket_change",
  `INSERT INTO rate_buckets (bucket, state, mark, full_at) VALUES (?, ?, ?, ?)
   ON CONFLICT (bucket) DO UPDATE SET state = excluded.state, mark = excluded.mark, full_at = excluded.full_at
   WHERE rate_buckets.mark = ? RETURNING :now AS now`,
);
// The outer condition repeats the inner one, because a row may change between the two.
const deleteFull = systemSql(
  "rate_buckets_delete_full",
  `DELETE FROM rate_buckets WHERE full_at <= :now
   AND bucket IN (SELECT bucket FROM rate_buckets WHERE full_at <= :now ORDER BY full_at LIMIT ?) RETURNING bucket`,
);

/** Returns the row of a bucket, and the store's time. */
export async function readBucket(store: Scope, bucket: string): Promise<StoredBucket> {
  const [row] = await store.read(selectBucket, bucket);
  return {
    state: row?.state as string | null,
    mark: (row?.mark ?? "") as string,
    now: row?.now as number,
  };
}

/**
 * Changes a bucket that has the mark `from`, or has no row; otherwise the batch refuses with conflict. The batch
 * returns a row with the store's time, `now`.
 */
export function changeBucketOp(store: Scope, { bucket, state, mark, full_at }: BucketChange, from: string): WriteOp {
  return store.op(changeBucket, [bucket, state, mark, full_at, from], 1);
}

/** Deletes up to `limit` rows of full buckets. Returns their number. */
export async function deleteFullBuckets(store: Scope, limit: number): Promise<number> {
  const [rows] = await store.write([store.op(deleteFull, [limit])]);
  return rows?.length ?? 0;
}
