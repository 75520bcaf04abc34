import type { Bus } from "../bus.ts";
import { errorFrameOf, frame } from "./frames.ts";

// What is told of durable runs: that one was accepted, where it stands, and how it has ended.

/** What a durable run waits for. */
export interface WaitingOn {
  readonly kind: "approval" | "tool" | "ui" | "queue" | "task" | "retry" | "release";
  /** By which it is answered; the run's own for its next try, and where it is held. */
  readonly id: string;
  /** Epoch milliseconds; null for no end. */
  readonly until: number | null;
}

/** The status of a durable run. */
export interface RunStanding {
  readonly run_id: string;
  readonly status: string;
  /** Failures of its present step. */
  readonly attempt: number;
  readonly step: number;
  readonly waiting_on: WaitingOn | null;
  readonly updated_at: number;
}

/** How such a frame begins. Frames hold JSON, so no text in them can look like it. */
const beginning = 'data: {"event":"run_status"';

/** The frame that tells where a run stands. */
export function statusFrame({ run_id, status, ...standing }: RunStanding): string {
  return frame("run_status", { status, fiber_id: run_id, resume_token: run_id, ...standing }, -1);
}

/** Tells those who listen to its thread. */
export function publishStatus(bus: Bus, topic: string, standing: RunStanding): void {
  if (bus.hasSubscribers(topic)) bus.publish(topic, statusFrame(standing));
}

/** Frames without those that tell where runs stand, and what those say, in their order. */
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

/** Ends the stream of a run that has not come to an answer. */
export function runErrorFrame(message: string): string {
  return errorFrameOf(message, "run_error");
}
