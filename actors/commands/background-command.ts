import type { Env, Timer } from "../../bus/env.ts";
import type { CommandState, CommandStatus, StartedCommand } from "../../bus/protocol/commands.ts";
import { soundText } from "../../bus/sound-text.ts";
import type { OutputStream, RunningCommand } from "../../governance/processes/spawner.ts";
import type { CommandExit } from "../../governance/processes/spawner-frames.ts";

/** Bytes of both streams after which a command is ended. */
const outputBytesMax = 8 * 1024 * 1024;
/** Unread bytes of each stream that are kept: the last ones. */
const unreadBytesMax = 64 * 1024;

/** Why a command was ended. */
type Ending = "killed" | "timed_out" | "output_exceeded";

/** One background command: its state, and the output that no one has read. */
export class BackgroundCommand {
  readonly asked: StartedCommand;
  readonly #env: Pick<Env, "monotonic" | "timer">;
  readonly #startedAt: number;
  readonly #streams = { stdout: new Unread(), stderr: new Unread() };
  #command: RunningCommand | null = null;
  #timeout: Timer | null = null;
  #status: CommandStatus = "running";
  #exitCode: number | null = null;
  #written = 0;
  /** Why the command was ended, until it has. */
  #ending: Ending | null = null;
  #tookMs: number | null = null;
  /** Called at the next output, and at the end. */
  #waiting: (() => void)[] = [];

  constructor(asked: StartedCommand, env: Pick<Env, "monotonic" | "timer">) {
    this.asked = asked;
    this.#env = env;
    this.#startedAt = env.monotonic();
  }

  get status(): CommandStatus {
    return this.#status;
  }

  get exitCode(): number | null {
    return this.#exitCode;
  }

  /** Follows the command to its end. Resolves then. */
  async follow(command: RunningCommand): Promise<void> {
    this.#command = command;
    this.#timeout = this.#env.timer(this.asked.timeout_ms, () => this.#end("timed_out"));
    if (this.#ending !== null) command.kill();
    void command.write(Buffer.from(this.asked.stdin)).then(() => command.endInput());
    const { code, failure } = await command.exit;
    this.#timeout.cancel();
    this.#exitCode = code;
    this.finish(statusOf(this.#ending, failure));
  }

  /** Ends the command without one: it could not be started. */
  finish(status: CommandStatus): void {
    this.#status = status;
    this.#tookMs = this.#env.monotonic() - this.#startedAt;
    this.#command = null;
    this.#tell();
  }

  /** Takes output of the command. */
  output(stream: OutputStream, bytes: Buffer): void {
    this.#written += bytes.length;
    this.#streams[stream].add(bytes);
    if (this.#written > outputBytesMax) this.#end("output_exceeded");
    this.#tell();
  }

  kill(): void {
    this.#end("killed");
  }

  /** Resolves when there is output or the command has ended, at the latest after `waitMs`. */
  changed(waitMs: number): Promise<void> {
    const { stdout, stderr } = this.#streams;
    if (waitMs === 0 || this.#status !== "running" || stdout.size + stderr.size > 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = this.#env.timer(waitMs, resolve);
      this.#waiting.push(() => {
        timer.cancel();
        resolve();
      });
    });
  }

  /** Resolves when the command has ended, at the latest after `waitMs`. */
  async ended(waitMs: number): Promise<void> {
    const until = this.#env.monotonic() + waitMs;
    while (this.#status === "running" && this.#env.monotonic() < until)
      await new Promise<void>((resolve) => {
        const timer = this.#env.timer(until - this.#env.monotonic(), resolve);
        this.#waiting.push(() => {
          timer.cancel();
          resolve();
        });
      });
  }

  /** Returns the state with the unread output, which is read by this. */
  read(): CommandState {
    const isOver = this.#status !== "running";
    return {
      status: this.#status,
      exit_code: this.#exitCode,
      stdout: this.#streams.stdout.take(isOver),
      stderr: this.#streams.stderr.take(isOver),
      duration_ms: Math.round(this.#tookMs ?? this.#env.monotonic() - this.#startedAt),
    };
  }

  #end(why: Ending): void {
    if (this.#status !== "running") return;
    this.#ending ??= why;
    this.#command?.kill();
  }

  #tell(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const work of waiting) work();
  }
}

function statusOf(ending: CommandStatus | null, failure: CommandExit["failure"]): CommandStatus {
  if (failure === "lost") return "lost";
  if (ending !== null) return ending;
  return failure === undefined ? "exited" : "failed";
}

/** The unread bytes of one stream, at most the last 64 KiB. */
class Unread {
  #parts: Buffer[] = [];
  #skipped = 0;
  size = 0;

  add(bytes: Buffer): void {
    this.#parts.push(bytes);
    this.size += bytes.length;
    while (this.size > unreadBytesMax) {
      const first = this.#parts[0] as Buffer;
      const over = Math.min(this.size - unreadBytesMax, first.length);
      if (over === first.length) this.#parts.shift();
      else this.#parts[0] = first.subarray(over);
      this.size -= over;
      this.#skipped += over;
    }
  }

  /** Returns the text and forgets it. A character whose last bytes may still come stays, unless `isOver`. */
  take(isOver: boolean): string {
    const bytes = Buffer.concat(this.#parts);
    const cut = isOver ? bytes.length : bytes.length - openBytes(bytes);
    const mark = this.#skipped === 0 ? "" : "[truncated]\n";
    this.#parts = cut === bytes.length ? [] : [bytes.subarray(cut)];
    this.size = bytes.length - cut;
    this.#skipped = 0;
    return mark + soundText(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(0, cut)));
  }
}

/** Returns the number of bytes at the end that begin a character and do not complete it. */
function openBytes(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] as number;
    if ((byte & 0b1100_0000) === 0b1000_0000) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}
