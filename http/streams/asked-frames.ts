import { frame } from "../../bus/frames/frames.ts";
import type { Asked } from "../open-questions.ts";

// Frames that ask a question of a run (approval, client tool, UI) on streams that did not start the turn. A stream also gets the questions
// that were open before it connected. It gets each question once, and approvals only with the scope to read them.

/**
 * Event names of these frames, with the data fields that identify the question. A call id alone is not enough, because models reuse call
 * ids in later turns.
 */
const idOf: Readonly<Record<string, readonly string[]>> = {
  approval_required: ["approval_id", "tool_call_id"],
  tool_request: ["id"],
  ui_request: ["request_id"],
};
/** Matches the first data line of such a frame. Frames hold JSON, so text inside them cannot match. */
const anyAsked = new RegExp(`^data: \\{"event":"(${Object.keys(idOf).join("|")})"`, "m");

/** Filters the questions of one stream. */
export class AskedFrames {
  readonly #withApprovals: boolean;
  /** Keys of questions that the stream got already; null if none, as on most streams. */
  #told: Set<string> | null = null;

  constructor(withApprovals: boolean) {
    this.#withApprovals = withApprovals;
  }

  /** Returns published frames without questions that the stream may not see or already got. */
  heard(text: string): string {
    if (!text.includes("_requ")) return text;
    return text
      .split(/(?<=\n\n)/)
      .filter((each) => {
        const name = anyAsked.exec(each)?.[1];
        if (name === undefined) return true;
        const { data } = JSON.parse(each.slice(each.indexOf("data: ") + 6)) as { data: Asked["data"] };
        return this.#isNew({ name, data });
      })
      .join("");
  }

  /** Returns the frames of open questions. `id` is the thread's next sequence number. */
  open(asked: readonly Asked[], id: number): string {
    return asked
      .filter((each) => this.#isNew(each))
      .map(({ name, data }) => frame(name, data, id))
      .join("");
  }

  #isNew({ name, data }: Asked): boolean {
    if (name === "approval_required" && !this.#withApprovals) return false;
    const key = JSON.stringify([name, ...(idOf[name] ?? []).map((field) => data[field])]);
    this.#told ??= new Set();
    return this.#told.size < this.#told.add(key).size;
  }
}
