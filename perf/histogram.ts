// A histogram of durations with buckets of growing width, like HdrHistogram. Below 256 microseconds each microsecond has a bucket. Above,
// each power of two has 128 buckets, so that the error is below 1/128.
const subBits = 7;
const subCount = 1 << subBits;
const exactBelow = 2 * subCount;
const microsMax = 2 ** 31 - 1;
const bucketCount = (31 - subBits) * subCount + subCount;

/** A histogram as plain data: the buckets that are not empty, as `[bucket, count, bucket, count, …]`. */
export interface HistogramData {
  readonly count: number;
  readonly minMicros: number;
  readonly maxMicros: number;
  readonly buckets: readonly number[];
}

/** Durations of up to 35 minutes, at under 1% error, in 13 KB. */
export class Histogram {
  readonly #counts = new Float64Array(bucketCount);
  #count = 0;
  #min = microsMax;
  #max = 0;

  static from(data: HistogramData): Histogram {
    const histogram = new Histogram();
    histogram.add(data);
    return histogram;
  }

  get count(): number {
    return this.#count;
  }

  recordMs(milliseconds: number): void {
    const micros = Math.min(Math.max(Math.round(milliseconds * 1000), 0), microsMax);
    this.#bump(bucketOf(micros), 1);
    this.#min = Math.min(this.#min, micros);
    this.#max = Math.max(this.#max, micros);
  }

  /** The q-quantile in milliseconds; NaN without values. Minimum and maximum are exact. */
  quantileMs(q: number): number {
    if (this.#count === 0) return Number.NaN;
    const rank = Math.max(1, Math.ceil(q * this.#count));
    if (rank === 1) return this.#min / 1000;
    if (rank === this.#count) return this.#max / 1000;
    let seen = 0;
    for (let bucket = 0; bucket < bucketCount; bucket += 1) {
      seen += this.#counts[bucket] ?? 0;
      if (seen >= rank) return middleOf(bucket) / 1000;
    }
    return this.#max / 1000;
  }

  add(data: HistogramData): void {
    for (let at = 0; at < data.buckets.length; at += 2) this.#bump(data.buckets[at] ?? 0, data.buckets[at + 1] ?? 0);
    if (data.count > 0) {
      this.#min = Math.min(this.#min, data.minMicros);
      this.#max = Math.max(this.#max, data.maxMicros);
    }
  }

  toData(): HistogramData {
    const buckets: number[] = [];
    for (const [bucket, count] of this.#counts.entries()) if (count > 0) buckets.push(bucket, count);
    return { count: this.#count, minMicros: this.#min, maxMicros: this.#max, buckets };
  }

  #bump(bucket: number, by: number): void {
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + by;
    this.#count += by;
  }
}

function bucketOf(micros: number): number {
  if (micros < exactBelow) return micros;
  const shift = 31 - Math.clz32(micros) - subBits;
  return shift * subCount + (micros >>> shift);
}

function middleOf(bucket: number): number {
  if (bucket < exactBelow) return bucket;
  const shift = Math.floor(bucket / subCount) - 1;
  const low = (bucket - shift * subCount) * 2 ** shift;
  return low + (2 ** shift - 1) / 2;
}
