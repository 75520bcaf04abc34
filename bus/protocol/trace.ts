/** The trace of a sampled request, and the span that caused the work. Work of a request that is not sampled has none. */
export interface TraceContext {
  /** 32 hexadecimal digits. */
  readonly trace_id: string;
  /** 16 hexadecimal digits. */
  readonly span_id: string;
}
