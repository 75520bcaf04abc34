import { batch, computed, signal } from "@preact/signals";
import { call, follow, runTurn } from "../../core/api.js";
import { suffixOf } from "../../core/format.js";
import { onNews, tell } from "../../core/live.js";
import { entriesOf, newTurn, takeFrame } from "./blocks.js";
import { Tree } from "./tree.js";

/** The facts of a thread that does not exist yet. */
const fresh = { name: null, manifest: null, phase: "idle", todos: [], labels: {}, feedback: {}, queuedSteerCount: 0 };

/** A thread on the screen: its stored events, and the turn that runs now. */
export class Thread {
  /** The facts of the snapshot without its events. */
  facts = signal(fresh);
  tree = signal(new Tree());
  /** The live turn; null while none runs. */
  live = signal(null);
  /** The message that was sent and is not stored yet. */
  pending = signal(null);
  state = signal("loading");
  error = signal(null);
  entries = computed(() => entriesOf(this.tree.value.path()));
  todos = computed(() => this.live.value?.todos ?? this.facts.value.todos ?? []);
  isBusy = computed(() => this.live.value !== null);
  #stop = null;
  #frame = 0;
  /** The live turn as its frames change it. */
  #turnNow = null;
  #forgetNews;

  constructor(id, isNew) {
    this.id = id;
    if (isNew) this.state.value = "idle";
    else void this.load();
    this.#forgetNews = onNews(({ kind, thread_id, isOwn }) => {
      const isMine = kind === "thread" && suffixOf(thread_id) === id && !isOwn;
      if (this.live.value === null && (kind === "reset" || isMine)) void this.load();
    });
  }

  /** Stops listening. A run on the server continues. */
  close() {
    this.#forgetNews();
    this.#stop?.abort();
  }

  /** Reads the thread, and listens to the turn that runs in it. */
  async load() {
    try {
      const { transcript, leafId, ...facts } = await call("GET /chat/sessions/{thread_id}", {
        thread_id: this.id,
        branches: "all",
      });
      batch(() => {
        this.facts.value = facts;
        this.tree.value = new Tree(transcript, leafId);
        this.state.value = "idle";
        this.error.value = null;
        this.pending.value = null;
      });
      if (facts.phase === "turn" && this.#stop === null) void this.#listen(facts);
    } catch (error) {
      batch(() => {
        this.error.value = error;
        // What was read before stays.
        if (this.state.value !== "idle") this.state.value = "failed";
      });
    }
  }

  /** Starts a turn with a message. */
  async send(text, { manifest, attachments = [] }) {
    this.pending.value = { text, attachments };
    const message = {
      role: "user",
      content: text,
      ...(attachments.length > 0 && { attachments: attachments.map(sentAttachment) }),
    };
    await this.#turn((options) => runTurn({ manifest, thread_id: this.id, messages: [message] }, options));
  }

  /** Continues after an abort or an error. */
  async resume() {
    this.live.value = newTurn();
    try {
      await call("POST /chat/continue", { thread_id: this.id });
      this.error.value = null;
    } catch (error) {
      this.error.value = error;
    }
    this.live.value = null;
    await this.load();
  }

  steer(text, kind) {
    return call("POST /chat/steer", { thread_id: this.id, text, kind });
  }

  abort() {
    return call("POST /chat/abort", { thread_id: this.id });
  }

  /** Moves the leaf to an event of any branch. */
  async rewind(eventId) {
    await call("POST /chat/rewind", { thread_id: this.id, event_id: eventId, summarize: false });
    await this.load();
  }

  /** Copies the branch up to an event into a new thread, and returns its suffix. */
  async fork(eventId) {
    const suffix = newThreadId();
    await call("POST /chat/fork", { thread_id: this.id, new_thread_id: suffix, from_event_id: eventId });
    return suffix;
  }

  async rate(eventId, rating) {
    const { feedback } = await call("POST /chat/sessions/feedback", { thread_id: this.id, event_id: eventId, rating });
    this.facts.value = { ...this.facts.value, feedback: { ...this.facts.value.feedback, [eventId]: feedback } };
  }

  async rename(name) {
    await call("POST /chat/sessions/name", { thread_id: this.id, name });
    this.facts.value = { ...this.facts.value, name };
  }

  async #turn(start) {
    const stop = new AbortController();
    this.#stop = stop;
    const turn = newTurn();
    this.live.value = turn;
    this.error.value = null;
    try {
      for await (const frame of start({ signal: stop.signal, onState: (state) => this.#connection(turn, state) })) {
        takeFrame(turn, frame);
        this.#show(turn);
      }
    } catch (error) {
      if (stop.signal.aborted) return;
      this.error.value = error;
    } finally {
      cancelAnimationFrame(this.#frame);
      this.#stop = null;
    }
    if (turn.error !== "") this.error.value = Object.assign(new Error(turn.error), { isTurn: true });
    const failedBefore = this.error.value !== null && turn.blocks.length === 0;
    const said = this.pending.value;
    const kept = this.error.value;
    await this.load();
    this.live.value = null;
    tell({ kind: "thread", thread_id: `:${this.id}`, isOwn: true });
    if (kept !== null) this.error.value = kept;
    // A refused message returns to the composer.
    if (
      failedBefore &&
      said !== null &&
      !this.entries.value.some(({ type, text }) => type === "user" && text === said.text)
    )
      this.returned.value = said;
  }

  /** A message that the server refused. */
  returned = signal(null);

  #connection(turn, state) {
    turn.isLost = state === "lost";
    this.#show(turn);
  }

  /** Renders a changed turn at most once for each frame of the screen. */
  #show(turn) {
    this.#turnNow = turn;
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => {
      // Copies, because an unchanged object tells a part that it need not render again.
      if (this.live.value !== null) this.live.value = { ...turn, blocks: turn.blocks.map((block) => ({ ...block })) };
    });
  }

  /** Changes a block of the live turn after a person has answered it. */
  settle(id, change) {
    const block = this.#turnNow?.blocks.find((each) => each.id === id);
    if (!block) return;
    Object.assign(block, change);
    this.#show(this.#turnNow);
  }

  /** Shows a turn that another client has started. */
  async #listen({ wake, openQuestions = [] }) {
    const stop = new AbortController();
    this.#stop = stop;
    const turn = newTurn();
    for (const frame of openQuestions) takeFrame(turn, frame);
    this.live.value = turn;
    try {
      const from = { thread_id: this.id };
      for await (const frame of follow("GET /chat/stream/{thread_id}", from, {
        signal: stop.signal,
        cursor: String(wake.headSeq),
      })) {
        if (frame.event === "session_event") this.#store(turn, frame.data);
        else takeFrame(turn, frame);
        this.#show(turn);
        const { event, data } = frame;
        const isEnd =
          event === "session_event" && data.kind === "message" && data.role === "assistant" && !data.tool_calls;
        if (isEnd || event === "final" || event === "on_error") break;
      }
    } catch (error) {
      if (!stop.signal.aborted) this.error.value = error;
    }
    if (stop.signal.aborted) return;
    stop.abort();
    this.#stop = null;
    this.live.value = null;
    await this.load();
  }

  /** Adds a stored event to the branch, and removes what the turn has shown of it. */
  #store(turn, { id, seq, kind, role, content, name, tool_call_id, tool_calls, metadata = {} }) {
    const tree = this.tree.value;
    if (tree.events.has(id)) return;
    tree.add({
      ...{
        id,
        seq,
        kind,
        role,
        content,
        metadata,
        parentId: tree.leafId,
        timestamp: Date.now(),
        status: metadata.status ?? "complete",
      },
      ...{ toolCallId: tool_call_id, toolName: name, toolCalls: tool_calls },
    });
    const next = Object.assign(new Tree(), { events: tree.events, children: tree.children, leafId: id });
    this.tree.value = next;
    turn.blocks = turn.blocks.filter((block) => {
      if (role === "assistant" && (block.type === "text" || block.type === "thinking")) return false;
      return !(kind === "tool_result" && block.id === tool_call_id);
    });
  }
}

/** Returns the suffix of a thread that does not exist yet. */
export function newThreadId() {
  const random = crypto.getRandomValues(new Uint32Array(2));
  return `c-${Date.now().toString(36)}-${random[0].toString(36)}${random[1].toString(36)}`.slice(0, 28);
}

function sentAttachment({ file_id, media_type, filename }) {
  return { url: `svc-file://${file_id}`, media_type, filename };
}
