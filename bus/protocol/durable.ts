import type { RunPlace } from "./run.ts";

/** The durable runs of one host: which of them have a slot. What it knows may be forgotten, as all of it is in the store. */
export interface DurableMessages {
  /** A run may be taken up: it was accepted, or what it waits for has come. */
  wake: { body: RunPlace };
  /** The run is about to be accepted: true gives it a slot that nobody waits for, so that it begins with its acceptance. */
  begin: { body: RunPlace; reply: { readonly go: boolean } };
  /** The run has begun a step and may begin another: false when others are to go first, or the process is about to end. */
  step: { body: RunPlace; reply: { readonly go: boolean } };
  /** The run does not need its slot any more. */
  left: { body: RunPlace };
  /** Looks in the store for runs that are due: for those since it last did, or for all of them. */
  look: { body: { readonly all: boolean } };
  /** Nothing more is taken up here. */
  drain: { body: Record<string, never> };
}
