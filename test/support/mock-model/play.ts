import type { Socket } from "node:net";
import type { Op } from "./script.ts";

/** The end of an answer: sent whole, or the connection is gone. */
export type Ending = "sent" | "gone";

/** Plays an answer on a connection and reports its end once. The common answer, one write, ends before this returns. */
export function playOps(socket: Socket, ops: readonly Op[], ended: (ending: Ending) => void): void {
  const only = ops[0];
  if (ops.length === 1 && only instanceof Uint8Array) {
    socket.write(only);
    ended("sent");
    return;
  }
  new Player(socket, ops, ended).run();
}

class Player {
  readonly #socket: Socket;
  readonly #ops: readonly Op[];
  readonly #ended: (ending: Ending) => void;
  #next = 0;
  #timer: NodeJS.Timeout | undefined;
  #over = false;
  readonly #onClose = () => this.#end("gone");

  constructor(socket: Socket, ops: readonly Op[], ended: (ending: Ending) => void) {
    this.#socket = socket;
    this.#ops = ops;
    this.#ended = ended;
    socket.once("close", this.#onClose);
  }

  run(): void {
    let op = this.#ops[this.#next++];
    while (op instanceof Uint8Array && !this.#over) {
      this.#socket.write(op);
      op = this.#ops[this.#next++];
    }
    if (op === undefined) this.#end("sent");
    else if (!this.#over && !(op instanceof Uint8Array)) this.#start(op);
  }

  #start(op: Exclude<Op, Uint8Array>): void {
    if ("paced" in op) this.#pace(op.paced, op.gapMs, performance.now(), 0);
    else if ("waitMs" in op) this.#after(op.waitMs, () => this.run());
    else if ("endless" in op) this.#repeat(op.endless, op.gapMs, op.bytesMax);
    else if ("cut" in op) {
      if (op.cut === "end") this.#socket.destroySoon();
      else this.#socket.resetAndDestroy();
    } else if (op.hold !== "forever") {
      const go = () => this.run();
      op.hold.then(go, go);
    }
  }

  /** Piece n is due n gaps after the first; overdue pieces go out in one write. */
  #pace(pieces: readonly Uint8Array[], gapMs: number, startMs: number, from: number): void {
    const due = Math.floor((performance.now() - startMs) / gapMs) + 1;
    const to = Math.min(Math.max(due, from + 1), pieces.length);
    const first = pieces[from];
    if (first !== undefined) this.#socket.write(to - from === 1 ? first : Buffer.concat(pieces.slice(from, to)));
    if (to >= pieces.length) this.run();
    else this.#after(startMs + to * gapMs - performance.now(), () => this.#pace(pieces, gapMs, startMs, to));
  }

  #repeat(bytes: Uint8Array, gapMs: number, bytesLeft: number): void {
    if (this.#over) return;
    if (bytesLeft < bytes.length) {
      this.#socket.destroySoon();
      return;
    }
    const again = () => this.#repeat(bytes, gapMs, bytesLeft - bytes.length);
    if (!this.#socket.write(bytes)) this.#socket.once("drain", again);
    else if (gapMs > 0) this.#after(gapMs, again);
    else setImmediate(again);
  }

  #after(delayMs: number, work: () => void): void {
    this.#timer = setTimeout(work, delayMs);
  }

  #end(ending: Ending): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#timer);
    this.#socket.off("close", this.#onClose);
    this.#ended(ending);
  }
}
