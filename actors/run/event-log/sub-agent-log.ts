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
    leafIdAfter: (count) => eventLog.leafIdAfter(count),
    append: (entries, ops) => eventLog.append(ofSubAgent(entries, place), ops),
    hold: (entries, ops) => eventLog.hold(ofSubAgent(entries, place), ops),
    suspend: () => notItsOwn(),
    end: () => notItsOwn(),
    takeInputs: () => notItsOwn(),
    publish: (frames) => eventLog.publish(frames),
  };
}

function notItsOwn(): never {
  throw new Error("only the agent that the caller asked can suspend or end the run");
}
