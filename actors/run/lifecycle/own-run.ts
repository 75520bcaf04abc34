import { splitRunKey } from "../../../bus/address.ts";
import type { SvcError } from "../../../bus/errors.ts";
import type { RunOutput } from "../../../bus/frames/output.ts";
import type { TurnAccepted } from "../../../bus/protocol/run.ts";
import type { AskedKey } from "../../log/messages.ts";
import type { ContextRoom } from "../../runtime/context-memory.ts";
import type { ActorContext } from "../../runtime/define.ts";
import { tellAside } from "../child-runs/parent-report.ts";
import type { HeardRun } from "../context/suspended-runs.ts";
import type { EventLog } from "../event-log/event-log.ts";
import type { PatternDeps } from "../steps/pattern.ts";
import { tellLeft } from "./durable.ts";
import type { Run } from "./run.ts";

/** State of a run actor. It is empty until the turn is accepted, and after the turn has ended. */
export interface RunState extends HeardRun {
  /** The live run; null while it is suspended, or over. */
  run: Run | null;
  /** Pending while the run is being accepted or resumed: `run` may be null although the thread already has the run. Never rejects. */
  taking: Promise<void> | null;
  /** Output to the client that started the run; null after that client has disconnected. */
  output: RunOutput | null;
  /** True while the run is suspended. */
  suspended: boolean;
  log: EventLog | null;
  key: AskedKey | null;
  /** Memory that is reserved for the live run. */
  room: ContextRoom | null;
  /** The answer to the caller; null before the turn is accepted. */
  accepted: TurnAccepted | null;
  /** The refusal of a turn for which models were asked. A repeated start must not pay for them again. */
  refused: SvcError | null;
}

/** Marks the run as being taken until the promise settles, and returns the promise. */
export async function whileTaken<T>(state: RunState, taken: Promise<T>): Promise<T> {
  const over = taken.then(
    () => {},
    () => {},
  );
  state.taking = over;
  try {
    return await taken;
  } finally {
    if (state.taking === over) state.taking = null;
  }
}

/** Makes a run the live run of its actor. After a suspension the actor tries to resume it once: an answer may have arrived in between. */
export function ownRun(state: RunState, run: Run, log: EventLog, context: ActorContext<PatternDeps>): void {
  const { heardRuns } = context.deps;
  heardRuns.delete(state);
  const { room } = state;
  state.run = run;
  state.suspended = false;
  void run.ended.then((exit) => {
    room?.leave();
    state.run = null;
    state.suspended = exit === "suspended";
    const own = { kind: "run", key: context.key } as const;
    if (state.suspended && run.stoppedBy !== null) context.bus.tell(own, "abort", { reason: run.stoppedBy });
    else if (state.suspended) context.bus.tell(own, "resume", { due: false });
    // A child run gets new outputs for its reports when it resumes.
    if (!state.suspended || run.parent !== null) state.output = null;
    if (state.output !== null) heardRuns.add(state);
    if (state.suspended && run.parent !== null) tellAside(run.parent, splitRunKey(context.key).tenantId, context.bus);
    if (run.isDurable) tellLeft(context);
    if (exit === "lost") log.release(state.key);
    // The thread answers later requests for this run from its last run.
    if (exit === "finished" && log.threadId !== "") context.leave();
  });
}
