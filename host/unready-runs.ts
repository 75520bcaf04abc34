import type { Logger } from "pino";
import { nodeAddress } from "../bus/address.ts";
import type { Bus } from "../bus/bus.ts";
import type { NodeId } from "../bus/protocol/node-id.ts";

/** As long as many texts take to be compiled, beside the work of the thread. */
const lookMsMax = 120_000;

/** Warns of the durable runs that could not go on with the settings of this process, so that a slip is mended before they are given up. */
export async function warnOfUnreadyRuns(bus: Bus, node: NodeId, log: Pick<Logger, "warn">): Promise<void> {
  try {
    const { reasons } = await bus.ask(nodeAddress(node), "unreadyRuns", {}, { deadlineMs: lookMsMax });
    const runs = reasons.reduce((sum, reason) => sum + reason.runs, 0);
    if (runs === 0) return;
    log.warn(
      { runs, reasons },
      `${runs} durable ${runs === 1 ? "run" : "runs"} cannot be resumed with these settings: each is retried until it failed \
SVC_FIBER_MAX_ATTEMPTS times, and is then dead; correct the settings and restart`,
    );
  } catch (error) {
    log.warn({ err: error }, "the check of open durable runs against these settings failed");
  }
}
