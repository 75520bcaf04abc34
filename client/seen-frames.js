/** Remembers what a consumer has received, and turns the frames of a reconnected stream into those that it misses. */
export class SeenFrames {
  constructor() {
    /** @type {number | null} The sequence number of the next event that the client has not seen. */
    this.cursor = null;
    /** @type {string | null} The token of a durable run. */
    this.runToken = null;
    /** True after the last frame of the turn. */
    this.isOver = false;
    /** Text since the last committed message. */
    this.said = "";
    /** Text of a replay that the consumer has already. */
    this.repeated = "";
    /** @type {{ role: string, content: string }[]} Messages that arrived as events of the log. */
    this.messages = [];
  }

  /**
   * Returns what the consumer should get for a received frame.
   * @param {any} frame
   * @returns {any[]}
   */
  take(frame) {
    const { event, data, id } = frame;
    const at = id === undefined ? null : Number(id);
    if (event === "session_event" && at !== null && this.cursor !== null && at <= this.cursor) return [];
    if (at !== null && event !== "snapshot") this.cursor = Math.max(this.cursor ?? 0, at);
    switch (event) {
      case "session_progress":
        return this.#progress(frame);
      case "text_delta":
        return this.#text(frame);
      case "session_event":
        return this.#logged(frame);
      case "run_accepted":
        if (this.runToken !== null) return [];
        this.runToken = data.resume_token;
        return [frame];
      case "done":
      case "final":
        this.isOver = true;
        return [frame];
      case "tool_start":
      case "steer":
      case "follow_up":
        this.said = "";
        return [frame];
      default:
        return [frame];
    }
  }

  /**
   * Returns the last frame of a turn whose own last frame was lost, from its events in the log.
   * @returns {any[]}
   */
  ending() {
    const last = this.messages.findLast(({ role }) => role === "assistant");
    const data = { final: last ?? null, messages: this.messages, stop_reason: "unknown" };
    this.isOver = true;
    return this.messages.length === 0 ? [] : [{ event: "done", type: "done", data, text: "" }];
  }

  /** @param {any} frame */
  #progress(frame) {
    // The next frame has the same text.
    if (frame.data.progress !== undefined) return [];
    if (frame.data.replay !== true) return [frame];
    if (frame.data.truncated !== true) {
      this.repeated = this.said;
      return [];
    }
    this.said = "";
    return [frame];
  }

  /** @param {any} frame */
  #text(frame) {
    const { delta } = frame.data;
    if (this.repeated === "") {
      this.said += delta;
      return [frame];
    }
    if (delta.startsWith(this.repeated)) {
      const rest = delta.slice(this.repeated.length);
      this.repeated = "";
      this.said += rest;
      return rest === "" ? [] : [textFrame(rest)];
    }
    if (this.repeated.startsWith(delta)) {
      this.repeated = this.repeated.slice(delta.length);
      return [];
    }
    this.repeated = "";
    this.said = delta;
    return [discardFrame, frame];
  }

  /** @param {any} frame */
  #logged(frame) {
    const { role, content, kind } = frame.data;
    if (kind !== "message" || typeof content !== "string") return [frame];
    this.messages.push({ role, content });
    if (role !== "assistant") return [frame];
    const { said } = this;
    this.said = "";
    this.repeated = "";
    if (content === said || content === "") return [frame];
    if (content.startsWith(said)) return [textFrame(content.slice(said.length)), frame];
    return [discardFrame, textFrame(content), frame];
  }
}

/** Tells a consumer to discard its uncommitted text. */
const discardFrame = {
  event: "session_progress",
  type: "session_progress",
  data: { phase: "turn", replay: true },
  text: "",
};

/** @param {string} delta */
function textFrame(delta) {
  return { event: "text_delta", type: "text_delta", data: { chunk: { content: delta }, delta }, text: delta };
}
