import { frame } from "../bus/frames/frames.ts";
import type { Asked } from "./open-questions.ts";

// Frames by which a run asks somebody outside, on the streams of those who have not started the turn. They are told of what was
// asked before they came, of each question once, and of approvals only with the scope to read them.

/** The names of these frames, with the fields of their data that say which question it is: turn by turn models use ids of calls again. */
const idOf: Readonly<Record<string, readonly string[]>> = {
  approval_required: ["approval_id", "tool_call_id"],
  tool_request: ["id"],
  ui_request: ["request_id"],
};
/** How such a frame begins, behind its id. Frames hold JSON, so no text in them can look like it. */
const anyAsked = new RegExp(`^data: \\{"event":"(${Object.keys(idOf).join("|")})"`, "m");

/** What one stream is told of questions. */
export class AskedFrames {
  readonly #withApprovals: boolean;
  /** What it was told of already; null for nothing, as on most streams. */
  #told: Set<string> | null = null;

  constructor(withApprovals: boolean) {
    this.#withApprovals = withApprovals;
  }

  /** Frames that were published, without those of questions that the stream must not be told of, or was told of before. */
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

  /** Frames of questions that are open. `id` is the thread's next sequence number. */
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
