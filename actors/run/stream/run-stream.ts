import { frame, textFrames, thinkingFrames } from "../../../bus/frames/frames.ts";
import type { RunOutput } from "../../../bus/frames/output.ts";
import type { ModelCall } from "../../models/provider.ts";
import type { EventLog } from "../event-log/event-log.ts";
import type { TextPace } from "./text-pace.ts";

/** Max characters since the last committed event that a late subscriber receives. */
const liveTextMax = 256 * 1024;

/** Text sent since the last committed event; empty if it was too long. */
export interface LiveText {
  readonly text: string;
  readonly truncated: boolean;
}

/** The receivers of a stream: the caller of the run, and the subscribers of its thread. */
interface Receivers {
  readonly output: RunOutput;
  readonly eventLog: Pick<EventLog, "durableSeq" | "publish">;
  readonly pace: TextPace;
}

/**
 * Everything that an agent sends while its run is live: text, thinking and frames. The caller and the subscribers of the thread
 * get the same text. Subscribers get frames about stored events from the thread, so a plain `frame` goes to the caller alone.
 */
export class RunStream {
  /** Output to the caller. */
  readonly output: RunOutput;
  /** True for a hidden sub-agent, whose text only its parent agent reads. */
  readonly isMute: boolean;
  /** The model call whose text is sent. It is paused while the caller's connection is full; null between calls. */
  call: ModelCall | null = null;
  readonly #eventLog: Receivers["eventLog"];
  readonly #pace: TextPace;
  /** The stream of the agent that the caller asked. It tracks the events that were announced to the caller. */
  readonly #root: RunStream;
  /** Sequence number after the last event that a frame has announced to the caller. */
  #announcedSeq: number;
  #liveText = "";
  /** Text that waits for the next beat of the pace. */
  #gathered = "";
  #hasSpoken = false;

  /** `over` is the stream of the parent agent; null for the agent that the caller asked. */
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

  /** The sequence number for a frame that announces no event. */
  get announcedSeq(): number {
    return this.#root.#announcedSeq;
  }

  /** Records that all sent text is in the log. */
  committed(): void {
    this.#liveText = "";
  }

  /** Sends text of the model. On a busy thread the text is gathered until the next beat, except for the first text of a turn. */
  say(delta: string): void {
    if (this.isMute) return;
    const isFirst = this.#gathered === "";
    this.#gathered += delta;
    if (!this.#pace.isBusy || !this.#hasSpoken) this.flush();
    else if (isFirst) this.#pace.onBeat(() => this.flush());
  }

  /**
   * Sends gathered text. It precedes every other frame and the write of the text. Pauses the model while the caller's connection
   * is full.
   */
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

  /** Sends a frame to the caller. `id` is the sequence number after the events that it announces. */
  frame(name: string, data: unknown, id: number = this.#eventLog.durableSeq): void {
    this.flush();
    this.announced(id);
    this.output.frame(name, data, id);
  }

  /** Sends a frame to the caller and to the subscribers. The subscribers have received every durable event. */
  frameToAll(name: string, data: unknown, id?: number): void {
    this.frame(name, data, id);
    this.publish(() => frame(name, data, this.#eventLog.durableSeq));
  }

  /**
   * Does the same for a frame within a call. Such a frame announces no event: a parallel call may have stored one that the caller
   * has not seen. A client that reconnects with the frame's id receives that event.
   */
  frameInCall(name: string, data: unknown): void {
    this.frameToAll(name, data, this.announcedSeq);
  }

  /** Sends the progress of a long phase to the caller and to the subscribers. */
  progress(data: Readonly<Record<string, unknown>>): void {
    if (this.isMute) return;
    this.frame("session_progress", data, -1);
    this.publish(() => frame("session_progress", data, -1));
  }

  /** Sends frames to the subscribers of the thread. They are encoded only if there are any. */
  publish(frames: () => string): void {
    this.#eventLog.publish(frames);
  }

  /** Records that events below `seq` were announced to the caller. */
  announced(seq: number): void {
    if (seq > this.#root.#announcedSeq) this.#root.#announcedSeq = seq;
  }
}
