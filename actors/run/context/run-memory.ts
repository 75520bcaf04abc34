import { isDurableSuffix } from "../../../bus/address.ts";
import { entryPointOf } from "../../../bus/frames/entry-points.ts";
import { isAnonymous } from "../../../governance/auth/anonymous.ts";
import { ownerOf } from "../../../governance/auth/memory-owner.ts";
import type { WriteOp } from "../../../storage/store/store.ts";
import { addCaptureOp } from "../../../storage/tables/captures.ts";
import { hostOwner, memoryReader } from "../../tools/memory/memory-reader.ts";
import type { TurnMemory } from "../../tools/turn-memory.ts";
import type { RunContext } from "./run-context.ts";

const none: readonly never[] = [];
/** Returns the access of a turn to the memory of its agent. */
export function turnMemory(runContext: RunContext): TurnMemory {
  const { spec, deps, eventLog, run } = runContext;
  const { thread_key, fromSeq: origin_seq, principal, agent } = spec;
  const thread_id = eventLog.threadId;
  return {
    rules: agent.memory,
    reader: memoryReader(spec, deps.host),
    principal: subjectOf(principal),
    origin: isConversation(runContext) ? { thread_id, thread_key, origin_seq } : null,
    taint: () => run.taint.sources,
    audit: (event, { id }) => runContext.audit(event, "ok", { memory_id: id }),
  };
}

/** The end of a turn. */
interface TurnAnswer {
  readonly entries: readonly unknown[];
  readonly final: string | null;
  readonly ok: boolean;
}

/**
 * Returns the operation of a turn's last batch by which a worker captures its facts (decision 134). A worker reads the turn later, so
 * that capture delays no turn.
 */
export function captureOps(runContext: RunContext, { entries, final, ok }: TurnAnswer): readonly WriteOp[] {
  const { spec, eventLog, store, deps, run } = runContext;
  const { capture, store: kind } = spec.agent.memory;
  if (capture === null || !ok || !entryPointOf(spec.surface).isConversation || !isConversation(runContext)) return none;
  if (spec.parent !== null || isAnonymous(spec.principal)) return none;
  if ((spec.userText?.length ?? 0) + (final?.length ?? 0) < capture.min_chars) return none;
  return [
    addCaptureOp(store, {
      ...{ run_id: spec.run_id, thread_key: spec.thread_key, thread_id: eventLog.threadId },
      ...{ manifest_id: spec.agent.name, principal: subjectOf(spec.principal), owner: ownerOf(spec.principal) },
      ...{ from_seq: spec.fromSeq, until_seq: eventLog.nextSeq + entries.length, request_id: spec.request_id },
      taint: run.taint.sources,
      lost_with: kind === "memory" ? hostOwner(deps.host) : null,
    }),
  ];
}

/** True if the turn belongs to a conversation that its caller can continue. */
function isConversation({ spec, eventLog }: RunContext): boolean {
  const isTurn = ["turn", "continuation"].includes(entryPointOf(spec.surface).work);
  return isTurn && eventLog.threadId !== "" && spec.thread_suffix !== null && !isDurableSuffix(spec.thread_suffix);
}

function subjectOf({ sub, on_behalf_of }: RunContext["spec"]["principal"]): string {
  return (on_behalf_of ?? { sub }).sub;
}
