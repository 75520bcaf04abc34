import { ofMember } from "../../log/member-events.ts";
import type { Journal } from "./journal.ts";

/** The journal of a member at this place. */
export function memberJournal(journal: Journal, place: string): Journal {
  return {
    get nextSeq() {
      return journal.nextSeq;
    },
    get durableSeq() {
      return journal.durableSeq;
    },
    get threadId() {
      return journal.threadId;
    },
    leafIdAfter: (count) => journal.leafIdAfter(count),
    append: (entries, ops) => journal.append(ofMember(entries, place), ops),
    hold: (entries, ops) => journal.hold(ofMember(entries, place), ops),
    park: () => notItsOwn(),
    end: () => notItsOwn(),
    takeInputs: () => notItsOwn(),
    publish: (frames) => journal.publish(frames),
  };
}

function notItsOwn(): never {
  throw new Error("a run is put aside and ended by the agent that was asked");
}
