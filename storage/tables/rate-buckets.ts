import { systemSql } from "../store/statements.ts";
import type { Scope, WriteOp } from "../store/store.ts";

// What is left of the rate of each caller, one row for each that has used some of it. A row is changed by whoever has read it, in one
// guarded update: each change gives it a mark that no other change ever has, and the next one names the mark that it goes by. A caller
// without a row has used nothing, so a row whose time is over can be deleted behind everybody's back.

/** A row, with the time by the store's clock at which it was read. */
export interface StoredBucket {
  /** JSON; null when there is no row. */
  readonly state: string | null;
  /** Empty when there is no row. */
  readonly mark: string;
  readonly now: number;
}

/** A change of a row. */
export interface BucketChange {
  readonly bucket: string;
  readonly state: string;
  readonly mark: string;
  /** Epoch milliseconds of the store from which on the row says nothing any more. */
  readonly full_at: number;
}

// The time comes in a row of its own, so that it is there without a bucket too.
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
// Asked again outside, for a row may have been changed since the inner query has seen it.
const deleteFull = systemSql(
  "rate_buckets_delete_full",
  `DELETE FROM rate_buckets WHERE full_at <= :now
   AND bucket IN (SELECT bucket FROM rate_buckets WHERE full_at <= :now ORDER BY full_at LIMIT ?) RETURNING bucket`,
);

/** The row of a bucket, and the store's time. */
export async function readBucket(store: Scope, bucket: string): Promise<StoredBucket> {
  const [row] = await store.read(selectBucket, bucket);
  return {
    state: row?.state as string | null,
    mark: (row?.mark ?? "") as string,
    now: row?.now as number,
  };
}

/**
 * Changes a bucket that has this mark, or has no row. Else the batch refuses with conflict. The batch answers a row with the store's
 * time, `now`.
 */
export function changeBucketOp(store: Scope, { bucket, state, mark, full_at }: BucketChange, from: string): WriteOp {
  return store.op(changeBucket, [bucket, state, mark, full_at, from], 1);
}

/** Deletes at most `limit` rows of which nothing is used any more; answers how many. */
export async function deleteFullBuckets(store: Scope, limit: number): Promise<number> {
  const [rows] = await store.write([store.op(deleteFull, [limit])]);
  return rows?.length ?? 0;
}
