import type { Bus } from "../bus.ts";
import { errorFrameOf, frame } from "./frames.ts";

// Frames about durable runs: acceptance, state and end.

/** The reason why a durable run waits. */
export interface WaitingOn {
  readonly kind: "approval" | "tool" | "ui" | "queue" | "task" | "retry" | "release";
  /** The id that an answer names. For a retry, and for a run that an operator must release, it is the run's own id. */
  readonly id: string;
  /** Epoch milliseconds; null without a deadline. */
  readonly until: number | null;
}

/** The status of a durable run. */
export interface RunStanding {
  readonly run_id: string;
  readonly status: string;
  /** Failures of the current step. */
  readonly attempt: number;
  readonly step: number;
  readonly waiting_on: WaitingOn | null;
  readonly updated_at: number;
}

/** Start of such a frame. Frames hold JSON, so no text in them can contain it. */
const beginning = 'data: {"event":"run_status"';

/** Returns the frame with the state of a run. */
export function statusFrame({ run_id, status, ...standing }: RunStanding): string {
  return frame("run_status", { status, fiber_id: run_id, resume_token: run_id, ...standing }, -1);
}

/** Publishes the state of a run to the subscribers of its thread. */
export function publishStatus(bus: Bus, topic: string, standing: RunStanding): void {
  if (bus.hasSubscribers(topic)) bus.publish(topic, statusFrame(standing));
}

/** Splits off the run_status frames: returns the other frames, and the states in order. */
export function standingsApart(frames: string): { readonly text: string; readonly standings: readonly RunStanding[] } {
  const standings: RunStanding[] = [];
  let text = "";
  let from = 0;
  for (let at = frames.indexOf(beginning); at >= 0; at = frames.indexOf(beginning, from)) {
    const end = frames.indexOf("\n\n", at);
    const { data } = JSON.parse(frames.slice(at + "data: ".length, end)) as {
      data: RunStanding & { fiber_id: string };
    };
    standings.push({ ...data, run_id: data.fiber_id });
    text += frames.slice(from, at);
    from = end + 2;
  }
  return { text: text + frames.slice(from), standings };
}

/** Returns the frame that ends the stream of a failed run. */
export function runErrorFrame(message: string): string {
  return errorFrameOf(message, "run_error");
}
