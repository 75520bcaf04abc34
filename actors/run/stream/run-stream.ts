import { frame, textFrames, thinkingFrames } from "../../../bus/frames/frames.ts";
import type { RunOutput } from "../../../bus/frames/output.ts";
import type { ModelCall } from "../../models/provider.ts";
import type { EventLog } from "../event-log/event-log.ts";
import type { TextPace } from "./text-pace.ts";

/** Max characters since the last committed event that a late listener still gets. */
const liveTextMax = 256 * 1024;

/** Text that was sent since the last committed event; empty where it was too long. */
export interface LiveText {
  readonly text: string;
  readonly truncated: boolean;
}

/** Where a stream sends to: the caller of the run, and the listeners of its thread. */
interface Receivers {
  readonly output: RunOutput;
  readonly eventLog: Pick<EventLog, "durableSeq" | "publish">;
  readonly pace: TextPace;
}

/**
 * All that an agent sends while its run is live: text, thoughts and frames, for the caller and for the listeners of the thread. Listeners get
 * the same text; frames about stored events reach them from the thread, so a plain `frame` is for the caller alone.
 */
export class RunStream {
  /** The caller's end. */
  readonly output: RunOutput;
  /** True for a sub-agent whose text only the agent that asked it reads. */
  readonly isMute: boolean;
  /** The model call whose text is sent. It is paused while the caller does not read; null between calls. */
  call: ModelCall | null = null;
  readonly #eventLog: Receivers["eventLog"];
  readonly #pace: TextPace;
  /** The stream of the agent that the caller asked: it knows which events the caller was sent. */
  readonly #root: RunStream;
  /** The caller was sent the events below it, as far as frames report events. */
  #announcedSeq: number;
  #liveText = "";
  /** Text that waits for the next beat. */
  #gathered = "";
  #hasSpoken = false;

  /** `over` is the stream of the agent that has asked this one; null for the agent that the caller asked. */
  constructor({ output, eventLog, pace }: Receivers, over: RunStream | null, isMute: boolean) {
    this.output = output;
    this.isMute = isMute;
    this.#eventLog = eventLog;
    this.#pace = pace;
    this.#root = over === null ? this : over.#root;
    this.#announcedSeq = eventLog.durableSeq;
  }

  get live(): LiveText {
    const truncated = this.#liveText.length > liveTextMax;
    return { text: truncated ? "" : this.#liveText, truncated };
  }

  /** The sequence number that a frame names which reports no event. */
  get announcedSeq(): number {
    return this.#root.#announcedSeq;
  }

  /** All text that was sent is in the log now. */
  committed(): void {
    this.#liveText = "";
  }

  /** Takes text of the model. The first text of a turn leaves at once, as does all of it while the actor thread keeps up. */
  say(delta: string): void {
    if (this.isMute) return;
    const isFirst = this.#gathered === "";
    this.#gathered += delta;
    if (!this.#pace.isBusy || !this.#hasSpoken) this.flush();
    else if (isFirst) this.#pace.onBeat(() => this.flush());
  }

  /** Sends gathered text: before anything else is sent, and before it is written. Pauses the model while the caller does not read. */
  flush(): void {
    const delta = this.#gathered;
    if (delta === "") return;
    this.#gathered = "";
    this.#hasSpoken = true;
    if (this.#liveText.length <= liveTextMax) this.#liveText += delta;
    this.output.text(delta);
    this.#eventLog.publish(() => textFrames(delta));
    if (!this.output.writable && this.call !== null) {
      const { call } = this;
      call.pause();
      this.output.onWritable(() => call.resume());
    }
  }

  think(delta: string): void {
    if (this.isMute) return;
    this.flush();
    this.output.thinking(delta);
    this.#eventLog.publish(() => thinkingFrames(delta));
  }

  /** Sends the caller a frame. `id` is the sequence number behind the events that it reports. */
  frame(name: string, data: unknown, id: number = this.#eventLog.durableSeq): void {
    this.flush();
    this.announced(id);
    this.output.frame(name, data, id);
  }

  /** Sends a frame to the caller and to the listeners, who have received every durable event. */
  frameToAll(name: string, data: unknown, id?: number): void {
    this.frame(name, data, id);
    this.publish(() => frame(name, data, this.#eventLog.durableSeq));
  }

  /**
   * The same for a frame within a call. It reports no event, while a parallel call may have stored one that the caller was not sent yet. A
   * client that reconnects with its id gets that event.
   */
  frameInCall(name: string, data: unknown): void {
    this.frameToAll(name, data, this.announcedSeq);
  }

  /** Says that a long phase of the run is under way, to the caller and to the listeners. */
  progress(data: Readonly<Record<string, unknown>>): void {
    if (this.isMute) return;
    this.frame("session_progress", data, -1);
    this.publish(() => frame("session_progress", data, -1));
  }

  /** Frames for the listeners of the thread alone; made only when there are any. */
  publish(frames: () => string): void {
    this.#eventLog.publish(frames);
  }

  /** The caller was sent the events below `seq`. */
  announced(seq: number): void {
    if (seq > this.#root.#announcedSeq) this.#root.#announcedSeq = seq;
  }
}
