import type { RunPlace } from "./run.ts";

/**
 * Messages to the scheduler of one host's durable runs, which assigns slots. Its state may be lost, because the store
 * holds everything.
 */
export interface DurableMessages {
  /** A run is ready to start or resume: it was accepted, or its wait was answered. */
  wake: { body: RunPlace };
  /**
   * Requests a slot for a run that is about to be accepted. Returns true if one is free, and the run then starts with
   * its acceptance.
   */
  begin: { body: RunPlace; reply: { readonly go: boolean } };
  /**
   * Asks whether the run may continue with another step. Returns false if others must run first, or the process is
   * about to end.
   */
  step: { body: RunPlace; reply: { readonly go: boolean } };
  /** Returns the run's slot. */
  left: { body: RunPlace };
  /** Reads due runs from the store: those since the last read, or all. */
  look: { body: { readonly all: boolean } };
  /** Stops starting and resuming runs on this host. */
  drain: { body: Record<string, never> };
}
