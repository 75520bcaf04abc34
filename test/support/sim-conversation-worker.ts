import { parentPort } from "node:worker_threads";
import { processSettings } from "./actor-process.ts";
import { conversationManifests, SimConversation } from "./sim-conversation.ts";
import { SimDisk } from "./sim-disk.ts";
import { Sim } from "./sim-env.ts";
import { cleanup } from "./temp.ts";

// A thread that runs simulated threads of conversation in sequence.

/** The seeds. */
export interface ConversationsAsked {
  readonly from: number;
  readonly to: number;
}

/** The failure of the first violation, and the kinds of events of the others. */
export interface ConversationsSeen {
  readonly failure: string | null;
  readonly seen: readonly string[];
}

/** The events in each simulated thread. */
const actions = 12;

parentPort?.on("message", async (asked: ConversationsAsked) => parentPort?.postMessage(await holdAll(asked)));

async function holdAll({ from, to }: ConversationsAsked): Promise<ConversationsSeen> {
  const undo: (() => Promise<void>)[] = [];
  const atEnd = cleanup({ after: (work) => void undo.push(work) });
  const settings = processSettings(atEnd, conversationManifests, { SVC_AUDIT_FLUSH_SECONDS: "3600" });
  const seen = new Set<string>();
  try {
    const disk = await SimDisk.open(atEnd);
    for (let seed = from; seed <= to; seed++) {
      const conversation = new SimConversation(new Sim(seed), disk, settings, `sim-${seed}`);
      try {
        await conversation.live(actions);
      } catch (error) {
        const failure = `seed ${seed}: ${(error as Error).stack}\n${await conversation.outline()}`;
        return { failure, seen: [...seen] };
      }
      for (const what of conversation.seen) seen.add(what);
    }
    return { failure: null, seen: [...seen] };
  } finally {
    for (const work of undo) await work();
  }
}
