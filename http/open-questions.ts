import type { Principal } from "../bus/protocol/principal.ts";
import { hasScopes } from "../governance/auth/scopes.ts";
import type { TenantStore } from "../storage/store/store.ts";
import type { ThreadRow } from "../storage/tables/threads.ts";
import { openWaitsOfThread, waitsOfThreadMax } from "../storage/tables/waits.ts";

// Open questions of runs to people and clients. A question is a wait row that also stores its frame. Streams and snapshots read it from
// there, for tasks as for the conversation itself.

/** The stored frame of a question. */
export interface Asked {
  readonly name: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** True if the principal may see requests for approval. */
export function seesApprovals(principal: Principal): boolean {
  return hasScopes(principal, ["approvals:read"]);
}

/** Returns the open questions of a thread, oldest first. */
export async function openQuestions(
  store: TenantStore,
  thread: Pick<ThreadRow, "thread_key"> | null,
  withApprovals: boolean,
): Promise<Asked[]> {
  if (thread === null) return [];
  const waits = await openWaitsOfThread(store, thread.thread_key, waitsOfThreadMax);
  const asked = waits.flatMap(({ frame }) => frame ?? []);
  return withApprovals ? asked : asked.filter(({ name }) => name !== "approval_required");
}

/** Returns the questions for a snapshot, oldest first, as many as fit. */
export function questionsTold(asked: readonly Asked[]) {
  let room = questionCharactersMax;
  const told = asked.map(({ name, data }) => ({ event: name, data }));
  const cut = told.findIndex((each) => {
    room -= JSON.stringify(each).length;
    return room < 0;
  });
  return cut < 0 ? told : told.slice(0, cut);
}

/** Max characters of questions: the snapshot encodes them in one piece, unlike the transcript. */
const questionCharactersMax = 1024 * 1024;
