import { doneMark, frame } from "../../../bus/frames/frames.ts";

// The frames that a shopper sees of a turn: the text, and the results of tools that are public. Reasoning, usage, arguments and names of
// models stay inside (decision 291).

/** Tools whose results a shopper's page may use. */
const publicTools =
  /^(?:catalog_search|catalog_get|catalog_categories|cart_view|cart_add|cart_update|cart_remove|order_status|recommend_products|search_by_image|commerce_checkout)$/;

interface Frame {
  readonly event: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Takes the text of a turn's stream and returns what a shopper may see of it. */
export class ShopFrames {
  #rest = "";
  /** The last frame of the turn; null before it. */
  #done: Frame["data"] | null = null;
  /** A refusal after the stream had begun. */
  #failed = false;

  /** Returns the frames for the shopper. The end of the turn is kept for `end`. */
  push(text: string): string {
    const blocks = (this.#rest + text).split("\n\n");
    this.#rest = blocks.pop() as string;
    return blocks.map((block) => this.#shown(block)).join("");
  }

  /** Returns the last frames, after those with the cart and the approvals. */
  end(): string {
    const { final = null, stop_reason = "unknown" } = this.#done ?? {};
    return (this.#failed ? "" : frame("done", { final, stop_reason }, -1)) + doneMark;
  }

  #shown(block: string): string {
    const line = block.split("\n").find((each) => each.startsWith("data: "));
    if (line === undefined || line === doneMark.trim()) return "";
    const { event, data, error } = JSON.parse(line.slice("data: ".length)) as Frame & { readonly error?: object };
    if (error !== undefined) {
      this.#failed = true;
      return `data: ${JSON.stringify({ error: { type: "stream_error", message: "invocation_failed" } })}\n\n`;
    }
    switch (event) {
      case "text_delta":
        return frame(event, data, -1);
      case "tool_end":
        return publicTools.test(String(data.name))
          ? frame(event, { name: data.name, id: data.id, output: data.output }, -1)
          : "";
      case "on_error":
        return frame(event, { message: "The assistant is not available." }, -1);
      case "aborted":
        return frame(event, {}, -1);
      case "done":
        this.#done = data;
        return "";
      default:
        return "";
    }
  }
}
