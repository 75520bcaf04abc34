import { ofSubAgent } from "../../log/sub-agent-events.ts";
import type { EventLog } from "./event-log.ts";

/** Returns the event log of a sub-agent; `place` is its path among the sub-agents of the run. */
export function subAgentLog(eventLog: EventLog, place: string): EventLog {
  return {
    get nextSeq() {
      return eventLog.nextSeq;
    },
    get durableSeq() {
      return eventLog.durableSeq;
    },
    get threadId() {
      return eventLog.threadId;
    },
    get hasBegun() {
      return eventLog.hasBegun;
    },
    leafIdAfter: (count) => eventLog.leafIdAfter(count),
    append: (entries, ops) => eventLog.append(ofSubAgent(entries, place), ops),
    buffer: (entries, ops) => eventLog.buffer(ofSubAgent(entries, place), ops),
    publish: (frames) => eventLog.publish(frames),
    ...ofRun,
  };
}

/** Calls of the run itself. A sub-agent makes none of them. */
const ofRun: Pick<EventLog, "open" | "begin" | "takeInputs" | "writeUsage" | "suspend" | "cutOff" | "end" | "release"> =
  {
    open: refuse,
    begin: refuse,
    takeInputs: refuse,
    writeUsage: refuse,
    suspend: refuse,
    cutOff: refuse,
    end: refuse,
    release: refuse,
  };

function refuse(): never {
  throw new Error("only the agent that the caller asked opens, suspends and ends the log");
}
