import type { Logger } from "pino";
import { nodeAddress } from "../bus/address.ts";
import type { Bus } from "../bus/bus.ts";
import type { NodeId } from "../bus/protocol/node-id.ts";

/** Max time to compile the agents of all open runs, while the thread does other work. */
const lookMsMax = 120_000;

/**
 * Warns of durable runs that cannot resume with the settings of this process, so that an operator can correct them before the
 * runs are dead.
 */
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
