import { cutText } from "../../bus/cut-text.ts";
import { SvcError } from "../../bus/errors.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { readFeedback } from "../../storage/tables/event-marks.ts";
import { eventSeq, type LogEvent, readEvents, readEventsBefore } from "../../storage/tables/events.ts";
import { threadBySuffix } from "../../storage/tables/threads.ts";

/** Max characters of a rated reply in the criteria of a judge. */
const quotedMax = 4_000;
/** Max pages of events between a reply and the message that it answers. */
const pagesMax = 10;

/**
 * Returns an item from one turn of a thread: the user's message, and as its rubric the given one, or else criteria from the rating
 * of the reply. Refuses with unknown_thread and unknown_event_id.
 */
export async function itemOfThread(
  store: TenantStore,
  suffix: string,
  event_id: string,
  rubric: Readonly<Record<string, unknown>> | undefined,
): Promise<{ user_input: string; rubric: Readonly<Record<string, unknown>> }> {
  const thread = await threadBySuffix(store, suffix);
  if (thread === undefined) throw new SvcError("unknown_thread");
  const seq = eventSeq(thread.uid, event_id);
  const [event] = seq === -1 ? [] : await readEvents(store, thread.thread_key, seq, seq + 1);
  if (event === undefined) throw new SvcError("unknown_event_id");
  const asked = isOfUser(event) ? event : await askedBefore(store, thread.thread_key, event);
  if (asked === undefined) throw new SvcError("unknown_event_id");
  if (rubric !== undefined) return { user_input: asked.content, rubric };
  const [rating] = isOfUser(event) ? [] : await readFeedback(store, thread.thread_key, seq);
  const isRated = rating !== undefined && rating.seq === seq;
  return { user_input: asked.content, rubric: isRated ? rubricOf(event, rating.rating, rating.note) : {} };
}

function isOfUser({ kind, role }: LogEvent): boolean {
  return kind === "message" && role === "user";
}

/** Returns the user's message that the event follows on its branch. */
async function askedBefore(store: TenantStore, threadKey: number, event: LogEvent): Promise<LogEvent | undefined> {
  let wanted = event.parent_seq;
  let before = event.seq;
  for (let pages = 0; pages < pagesMax && wanted >= 0; pages++) {
    const page = await readEventsBefore(store, threadKey, before);
    if (page.length === 0) return undefined;
    const bySeq = new Map(page.map((each) => [each.seq, each]));
    for (let found = bySeq.get(wanted); found !== undefined; found = bySeq.get(wanted)) {
      if (isOfUser(found)) return found;
      wanted = found.parent_seq;
    }
    before = Math.min(...bySeq.keys());
  }
  return undefined;
}

function rubricOf({ content }: LogEvent, rating: string, note: string): Readonly<Record<string, unknown>> {
  const answer = cutText(content, quotedMax);
  const said = note.trim() === "" ? "" : ` The person's note: ${JSON.stringify(note)}.`;
  const judge_criteria =
    rating === "down"
      ? `Clearly better than this earlier answer, which a person rated down: ${JSON.stringify(answer)}.${said}`
      : `At least as good as this earlier answer, which a person rated up: ${JSON.stringify(answer)}.${said}`;
  return { llm_judge: true, judge_criteria };
}
