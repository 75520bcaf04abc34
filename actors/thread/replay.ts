import { doneMark } from "../../bus/frames/frames.ts";
import type { TurnAccepted } from "../../bus/protocol/run.ts";
import { sessionEventFrame } from "../../storage/frames/session-event.ts";
import { readEvents } from "../../storage/tables/events.ts";
import type { StreamAnswer } from "../log/earlier-answer.ts";
import type { ThreadState } from "./thread-state.ts";

/** Returns the reply to a repeated stream request: the events of the first request, its final frame, and the end mark. */
export async function replayStream(
  state: ThreadState,
  earlier: { readonly run_id: string; readonly answer: string },
): Promise<TurnAccepted> {
  const { from_seq, to_seq, error, accepted } = JSON.parse(earlier.answer) as StreamAnswer;
  if (accepted !== undefined) return { kind: "accepted", run: accepted, replayed: true };
  const { head } = state;
  let frames = "";
  for (let seq = from_seq; head !== null && seq < to_seq; ) {
    const page = await readEvents(state.store, head.thread_key, seq, to_seq);
    for (const event of page) {
      if (event.extra?.metadata?.origin_request === earlier.run_id) frames += sessionEventFrame(head.uid, event);
    }
    const last = page.at(-1);
    if (!last) break;
    seq = last.seq + 1;
  }
  return { kind: "replay", frames: `${frames}${error ?? ""}${doneMark}` };
}
