import type { Principal } from "../bus/protocol/principal.ts";
import { hasScopes } from "../governance/auth/scopes.ts";
import type { TenantStore } from "../storage/store/store.ts";
import type { ThreadRow } from "../storage/tables/threads.ts";
import { openWaitsOfThread, waitsOfThreadMax } from "../storage/tables/waits.ts";

// What runs ask somebody outside. A question is a wait, and its frame is kept with it: what a stream says of it to those who come later,
// and what a snapshot tells, is read from there, for tasks as for the conversation itself.

/** A question, as its wait keeps it. */
export interface Asked {
  readonly name: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Whether somebody may be told of requests for approval. */
export function seesApprovals(principal: Principal): boolean {
  return hasScopes(principal, ["approvals:read"]);
}

/** What is asked on a thread at the moment, the oldest first. */
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

/** Questions as a snapshot tells them, the oldest first: as many as have room. */
export function questionsTold(asked: readonly Asked[]) {
  let room = questionCharactersMax;
  const told = asked.map(({ name, data }) => ({ event: name, data }));
  const cut = told.findIndex((each) => {
    room -= JSON.stringify(each).length;
    return room < 0;
  });
  return cut < 0 ? told : told.slice(0, cut);
}

/** What is in no page of the transcript is made in one piece. */
const questionCharactersMax = 1024 * 1024;
