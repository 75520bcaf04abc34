import type { WaitingOn } from "../../bus/frames/run-status.ts";
import type { WaitRow } from "../tables/waits.ts";

/** Returns the public description of what a durable run waits for. */
export function waitingOn({
  kind,
  wait_id,
  approval_id,
  asked_as,
  deadline,
}: Pick<WaitRow, "kind" | "wait_id" | "approval_id" | "asked_as" | "deadline">): WaitingOn {
  if (kind === "approval") return { kind, id: approval_id ?? wait_id, until: deadline };
  if (kind === "task" || kind === "task_result") return { kind: "task", id: asked_as ?? wait_id, until: deadline };
  if (kind === "queue") return { kind, id: asked_as ?? wait_id, until: deadline };
  return { kind: kind === "client_tool" ? "tool" : "ui", id: asked_as ?? wait_id, until: deadline };
}
