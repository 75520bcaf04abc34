/** The servers that a chaos test disturbs. */
export interface Target {
  /** The URL for the next request; one that refuses connections if no server is there. */
  readonly url: string;
  /** Called if a server exits for no reason that the test gave it. */
  onCrash: (words: string) => void;
  /** Resolves when every server is ready. */
  start(): Promise<void>;
  /**
   * Disturbs the servers once. `onStruck` is called when runs are interrupted, and `onReady` when a server that continues them is ready.
   */
  strike(onStruck: () => void, onReady: () => void): Promise<void>;
  /** Ends every disturbance; resolves when every server is ready. */
  settle(): Promise<void>;
  /** Kills every server. */
  end(): Promise<void>;
  /** Number of faults of each kind so far. */
  readonly faults: Readonly<Record<string, number>>;
}

/** A URL that refuses connections. */
export const nowhere = "http://127.0.0.1:9";
