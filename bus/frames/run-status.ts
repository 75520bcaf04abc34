import type { Bus } from "../bus.ts";
import { errorFrameOf, frame } from "./frames.ts";

// What is told of durable runs: that one was accepted, where it stands, and how it has ended.

/** What a durable run waits for. */
export interface WaitingOn {
  readonly kind: "approval" | "tool" | "ui" | "queue" | "task" | "retry";
  /** By which it is answered; the run's own for its next try. */
  readonly id: string;
  /** Epoch milliseconds; null for no end. */
  readonly until: number | null;
}

/** Where a durable run stands. */
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

/** What frames say of where runs stand, in their order. */
export function standingsIn(frames: string): RunStanding[] {
  if (!frames.includes(beginning)) return [];
  return frames.split("\n\n").flatMap((each) => {
    if (!each.startsWith(beginning)) return [];
    const { data } = JSON.parse(each.slice("data: ".length)) as { data: RunStanding & { fiber_id: string } };
    return [{ ...data, run_id: data.fiber_id }];
  });
}

/** Frames without those that tell where runs stand. */
export function withoutStandings(frames: string): string {
  if (!frames.includes(beginning)) return frames;
  return frames
    .split(/(?<=\n\n)/)
    .filter((each) => !each.startsWith(beginning))
    .join("");
}

/** Ends the stream of a run that has not come to an answer. */
export function runErrorFrame(message: string): string {
  return errorFrameOf(message, "run_error");
}
