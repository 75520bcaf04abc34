// Frames between svc and its spawner process: four bytes of length, one of kind, four for the number of the job, then the payload.

/** The kind of a frame, and its byte. */
export const frameKinds = {
  /** To the spawner: JSON of SpawnJob. */
  start: 1,
  /** To the spawner: bytes for standard input; an empty payload closes it. */
  input: 2,
  /** To the spawner: ends the job. */
  kill: 3,
  /** To the spawner: the bytes of output that were taken, as decimal text. */
  taken: 4,
  /** From the spawner: bytes of standard output. */
  stdout: 5,
  /** From the spawner: bytes of standard error. */
  stderr: 6,
  /** From the spawner: the oldest input was taken. */
  written: 7,
  /** From the spawner: JSON of CommandExit; the last frame of a job. */
  exit: 8,
} as const;

/** A frame. */
export interface SpawnerFrame {
  readonly kind: number;
  readonly job: number;
  readonly payload: Buffer;
}

/** What the spawner starts. */
export interface SpawnJob {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Absolute path; null for the root directory. */
  readonly folder: string | null;
  /** True if `argv` starts a sandbox with processes of its own, in which the command is the second level. */
  readonly isSandbox: boolean;
  /** Max processes below the job where the kernel does not limit them: for the superuser. */
  readonly processesMax: number;
  /** Bytes of each stream that are passed on: the first half and the last. Null for all. */
  readonly keepBytes: number | null;
  /** Text for descriptor 3 of the command. No environment, argument or file contains it. Absent for none. */
  readonly secret?: string;
}

/** Why a command could not start, or was ended by others than its caller. */
export const commandFailures = ["not_found", "not_started", "too_many_processes", "lost"] as const;

/** How a command ended. `failure` says why it could not start, or why it was ended by others than its caller. */
export interface CommandExit {
  /** Null if a signal ended it, or if it did not start. */
  readonly code: number | null;
  readonly signal: string | null;
  readonly failure?: (typeof commandFailures)[number];
  /** Bytes of each stream that were left out after the first half of `keepBytes`; absent for none. */
  readonly skipped?: { readonly stdout: number; readonly stderr: number };
}

/** Output that a job may send before svc has taken it. Then the spawner stops reading the pipes of the job. */
export const untakenBytesMax = 256 * 1024;
/** The payload of a frame is never longer; the largest is the start of a job. */
export const frameBytesMax = 4 * 1024 * 1024;

const headBytes = 9;

/** Encodes a frame. */
export function encodeFrame(kind: number, job: number, payload: Uint8Array | string): Buffer {
  const bytes = typeof payload === "string" ? Buffer.from(payload) : payload;
  const frame = Buffer.allocUnsafe(headBytes + bytes.length);
  frame.writeUInt32BE(bytes.length, 0);
  frame.writeUInt8(kind, 4);
  frame.writeUInt32BE(job, 5);
  frame.set(bytes, headBytes);
  return frame;
}

/** Splits a stream of bytes into frames. Throws RangeError for a frame that is too long. */
export class FrameReader {
  #parts: Buffer[] = [];
  #length = 0;

  /** Takes the next bytes and returns the frames that they complete. */
  take(bytes: Buffer): SpawnerFrame[] {
    this.#parts.push(bytes);
    this.#length += bytes.length;
    const frames: SpawnerFrame[] = [];
    while (this.#length >= headBytes) {
      const first = this.#parts[0] as Buffer;
      // Bytes are joined only for a head that is split, and for a frame that is complete.
      const head = first.length >= headBytes ? first : this.#join();
      const size = head.readUInt32BE(0);
      if (size > frameBytesMax) throw new RangeError(`a frame of ${size} bytes`);
      const end = headBytes + size;
      if (this.#length < end) break;
      const whole = first.length >= end ? first : this.#join();
      frames.push({
        kind: whole.readUInt8(4),
        job: whole.readUInt32BE(5),
        payload: whole.subarray(headBytes, end),
      });
      this.#length -= end;
      if (whole.length === end) this.#parts.shift();
      else this.#parts[0] = whole.subarray(end);
    }
    return frames;
  }

  #join(): Buffer {
    const whole = Buffer.concat(this.#parts);
    this.#parts = [whole];
    return whole;
  }
}
